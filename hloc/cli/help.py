"""The help texts, made from the tables of options and commands."""

from __future__ import annotations

import os
from collections.abc import Iterable
from textwrap import wrap

from hloc.cli.commands import COMMANDS, Command
from hloc.cli.options import ALL, OPTIONS, Option, options_of
from hloc.report.exits import EXIT_CODES

_MARGIN = 28


def help_text(command: str) -> str:
    """Return the help of `command`, "" for the program itself."""
    width = _width()
    lines = _usage(command)
    if not command:
        lines += ["", "Commands:", *_table(_shown(), width)]
    groups = dict.fromkeys(option.group for option in options_of(command))
    for group in groups:
        rows = [option for option in options_of(command) if option.group == group]
        lines += ["", f"{group}:", *_table(((o.spelling, o.help) for o in rows), width)]
    if not command:
        codes = ((str(int(code)), meaning) for code, meaning in EXIT_CODES)
        lines += ["", "Exit codes:", *_table(codes, width)]
    return "\n".join(lines) + "\n"


def _usage(command: str) -> list[str]:
    if command:
        row: Command = COMMANDS[command]
        return [f"usage: hloc {row.usage} [options]", "", *wrap(_sentence(row.summary), _width())]
    return [
        "usage: hloc FILE... [options]        compile HLO text, and run it with --run",
        "       hloc COMMAND ...              one of the commands below",
        "       hloc help COMMAND             the options of a command",
        "",
        "FILE `-` is stdin. Write ./diff for a file with the name of a command.",
    ]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


_NOTES = {
    "Inspect": (
        "A step of the pipeline is one run of one pass; in a fixpoint, every round of every pass "
        "is "
        "a step. `--print-changed`, `--dump-dir` and the checks below skip steps that change "
        "nothing. Diffs follow the identity of instructions, which survives renaming and moving, "
        "and name the rule that made each change. The files of `--dump-dir` are complete modules: "
        "`hloc DIR/07-cse.hlo --passes=fusion` continues from one."
    ),
    "Check": (
        "When a pass or the check after it fails, hloc exits with 70 and writes a reproducer: the "
        "module before that pass, headed by the line `// hloc-repro: --passes=... "
        "--opt-bisect-limit=...`. `hloc FILE.repro.hlo` takes its options from that line, which "
        "cannot name a file or load a plug-in."
    ),
    "Find bugs": (
        "`hloc bisect FILE -O2` runs the module in the evaluator before and after the passes, on "
        "random inputs and special values, and finds the first step and the first rewrite that "
        "changes the results, fails, or leaves an invalid module. It prints the rule and the "
        "instructions, writes a small module with the same fault, and exits with 1, or with 0 if "
        "nothing is wrong. `hloc reduce FILE --test 'COMMAND {}'` reduces a module by any test: "
        "`--test 'hloc {} -O2 -o /dev/null 2>&1 | grep \"internal error\"'`."
    ),
}
"""Group of options -> what the page of the documentation says under its table."""


def markdown() -> str:
    """Return the page of the documentation that lists commands, options and exit codes."""
    lines = [
        "# The command line",
        "",
        "Generated from `hloc/cli/options.py` and `hloc/cli/commands.py` by "
        "`pytest tests/unit/cli --update-golden`.",
        "",
        "stdout carries the product (HLO text, LLVM IR, results), stderr everything else. A file "
        "`-` is stdin.",
        "",
        *_rows("Command", (*_FIRST, *_shown())),
    ]
    for group in dict.fromkeys(option.group for option in OPTIONS):
        rows = ((o.spelling, f"{o.help} ({_takers(o)})") for o in OPTIONS if o.group == group)
        lines += ["", f"## {group}", "", *_rows("Option", rows)]
        if group in _NOTES:
            lines += ["", *wrap(_NOTES[group], 100, break_on_hyphens=False)]
    codes = ((str(int(code)), meaning) for code, meaning in EXIT_CODES)
    lines += ["", "## Exit codes", "", *_rows("Code", codes)]
    return "\n".join(lines) + "\n"


_FIRST = (
    ("hloc FILE...", "compile HLO text, and run it with --run"),
    ("hloc help COMMAND", "show the options of a command"),
)


def _shown() -> list[tuple[str, str]]:
    return [(f"hloc {command.usage}", command.summary) for command in COMMANDS.values()]


def _takers(option: Option) -> str:
    if option.commands == ALL:
        return "all commands"
    return ", ".join(f"`{f'hloc {name}'.strip()}`" for name in option.commands)


def _rows(title: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a table; bars inside a cell are escaped."""
    cells = ((left.replace("|", "\\|"), right.replace("|", "\\|")) for left, right in rows)
    return [f"| {title} | |", "|---|---|", *(f"| `{left}` | {right} |" for left, right in cells)]


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
    text = os.environ.get("COLUMNS", "")
    return min(int(text), 120) if text.isdigit() and int(text) > 40 else 100
