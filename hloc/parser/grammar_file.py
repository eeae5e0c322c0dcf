"""The grammar `hlo.lark`: its path, and regular expressions made from its terminals and rules.

The fast readers (`whole_text.py`, `plain_values.py`, `literals.py`, `scanner.py`) take their
patterns from here, so that the format has one definition.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_DEFINITION = re.compile(r"^\??([A-Za-z_]+)(?:\.[0-9]+)?:((?:.*(?:\n[ \t].*)*))", re.MULTILINE)
_SYMBOL = re.compile(r'"((?:[^"\\]|\\.)*)"|->[ ]*\w+|([A-Za-z_]+)|([()\[\]|?*+])')
_AS_PATTERN = {
    "(": "(?>",
    ")": ")",
    "[": "(?>",
    "]": ")?+",
    "|": "|",
    "?": "?+",
    "*": "*+",
    "+": "++",
}


def grammar_path() -> Path:
    """Return the path of `hlo.lark`: beside this file in a wheel, in `grammar/` in a checkout."""
    installed = _HERE / "hlo.lark"
    return installed if installed.exists() else _HERE.parents[1] / "grammar" / "hlo.lark"


@cache
def grammar_text() -> str:
    """Return the text of the grammar."""
    return grammar_path().read_text(encoding="utf-8")


@cache
def _definitions() -> dict[str, str]:
    """Return the body of every rule and terminal by name."""
    return {name: body.strip() for name, body in _DEFINITION.findall(grammar_text())}


def terminal(name: str) -> str:
    """Return the regular expression of a terminal, e.g. `-?[0-9]++` for INT."""
    return f"(?:{_definitions()[name][1:-1]})"


def rule_pattern(rule: str, nesting: int = 1, instead: dict[str, str] | None = None) -> str:
    """Return a regular expression for texts of `rule`, comments blanked out.

    Alternatives are tried in order without backtracking, as in a parsing expression grammar. Every
    match conforms to the rule; only texts beyond the bounds below are not matched.

    Args:
        rule: the name of a rule over characters.
        nesting: how often a rule may be nested in itself, including the outermost.
        instead: patterns for rules that are not expanded.
    """
    return _expanded(rule, nesting, instead or {}, Counter())


_BLANKS = r"[ \t\r\n]*+"


def _expanded(name: str, nesting: int, instead: dict[str, str], inside: Counter[str]) -> str:
    """Return the regular expression of a rule; rules in themselves are unrolled `nesting` deep.

    Quantifiers are possessive and groups atomic: what matched is never given back, so that no
    text takes exponential time.
    """
    if name in instead:
        return instead[name] + _BLANKS
    if name.isupper():
        return terminal(name) + _BLANKS
    if inside[name] == nesting:
        return "(?!)"
    inner = inside + Counter([name])
    pieces: list[str] = []
    for literal, reference, sign in _SYMBOL.findall(_definitions()[name]):
        if literal:
            pieces.append(re.escape(literal) + _BLANKS)
        elif reference:
            pieces.append(_expanded(reference, nesting, instead, inner))
        elif sign in ("?", "*", "+") and not pieces[-1].startswith(")"):
            pieces[-1] = f"(?:{pieces[-1]}){sign}+"
        elif sign:
            pieces.append(_AS_PATTERN[sign])
    return f"(?>{''.join(pieces)})"
