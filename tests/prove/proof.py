"""The proof attempts of a rule, their results, and the row of the record that they become."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import field

from hloc.dtypes import DTYPES
from hloc.lazy_dataclass import dataclass
from hloc.prove.record import MOVES, WAYS, Row
from tests.prove.bounds import Bound


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


def row_of(proof: RuleProof) -> Row:
    """Return the row that records a proof; a type counts as `same terms` if that sufficed."""
    ways: dict[str, list[str]] = {}
    for kind in DTYPES:
        needed = proof.ways.get(kind, Counter())
        for way in [w for w in WAYS if w in needed and (w != MOVES or len(needed) == 1)]:
            ways.setdefault(way, []).append(kind)
    bound = "" if proof.bound is None else str(proof.bound)
    return {"cases": proof.cases, "ways": ways, "bound": bound, "open": dict(proof.open)}


def record_text(rows: Mapping[str, Row]) -> str:
    """Return the file: one line per rule, by name."""
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"
