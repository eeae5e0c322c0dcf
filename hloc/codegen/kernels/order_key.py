"""Integer keys in the order of numbers, so that sorts and extrema compare integers."""

from __future__ import annotations

from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import DTYPES, F32, U32, DType


def key_dtype(dtype: DType) -> DType:
    """Return the unsigned type of the keys of elements of `dtype`, which is not complex."""
    if dtype.is_float and (dtype.bits < 8 or not dtype.has_sign):
        return U32
    return DTYPES[f"u{max(8, dtype.bits)}"]


def order_key(b: LlvmBuilder, x: Value, *, total: bool, descending: bool) -> Value:
    """Return an unsigned integer that orders as `x` does.

    Floats: `total` is the total order of their bits; else -0 equals 0, and every NaN is largest.
    """
    if x.dtype.is_float:
        key = _float_key(b, x, total)
    else:
        unsigned = key_dtype(x.dtype)
        signed = x.dtype.is_signed and not x.dtype.is_pred
        key = b.convert(b.convert(x, DTYPES[f"s{unsigned.bits}"]) if signed else x, unsigned)
        if signed:
            key = b.xor(key, b.const(unsigned, 1 << (unsigned.bits - 1)))
    return b.xor(key, b.const(key.dtype, (1 << key.dtype.bits) - 1)) if descending else key


def _float_key(b: LlvmBuilder, x: Value, total: bool) -> Value:
    """Return the bits of a float, all inverted if it is negative, else with the sign bit set."""
    unsigned = key_dtype(x.dtype)
    if x.dtype.bits != unsigned.bits:  # every value is representable in f32
        x = b.convert(x, F32)
    top = unsigned.bits - 1
    signed = DTYPES[f"s{unsigned.bits}"]
    bits = b.bitcast(x, signed)
    if not total:
        zero = b.compare("EQ", x, b.const(x.dtype, 0))
        bits = b.select(zero, b.const(signed, 0), bits)
        bits = b.select(b.is_nan(x), b.const(signed, (1 << top) - 1), bits)
    negative = b.ashr(bits, b.const(signed, top))
    flipped = b.or_(negative, b.const(signed, -(1 << top)))
    return b.convert(b.xor(bits, flipped), unsigned)
