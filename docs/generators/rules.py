"""The page docs/rules.md: every rewrite rule, from its row and the golden cases that show it.

    python -m docs.generators.rules > docs/rules.md

Runs in a checkout, since the cases are in tests/golden/opt.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

from hloc.opt import rules
from hloc.opt.rule import Rule
from hloc.opt.rules import ALL_RULES
from hloc.prove.record import proof_text
from hloc.report.law_text import law

INTRODUCTION = """# Rewrite rules

Made by `make docs` from the rules themselves: do not edit. `algebraic-simplifier` runs them;
`--disable-rule=NAME` leaves one out, `hloc rules WORD` lists them, and `docs/writing-a-rule.md`
tells how to write one.

`x`, `y` ... stand for any instructions, the same letter for the same one; `c`, `d` mostly for
arrays of one value; a word in angle brackets is a condition. Rules that are not *exact* fire with
`--fast-math` only: they may turn -0 into +0 (`ignores-zero-sign`), round differently
(`reassociates`) or be wrong for infinities and NaN (`assumes-finite`). `proofs.md` explains how
rules are proven; property tests cover what no proof reaches, layouts included. The last column is
the first golden case that shows the rule, in `tests/golden/opt/`.
"""

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "opt"


def page() -> str:
    """Return the whole page."""
    cases = golden_cases()
    parts = [INTRODUCTION]
    for title, rows in _themes().items():
        parts += [
            f"## {title}",
            "",
            "| rule | law | exactness | proven by | shown by |",
            "|---|---|---|---|---|",
        ]
        parts += [_row(rule, cases) for rule in rows]
        parts.append("")
    count = sum(rule.exactness == "exact" for rule in ALL_RULES)
    parts.append(f"{len(ALL_RULES)} rules, {count} of them exact.\n")
    return "\n".join(parts)


def golden_cases() -> dict[str, str]:
    """Return by rule the file and the name of the first case in which it fires."""
    found: dict[str, str] = {}
    for path in sorted(GOLDEN.glob("*.hlo")):
        case = ""
        for line in path.read_text().splitlines():
            key, _, value = line.partition(": ")
            if key == "// CASE":
                case = value
            elif key == "// FIRES":
                for name in value.split(","):
                    found.setdefault(name.strip(), f"`{path.stem}`: {case}")
    return found


def _row(rule: Rule, cases: dict[str, str]) -> str:
    shown = cases.get(rule.name, "")
    cells = (f"`{rule.name}`", law(rule), rule.exactness, proof_text(rule), shown)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _themes() -> dict[str, list[Rule]]:
    """Return the rules by the first line of the file they stand in, in their order there."""
    found: dict[str, list[Rule]] = {}
    left = {rule.name: rule for rule in ALL_RULES}
    for entry in sorted(pkgutil.iter_modules(rules.__path__), key=lambda entry: entry.name):
        module = import_module(f"{rules.__name__}.{entry.name}")
        title = (module.__doc__ or entry.name).partition("\n")[0].rstrip(".")
        for value in vars(module).values():
            for rule in value if isinstance(value, tuple) else ():
                if isinstance(rule, Rule) and left.pop(rule.name, None) is not None:
                    found.setdefault(title, []).append(rule)
    return found


if __name__ == "__main__":
    print(page(), end="")
