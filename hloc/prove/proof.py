"""The proof of a rule: the ways in which its modules were proven, and what is open."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from hloc.lazy_dataclass import dataclass
from hloc.opt.rule import Rule
from hloc.prove.bounds import Bound

MOVES, Z3, IEEE, ALL_VALUES = "same terms", "z3", "ieee", "all values"
WAYS = (MOVES, Z3, IEEE, ALL_VALUES)
"""How a module was proven: same terms, Z3's bit-vectors, Z3's IEEE numbers, exhaustive runs."""


@dataclass(eq=False, slots=True)
class RuleProof:
    """The proof attempts of a rule, and their results.

    Attributes:
        rule: its name.
        about_shapes: True if sizes and attributes were enumerated, not values only.
        cases: modules in which it fired; those within several bounds count for each.
        ways: by element type, how often each way was needed.
        open: by element type, the first reason why a module was not proven.
        bound: the largest bound within which every module was tried, for one type at least; None if
            there is none, or the rule is not about shapes.
    """

    rule: str
    about_shapes: bool
    cases: int = 0
    ways: dict[str, Counter[str]] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    bound: Bound | None = None


def can_be_proven(rule: Rule) -> bool:
    """True for exact rules, and for those that are exact except the sign of zero."""
    return rule.exactness in ("exact", "ignores-zero-sign")
