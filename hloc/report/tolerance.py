"""Tolerances of float results: one table, with the reason for each row.

A result may differ by `rtol * |want| + scale * max|want|`. The first term covers the rounding of
the element itself and of transcendental functions, the second covers sums with terms larger
than the result (dot, reduce). Integers and predicates must be equal.
"""

from __future__ import annotations

from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Bounds for one element type.

    Attributes:
        rtol: relative to the wanted element.
        scale: relative to the largest wanted element of the array.
        why: the reason for the numbers.
    """

    rtol: float
    scale: float
    why: str


_ONE_BIT = "results are rounded to this type at other places: one ulp"

TOLERANCES: dict[str, Tolerance] = {
    "f64": Tolerance(1e-12, 1e-13, "sums in another order, up to some thousand terms"),
    "f32": Tolerance(
        1e-4, 1e-5, "roundings (6e-8 each) of sums in another order, grown through many layers"
    ),
    "f16": Tolerance(2e-3, 1e-3, "one ulp is 1e-3, and roundings fall at other places"),
    "bf16": Tolerance(1.6e-2, 8e-3, "one ulp is 8e-3, and fusions keep f32 inside"),
    "f8e5m2": Tolerance(0.25, 0.02, _ONE_BIT),
    "f8e5m2fnuz": Tolerance(0.25, 0.02, _ONE_BIT),
    "f8e4m3": Tolerance(0.125, 0.01, _ONE_BIT),
    "f8e4m3fn": Tolerance(0.125, 0.01, _ONE_BIT),
    "f8e4m3fnuz": Tolerance(0.125, 0.01, _ONE_BIT),
    "f8e4m3b11fnuz": Tolerance(0.125, 0.01, _ONE_BIT),
    "f8e3m4": Tolerance(0.0625, 0.01, _ONE_BIT),
    "f8e8m0fnu": Tolerance(0.0, 0.0, "powers of two only: the neighbour is twice as large"),
    "f6e2m3fn": Tolerance(0.125, 0.01, _ONE_BIT),
    "f6e3m2fn": Tolerance(0.25, 0.02, _ONE_BIT),
    "f4e2m1fn": Tolerance(0.5, 0.1, _ONE_BIT),
    "c64": Tolerance(2e-4, 2e-5, "f32, and a product is two products and a sum"),
    "c128": Tolerance(2e-11, 2e-12, "f64, and a product is two products and a sum"),
}
"""By HLO element type; other types are compared exactly."""


def tolerance_of(dtype: DType) -> Tolerance | None:
    """Return the bounds for `dtype`, None if results must be equal."""
    return TOLERANCES.get(dtype.name)
