"""Completion of `hloc` in fish, with a description of each option."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.cli.commands import COMMANDS
from hloc.cli.completion.words import Values, commands, options, positional, values_of
from hloc.cli.options import Option

_HEAD = """\
# Completion of hloc for fish. Use it in this shell:  hloc completion fish | source
# or in all shells:  hloc completion fish > ~/.config/fish/completions/hloc.fish

# Print the words of the arguments, each prefixed with the list typed so far.
function __hloc_list
    set -l typed (string replace -r '^-[^=]*=' '' -- (commandline -ct))
    set -l first (string match -r '^.*,' -- $typed)
    for word in $argv
        echo "$first$word"
    end
end

complete -c hloc -e
"""


def script() -> str:
    """Return the script."""
    return "".join((_HEAD, *_lines()))


def _lines() -> Iterator[str]:
    known = " ".join((*COMMANDS, "help"))
    none = f"not __fish_seen_subcommand_from {known}"
    for name, row in COMMANDS.items():
        yield f"complete -c hloc -n '{none}' -a {name} -d {_quoted(row.summary)}\n"
    for command in commands():
        when = f"-n '__fish_seen_subcommand_from {command}'" if command else f"-n '{none}'"
        values = positional(command)
        if command and values.words:
            files = "" if values.is_file else " -f"
            yield f"complete -c hloc {when}{files} -a '{' '.join(values.words)}'\n"
        for option in options(command):
            yield f"complete -c hloc {when} {_spec(option)} -d {_quoted(option.help)}\n"


def _spec(option: Option) -> str:
    flags = []
    for flag in option.flags:
        kind = "-l" if flag.startswith("--") else "-s" if len(flag) == 2 else "-o"
        flags.append(f"{kind} {flag.lstrip('-')}")
    needs_value = option.metavar and option.implied is None
    return " ".join((*flags, *(["-r"] if needs_value else []), *_values(values_of(option))))


def _values(values: Values) -> Iterator[str]:
    words = " ".join(values.words)
    if not values.is_file and values.words:
        yield "-f"
    if values.is_list:
        yield f"-a '(__hloc_list {words})'"
    elif words:
        yield f"-a '{words}'"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
