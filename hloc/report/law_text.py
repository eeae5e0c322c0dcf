"""The law of a rewrite rule as text, read from its pattern, its builder and its guards."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from hloc.opt.pattern import P
from hloc.opt.rule import Rule


def law(rule: Rule) -> str:
    """Return `` `add(x, negate(y))` → `subtract(x, y)` `` with its conditions."""
    text = f"`{_pattern(rule.pattern)}` → {_answer(rule.build)}"
    return f"{text}, if {_guard(rule.when)}" if rule.when is not None else text


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
    if build.__qualname__.partition(".")[0] in ("answer", "filled", "computed", "apply"):
        return f"`{_term(build)}`"
    return _first_sentence(build) or _name(build)


def _term(build: Callable[..., Any]) -> str:
    held = inspect.getclosurevars(build).nonlocals
    match build.__qualname__.partition(".")[0]:
        case "answer":
            return str(held["name"])
        case "filled":
            return f"{held['value']:g}"
        case "computed":
            return str(build.__doc__)
        case _:
            attributes = [f"{name}={_name(value)}" for name, value in held["attributes"].items()]
            return f"{held['opcode']}({', '.join([*map(_term, held['parts']), *attributes])})"


def _guard(when: Callable[..., Any]) -> str:
    maker = when.__qualname__.partition(".")[0]
    if maker in ("root", "first_operand"):
        what = _name(inspect.getclosurevars(when).nonlocals["test"])
        return what if maker == "root" else f"operand 0 is {what}"
    said = _first_sentence(when)
    return _name(when) + (f" ({said})" if said else "")


def _first_sentence(function: Callable[..., Any]) -> str:
    """Return the first sentence of the documentation of `function`, "" if it has none."""
    documentation = inspect.getdoc(function)
    if not documentation:
        return ""
    first = " ".join(documentation.split("\n\n")[0].split())
    first = re.split(r"(?<=[a-z)`])\. ", first)[0].rstrip(".")
    return first if first[1:2].isupper() else first[0].lower() + first[1:]


def _name(function: Callable[..., Any]) -> str:
    """Return the name of `function` as words, with its bound values."""
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
