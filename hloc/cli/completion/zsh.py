"""Completion of `hloc` in zsh, with a description of each option."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.cli.commands import COMMANDS
from hloc.cli.completion.words import Values, commands, options, positional, values_of
from hloc.cli.options import Option

_HEAD = """\
#compdef hloc
# Completion of hloc for zsh. Use it in this shell:  source <(hloc completion zsh)
# or in all shells:  hloc completion zsh > "${fpath[1]}/_hloc"

_hloc() {
    local command="" word
    local -a commands
    for word in "${(@)words[2,CURRENT-1]}"; do
        case "$word" in
"""

_TAIL = """\
    esac
}

if [ "$funcstack[1]" = "_hloc" ]; then _hloc "$@"; else compdef _hloc hloc; fi
"""


def script() -> str:
    """Return the script."""
    return "".join((_HEAD, *_body(), _TAIL))


def _body() -> Iterator[str]:
    names = "|".join((*COMMANDS, "help"))
    yield f"        {names}) command=$word; break ;;\n        esac\n    done\n    commands=(\n"
    for name, row in COMMANDS.items():
        yield f"        {_quoted(f'{name}:{_escaped(row.summary)}')}\n"
    yield "    )\n"
    yield '    case "$command" in\n'
    for command in commands():
        yield f'    "{command}")\n'
        if not command:
            yield "        [[ $words[CURRENT] == -* ]] || _describe command commands\n"
        specs = [_spec(option) for option in options(command)]
        if command:
            specs += [_quoted(f"1:command:({command})")]
        specs += [_quoted(f"*:word:{_action(positional(command))}")]
        yield "        _arguments -s " + " \\\n            ".join(specs) + " ;;\n"


def _spec(option: Option) -> str:
    """Return an argument of `_arguments`: `--passes=[help]:PIPELINE:_values -s , pass cse dce`."""
    value, join = "", {True: "", False: ""}
    if option.metavar:
        optional = option.implied is not None
        value = f"{':' * optional}:{_escaped(option.metavar)}:{_action(values_of(option))}"
        join = {True: "=-", False: "+"}
    texts = (
        _quoted(f"{flag}{join[flag.startswith('--')]}[{_escaped(option.help)}]{value}")
        for flag in option.flags
    )
    return " ".join(texts)


def _action(values: Values) -> str:
    words = " ".join(values.words)
    if values.is_file:
        return f"{{_files; compadd -- {words}}}" if words else "_files"
    if values.is_list:
        return f"_values -s , name {words}"
    return f"({words})" if words else " "


def _escaped(text: str) -> str:
    for letter in "\\[]:":
        text = text.replace(letter, "\\" + letter)
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
