"""Which subcommand a command line names, and its words.

An option before the subcommand applies to whatever command follows: `hloc --target=nvptx64
--simulate` can stand where a script expects the name of a program, and may be followed by `parse`
as well as by `run`. Commands without such an option ignore it there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hloc.cli.commands import COMMANDS
from hloc.cli.options import OPTIONS, Option
from hloc.errors import HloError, printable
from hloc.near_names import did_you_mean
from hloc.report.exits import UsageError


def command_and_words(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the subcommand, "" if none is named, and the words that are for it.

    Raises:
        UsageError: `help` with a word that is no command.
    """
    if words[:1] == ["help"]:
        words = [*_command_to_explain(words[1:]), "--help"]
    first: list[tuple[list[Option], Sequence[str]]] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        rows = _rows(words[at])
        end = at + 1 + any(_takes_next(row, words[at]) for row in rows)
        first.append((rows, words[at:end]))
        at = end
    if at >= len(words) or words[at] not in COMMANDS:
        return "", list(words)
    command = words[at]
    kept: list[str] = []
    for rows, option in first:
        if not rows or any(command in row.commands for row in rows):
            kept += option
    return command, [*kept, *words[at + 1 :]]


def _command_to_explain(words: Sequence[str]) -> Sequence[str]:
    """Return the command that `hloc help` asks about, nothing for the program itself."""
    for word in words[:1]:
        if word not in COMMANDS:
            raise UsageError(f"no command named {word!r}{_other_help(word)}")
    return words[:1]


def _other_help(word: str) -> str:
    """Return a hint to the help on `word`: another command, a pass, a rule, an opcode."""
    near = did_you_mean(word, COMMANDS)
    if near:
        return near
    from hloc.report.explanation import explanation_of

    try:
        explanation_of(word)
    except HloError:
        return ""
    return f"; `hloc explain {word}` tells what it is"


def _rows(word: str) -> list[Option]:
    """Return the options of all commands that `word` may stand for."""
    flag = word.partition("=")[0] if word.startswith("--") else word[:2]
    return [row for row in OPTIONS if flag in row.flags or word in row.flags]


def _takes_next(row: Option, word: str) -> bool:
    return word in row.flags and bool(row.metavar) and row.implied is None


def check_not_a_command(name: str) -> None:
    """Raise HloError for a folder, or a missing file whose name is a command, or nearly one."""
    if os.path.isdir(name):
        shown = printable(name)
        note = f"hloc doctor {shown} explains what XLA wrote with --xla_dump_to, "
        note += f"hlo-repl {shown} steps through it"
        raise HloError(f"cannot read {printable(name)}: is a directory", notes=(note,))
    if name == "-" or os.path.exists(name):
        return
    if name in COMMANDS:
        note = f"the command comes first: hloc {name} ..."
    elif hint := did_you_mean(name, COMMANDS):
        note = f"no such file or command{hint}"
    else:
        return
    raise HloError(f"cannot read {printable(name)}: no such file", notes=(note,))
