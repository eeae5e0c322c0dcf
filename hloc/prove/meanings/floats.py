"""Floats: Z3's IEEE numbers, each operation rounded once, to nearest even.

Types that IEEE 754 describes: infinities, one class of NaN, subnormal numbers. Narrow types are
computed in f32 by hloc and rounded, which for these operations is the same as rounding once.
"""

from __future__ import annotations

from typing import Any

from hloc.dtypes import DType
from hloc.prove.meanings.integers import Meaning

IEEE = ("f8e5m2", "f8e4m3", "f8e3m4", "f16", "bf16", "f32", "f64")
"""Types with the infinities and NaNs of IEEE 754."""


def add(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return z.fpAdd(z.RNE(), x, y)


def subtract(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return z.fpSub(z.RNE(), x, y)


def multiply(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return z.fpMul(z.RNE(), x, y)


def divide(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return z.fpDiv(z.RNE(), x, y)


def square_root(z: Any, _dtype: DType, x: Any) -> Any:
    return z.fpSqrt(z.RNE(), x)


def negate(z: Any, _dtype: DType, x: Any) -> Any:
    return z.fpNeg(x)


def absolute(z: Any, _dtype: DType, x: Any) -> Any:
    return z.fpAbs(x)


def sign(z: Any, _dtype: DType, x: Any) -> Any:
    """NaN and zeros of both signs are unchanged."""
    one = z.FPVal(1.0, x.sort())
    stays = z.Or(z.fpIsNaN(x), z.fpIsZero(x))
    return z.If(stays, x, z.If(z.fpIsNegative(x), z.fpNeg(one), one))


def maximum(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    """NaN if either is NaN, +0 over -0."""
    return _extremum(z, x, y, z.fpGT(x, y), z.fpIsNegative(x))


def minimum(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    """NaN if either is NaN, -0 over +0."""
    return _extremum(z, x, y, z.fpLT(x, y), z.Not(z.fpIsNegative(x)))


def _extremum(z: Any, x: Any, y: Any, takes_x: Any, takes_y_of_zeros: Any) -> Any:
    zeros = z.And(z.fpIsZero(x), z.fpIsZero(y))
    number = z.If(zeros, z.If(takes_y_of_zeros, y, x), z.If(takes_x, x, y))
    return z.If(z.Or(z.fpIsNaN(x), z.fpIsNaN(y)), z.fpNaN(x.sort()), number)


def clamp(z: Any, dtype: DType, low: Any, x: Any, high: Any) -> Any:
    return minimum(z, dtype, high, maximum(z, dtype, x, low))


def ceil(z: Any, _dtype: DType, x: Any) -> Any:
    return z.fpRoundToIntegral(z.RTP(), x)


def floor(z: Any, _dtype: DType, x: Any) -> Any:
    return z.fpRoundToIntegral(z.RTN(), x)


def round_even(z: Any, _dtype: DType, x: Any) -> Any:
    return z.fpRoundToIntegral(z.RNE(), x)


def round_away(z: Any, _dtype: DType, x: Any) -> Any:
    return z.fpRoundToIntegral(z.RNA(), x)


def is_finite(z: Any, _dtype: DType, x: Any) -> Any:
    return z.Not(z.Or(z.fpIsNaN(x), z.fpIsInf(x)))


def ordered(z: Any, direction: str, x: Any, y: Any) -> Any:
    """Return a Bool: the comparison of IEEE 754, false for NaN except NE."""
    compare = {"EQ": z.fpEQ, "LT": z.fpLT, "LE": z.fpLEQ, "GT": z.fpGT, "GE": z.fpGEQ}
    return z.Not(z.fpEQ(x, y)) if direction == "NE" else compare[direction](x, y)


FLOATS: dict[str, Meaning] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "sqrt": square_root,
    "negate": negate,
    "abs": absolute,
    "sign": sign,
    "maximum": maximum,
    "minimum": minimum,
    "clamp": clamp,
    "ceil": ceil,
    "floor": floor,
    "round-nearest-even": round_even,
    "round-nearest-afz": round_away,
}
