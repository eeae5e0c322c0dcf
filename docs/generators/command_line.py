"""The page docs/command-line.md: commands, options and exit codes, from their tables.

python -m docs.generators.command_line > docs/command-line.md
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from hloc.cli.commands import COMMANDS, COMPILE_COMMAND
from hloc.cli.help import summaries
from hloc.cli.options import ALL, OPTIONS, Option
from hloc.limits import LIMIT_ROWS, LimitRow
from hloc.report.exits import EXIT_CODES

_NOTES = {
    "Inspect": (
        "A step of the pipeline is one run of one pass; in a fixpoint, every round of every pass "
        "is a step. `--print-changed`, `--dump-dir` and the checks below skip steps that change "
        "nothing. Diffs follow the identity of instructions, which survives renaming and moving, "
        "and name the rule that made each change. The files of `--dump-dir` are complete modules: "
        "`hloc DIR/07-cse.hlo --passes=fusion` goes on with other passes, "
        "`hloc --resume-from=DIR/7` with those of the dump, on a file that may have been edited. "
        "On a terminal the module does not follow a report, which it would scroll away; `-o -` "
        "prints it."
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


def page() -> str:
    """Return the page of the documentation that lists commands, options and exit codes."""
    lines = [
        "# The command line",
        "",
        "Made by `make docs` from `hloc/cli/options.py` and `hloc/cli/commands.py`: do not edit.",
        "",
        "stdout carries the product (HLO text, LLVM IR, results), stderr everything else. A file "
        "`-` is stdin.",
        "",
        *_rows("Command", (*_FIRST, *summaries())),
        "",
        "For example:",
        "",
        "```",
        *(f"hloc {e}" for row in (COMPILE_COMMAND, *COMMANDS.values()) for e in row.examples),
        "```",
    ]
    for group in dict.fromkeys(option.group for option in OPTIONS):
        rows = ((o.spelling, f"{o.help} ({_takers(o)})") for o in OPTIONS if o.group == group)
        lines += ["", f"## {group}", "", *_rows("Option", rows)]
        if group in _NOTES:
            lines += ["", *_wrapped(_NOTES[group])]
    limits = ((row.name, f"{row.what}; {_default(row)}") for row in LIMIT_ROWS)
    lines += ["", "## Limits", "", *_rows("Limit", limits), "", *_wrapped(_LIMITS)]
    codes = ((str(int(code)), meaning) for code, meaning in EXIT_CODES)
    lines += ["", "## Exit codes", "", *_rows("Code", codes)]
    return "\n".join(lines) + "\n"


_FIRST = (
    ("hloc FILE...", "compile HLO text, and run it with --run"),
    ("hloc help COMMAND", "show the options of a command"),
)


_LIMITS = (
    "`--limit=NAME=N` changes a limit for one command, the environment variable `HLOC_LIMITS` with "
    "the same text for processes, `hloc.limits.limited(run_seconds=60)` for a part of a Python "
    "program. Time is looked at between passes, between the units that LLVM compiles, and at each "
    "computation of the evaluator. `--memory-limit` bounds the memory of a run; without it that is "
    "the memory of the machine. Fixed limits: 128 nested brackets, 50 computations inside each "
    "other, 100 calls inside each other in the evaluator, 60 nested messages of a protocol buffer, "
    "250,000 instructions after calls are flattened. What constant folding may do is an option of "
    "the pass (`hloc explain constant-folding`); it folds no loops."
)


def _wrapped(text: str) -> list[str]:
    return wrap(text, 100, break_on_hyphens=False)


def _default(row: LimitRow) -> str:
    if not row.default:
        return "no limit unless it is given"
    if row.name.endswith("-bytes"):
        return f"{row.default >> 30}G"
    return f"{row.default:,}"


def _takers(option: Option) -> str:
    if option.commands == ALL:
        return "all commands"
    return ", ".join(f"`{f'hloc {name}'.strip()}`" for name in option.commands)


def _rows(title: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a table; bars inside a cell are escaped."""
    cells = ((left.replace("|", "\\|"), right.replace("|", "\\|")) for left, right in rows)
    return [f"| {title} | |", "|---|---|", *(f"| `{left}` | {right} |" for left, right in cells)]


if __name__ == "__main__":
    print(page(), end="")
