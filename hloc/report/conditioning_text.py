"""`conditioning` as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloc.errors import printable
from hloc.report.conditioning import SHOWN_ULP, Conditioning
from hloc.report.run_data import json_number


def conditioning_lines(found: Sequence[Conditioning]) -> list[str]:
    """Return a line per output that needs one: its largest error, and whether it is rounding."""
    return [_line(one) for one in found if one.distance.ulp > SHOWN_ULP or not one.is_rounding]


def _line(one: Conditioning) -> str:
    distance = one.distance
    apart = "a number and none" if math.isinf(distance.ulp) else f"{_ulp(distance.ulp)} apart"
    condition = "" if one.condition is None else f", condition {one.condition:.2g}"
    cause = f"made by {one.opcode} %{printable(one.instruction)}{condition}"
    moved = f"roundings move it by {_ulp(one.spread_ulp)}"
    verdict = "rounding" if one.is_rounding else "more than rounding"
    return (
        f"  {distance.place}: {distance.got} and {distance.want}, {apart}, {cause}, {moved}: "
        f"{verdict}"
    )


def _ulp(number: float) -> str:
    return f"{number:,.0f} ulp" if number >= 1 or number == 0 else f"{number:.1g} ulp"


def conditioning_data(found: Sequence[Conditioning]) -> list[dict[str, object]]:
    """Return the JSON of each output; infinity, which JSON lacks, is a string."""
    return [
        {
            "at": one.distance.place,
            "is": one.distance.got,
            "expected": one.distance.want,
            "ulp": json_number(one.distance.ulp),
            "instruction": one.instruction,
            "opcode": one.opcode,
            "condition": None if one.condition is None else json_number(one.condition),
            "spread_ulp": json_number(one.spread_ulp),
            "rounding": one.is_rounding,
        }
        for one in found
    ]
