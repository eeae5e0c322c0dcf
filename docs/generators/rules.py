"""The page docs/rules.md: every rewrite rule, from its row and the golden cases that show it.

    python -m docs.generators.rules > docs/rules.md

Runs in a checkout, since the cases are in tests/golden/opt.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from hloc.opt import rules
from hloc.opt.pattern import P
from hloc.opt.rule import Rule
from hloc.opt.rules import ALL_RULES

INTRODUCTION = """# Rewrite rules

Made by `make docs` from the rules themselves: do not edit. `algebraic-simplifier` runs them;
`--disable-rule=NAME` leaves one out, `hloc rules WORD` lists them, and `docs/writing-a-rule.md`
tells how to write one.

`x`, `y` ... stand for any instructions, the same letter for the same one; `c`, `d` mostly for
arrays of one value; a word in angle brackets is a condition. Rules that are not *exact* fire with
`--fast-math` only: they may turn -0 into +0 (`ignores-zero-sign`), round differently
(`reassociates`) or be wrong for infinities and NaN (`assumes-finite`). The last column is the first
golden case that shows the rule, in `tests/golden/opt/`.
"""

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "opt"


def page() -> str:
    """Return the whole page."""
    cases = golden_cases()
    parts = [INTRODUCTION]
    for title, rows in _themes().items():
        parts += [f"## {title}", "", "| rule | law | exactness | shown by |", "|---|---|---|---|"]
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
    cells = (f"`{rule.name}`", law(rule), rule.exactness, cases.get(rule.name, ""))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def law(rule: Rule) -> str:
    """Return `` `add(x, negate(y))` → `subtract(x, y)` `` with what it needs."""
    text = f"`{_pattern(rule.pattern)}` → {_answer(rule.build)}"
    return f"{text}, if {_guard(rule.when)}" if rule.when is not None else text


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


# ---------------------------------------------------------------- patterns


def _pattern(pattern: P) -> str:
    text = "|".join(pattern.opcodes)
    if pattern.operands is not None:
        inner = [_pattern(operand) for operand in pattern.operands] + ["..."] * pattern.more
        text = f"{text}({', '.join(inner)})"
    condition = _condition(pattern.when) if pattern.when is not None else ""
    text = f"{text} {condition}".strip()
    if not pattern.bind:
        return text or "any"
    if not pattern.opcodes:
        return f"{pattern.bind} {condition}".strip()
    return f"{pattern.bind} = {text}"


def _condition(when: Callable[..., Any]) -> str:
    name = getattr(when, "__qualname__", "").partition(".")[0]
    if name == "splat_of":
        return f"{inspect.getclosurevars(when).nonlocals['value']:g}"
    return _SHORT.get(name) or f"<{_name(when)}>"


_SHORT = {
    "is_zero": "0",
    "is_positive_zero": "+0",
    "is_negative_zero": "-0",
    "is_all_ones": "<all ones>",
    "has_one_user": "<used once>",
}


def _answer(build: Callable[..., Any]) -> str:
    """Return what a builder makes: as a term, or in the words of its author."""
    if build.__qualname__.partition(".")[0] in ("answer", "filled", "apply"):
        return f"`{_term(build)}`"
    return _said(build) or _name(build)


def _term(build: Callable[..., Any]) -> str:
    held = inspect.getclosurevars(build).nonlocals
    match build.__qualname__.partition(".")[0]:
        case "answer":
            return str(held["name"])
        case "filled":
            return f"{held['value']:g}"
        case _:
            return f"{held['opcode']}({', '.join(map(_term, held['parts']))})"


def _guard(when: Callable[..., Any]) -> str:
    maker = when.__qualname__.partition(".")[0]
    if maker in ("root", "first_operand"):
        what = _name(inspect.getclosurevars(when).nonlocals["test"])
        return what if maker == "root" else f"operand 0 is {what}"
    said = _said(when)
    return _name(when) + (f" ({said})" if said else "")


def _said(function: Callable[..., Any]) -> str:
    """Return the first sentence of the documentation of `function`, "" if it has none."""
    documentation = inspect.getdoc(function)
    if not documentation:
        return ""
    first = " ".join(documentation.split("\n\n")[0].split())
    first = re.split(r"(?<=[a-z)`])\. ", first)[0].rstrip(".")
    return first if first[1:2].isupper() else first[0].lower() + first[1:]


def _name(function: Callable[..., Any]) -> str:
    """Return the name of `function` in words, and the values that it was made with."""
    names = [part for part in function.__qualname__.split(".") if part not in _INNER]
    if not names:
        return _OPEN
    words = names[0].strip("_").removeprefix("is_").replace("_", " ")
    told: list[str] = []
    for value in inspect.getclosurevars(function).nonlocals.values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, int | float | str):
                told.append(f"{part:g}" if isinstance(part, float) else str(part))
    return " ".join([words, *told])


_OPEN = "what the case shows"

_INNER = ("<locals>", "<lambda>", "build", "condition", "guard", "check")


if __name__ == "__main__":
    print(page(), end="")
