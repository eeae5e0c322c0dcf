"""convert and bitcast-convert between integers, pred and IEEE floats."""

from __future__ import annotations

from typing import Any

from hloc.dtypes import DType


def convert(z: Any, source: DType, target: DType, x: Any) -> Any:
    """Return `x` as `target`: integers wrap, floats truncate and saturate, others round once."""
    if target.is_pred:
        return x != 0 if source.is_integer else z.Not(z.fpIsZero(x))
    if source.is_pred:
        return z.If(x, one(z, target), zero(z, target))
    if source.is_integer and target.is_integer:
        return _resized(z, source, target, x)
    if source.is_integer:
        make = z.fpSignedToFP if source.is_signed else z.fpUnsignedToFP
        return make(z.RNE(), x, sort_of(z, target))
    if target.is_integer:
        return _saturated(z, source, target, x)
    return z.fpFPToFP(z.RNE(), x, sort_of(z, target))


def bitcast(z: Any, target: DType, x: Any) -> Any:
    """Return the bits of an integer as a number of another type of the same width."""
    return z.fpBVToFP(x, sort_of(z, target)) if target.is_float else x


def sort_of(z: Any, dtype: DType) -> Any:
    """Return Z3's sort for a type."""
    if dtype.is_pred:
        return z.BoolSort()
    if dtype.is_integer:
        return z.BitVecSort(dtype.bits)
    return z.FPSort(dtype.exponent_bits, dtype.mantissa_bits + 1)


def zero(z: Any, dtype: DType) -> Any:
    return z.BitVecVal(0, dtype.bits) if dtype.is_integer else z.fpPlusZero(sort_of(z, dtype))


def one(z: Any, dtype: DType) -> Any:
    return z.BitVecVal(1, dtype.bits) if dtype.is_integer else z.FPVal(1.0, sort_of(z, dtype))


def _resized(z: Any, source: DType, target: DType, x: Any) -> Any:
    if target.bits <= source.bits:
        return z.Extract(target.bits - 1, 0, x)
    extended = z.SignExt if source.is_signed else z.ZeroExt
    return extended(target.bits - source.bits, x)


def _saturated(z: Any, source: DType, target: DType, x: Any) -> Any:
    """Truncate; values out of range saturate; NaN gives 0."""
    bits = target.bits - target.is_signed
    wide = z.FPSort(15, 113)  # represents every bound of the integer types exactly
    number = z.fpFPToFP(z.RNE(), x, wide)
    whole = z.fpRoundToIntegral(z.RTZ(), number)
    low = z.FPVal(-(2**bits) if target.is_signed else 0, wide)
    high = z.FPVal(2**bits - 1, wide)
    cast = z.fpToSBV if target.is_signed else z.fpToUBV
    inside = cast(z.RTZ(), whole, z.BitVecSort(target.bits))
    lowest = z.BitVecVal(-(2**bits) if target.is_signed else 0, target.bits)
    highest = z.BitVecVal(2**bits - 1, target.bits)
    clamped = z.If(z.fpLEQ(whole, low), lowest, z.If(z.fpGEQ(whole, high), highest, inside))
    return z.If(z.fpIsNaN(x), z.BitVecVal(0, target.bits), clamped)
