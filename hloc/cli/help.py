"""The help texts, generated from the tables of options and commands."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from hloc.cli.commands import COMMANDS, COMPILE_COMMAND, Command
from hloc.cli.options import options_of
from hloc.report.exits import EXIT_CODES
from hloc.report.folding import terminal_columns

_MARGIN = 28


def help_text(command: str) -> str:
    """Return the help of `command`, "" for the program itself."""
    width = _width()
    lines = _usage(command)
    if not command:
        lines += ["", "Commands:", *_table(summaries(), width)]
    groups = dict.fromkeys(option.group for option in options_of(command))
    for group in groups:
        rows = [option for option in options_of(command) if option.group == group]
        lines += ["", f"{group}:", *_table(((o.spelling, o.help) for o in rows), width)]
    if not command:
        codes = ((str(int(code)), meaning) for code, meaning in EXIT_CODES)
        lines += ["", "Exit codes:", *_table(codes, width)]
    return "\n".join(lines) + "\n"


def _usage(command: str) -> list[str]:
    """Return the lines above the options: how the command is called, what it does, examples."""
    if command:
        row: Command = COMMANDS[command]
        return [
            f"usage: hloc {row.usage} [options]",
            "",
            *wrap(_sentence(row.summary), _width()),
            "",
            *_examples(row),
        ]
    return [
        "usage: hloc FILE... [options]        compile HLO text, and run it with --run",
        "       hloc COMMAND ...              one of the commands below",
        "       hloc help COMMAND             the options of a command",
        "",
        "FILE `-` is stdin. Write ./diff for a file with the name of a command.",
        "",
        *_examples(COMPILE_COMMAND),
    ]


def _examples(row: Command) -> list[str]:
    return ["for example", *(f"  hloc {example}" for example in row.examples)]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def summaries() -> list[tuple[str, str]]:
    """Return the usage of every command, and its description."""
    return [(f"hloc {command.usage}", command.summary) for command in COMMANDS.values()]


def _table(rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    lines: list[str] = []
    for left, right in rows:
        texts = wrap(right, max(30, width - _MARGIN)) or [""]
        if len(left) > _MARGIN - 4:
            lines.append(f"  {left}")
        else:
            lines.append(f"  {left:{_MARGIN - 2}s}{texts.pop(0)}")
        lines += [" " * _MARGIN + text for text in texts]
    return [line.rstrip() for line in lines]


def _width() -> int:
    return min(terminal_columns(), 120)
