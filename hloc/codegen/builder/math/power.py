"""pow and cbrt in f32, within 1 ulp: the logarithm and the power are taken in f64."""

from __future__ import annotations

from hloc.codegen.builder.math.parts import (
    INFINITY,
    NAN,
    absolute,
    c,
    estrin,
    f32_function,
    fma,
    with_sign,
)
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F32, F64, PRED, S64, U32, U64

# log2(m) / s of s**2 for s = (m - 1) / (m + 1), m between sqrt(1/2) and sqrt(2), error 3e-14
_LOG2 = (
    2.885390081777849, 0.9617966941165991, 0.5770779413750163,
    0.4122093539857961, 0.31990144515276353, 0.28296237837970883,
)  # fmt: skip
# 2**r on |r| <= 1/2, relative error 9e-13
_EXP2 = (
    0.9999999999997373, 0.693147180545415, 0.24022650699128736, 0.05550410943785102,
    0.0096181285075892, 0.00133334477820878, 0.00015403865161016503, 1.531087806370511e-05,
    1.3174986580995404e-06,
)  # fmt: skip
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_MAGIC = 1.5 * 2.0**52


def _log2(b: MathBuilder, x: Value) -> Value:
    """Return log2 of a positive normal f64."""
    bits = b.bitcast(x, S64)
    exponent = b.ashr(b.isub(bits, b.const(S64, _SQRT_HALF_BITS)), b.const(S64, 52))
    mantissa = b.bitcast(b.isub(bits, b.shl(exponent, b.const(S64, 52))), F64)
    one = b.const(F64, 1.0)
    s = b.fdiv(b.fsub(mantissa, one), b.fadd(mantissa, one))
    # The exponent of a converted f32 has few bits: they become a float by way of the mantissa.
    magic = b.const(F64, _MAGIC)
    power = b.fsub(b.bitcast(b.iadd(exponent, b.bitcast(magic, S64)), F64), magic)
    return fma(b, s, estrin(b, b.fmul(s, s), _LOG2), power)


def _exp2(b: MathBuilder, x: Value) -> Value:
    """Return 2**x for x between -1000 and 1000."""
    magic = b.const(F64, _MAGIC)
    shifted = b.fadd(x, magic)
    n = b.fsub(shifted, magic)
    exponent = b.isub(b.bitcast(shifted, S64), b.bitcast(magic, S64))
    power = b.bitcast(b.shl(b.iadd(exponent, b.const(S64, 1023)), b.const(S64, 52)), F64)
    return b.fmul(power, estrin(b, b.fsub(x, n), _EXP2))


@f32_function
def pow(b: MathBuilder, x: Value, y: Value) -> Value:
    """Return x**y with C's results for zeros, infinities, NaN and negative bases."""
    base = absolute(b, x)
    product = b.fmul(b.convert(y, F64), _log2(b, b.convert(base, F64)))
    limit = b.const(F64, 300.0)
    product = b.select(b.compare("LT", product, limit), product, limit)
    product = b.select(b.compare("GT", product, b.fneg(limit)), product, b.fneg(limit))
    return at_special(b, x, y, b.convert(_exp2(b, product), F32))


def at_special(
    b: MathBuilder, x: Value, y: Value, value: Value, is_beyond: Value | None = None
) -> Value:
    """Return x**y in f32 or f64, given `value`, which is |x|**y except in special cases.

    Where `is_beyond` holds, |x|**y is 0 or infinity. Only a select and a sign depend on `value`.
    """
    dtype, bits = (F32, U32) if x.dtype is F32 else (F64, U64)
    base, height = absolute(b, x), absolute(b, y)
    zero, one, infinity = (b.const(dtype, v) for v in (0.0, 1.0, INFINITY))
    grows = b.compare("GT", y, zero)
    at_zero, at_infinity = b.compare("EQ", base, zero), b.compare("EQ", base, infinity)
    endless = b.compare("EQ", height, infinity)
    # 0 or infinity; the other one if the base is less than 1.
    end = b.select(b.xor(grows, b.compare("LT", base, one)), infinity, zero)
    end = b.select(b.and_(endless, b.compare("EQ", base, one)), one, end)

    whole = b.compare("EQ", b.intrinsic("trunc", y), y)
    half = b.fmul(y, b.const(dtype, 0.5))
    odd = b.and_(whole, b.compare("NE", b.intrinsic("trunc", half), half))
    sign_bit = b.const(bits, 1 << (bits.bits - 1))
    sign = b.select(odd, b.and_(b.bitcast(x, bits), sign_bit), b.const(bits, 0))
    finite_negative = b.and_(b.compare("LT", x, zero), b.compare("LT", base, infinity))
    broken = b.and_(finite_negative, b.xor(whole, b.const(PRED, True)))
    no_number = b.or_(b.or_(b.is_nan(x), b.is_nan(y)), broken)
    unit = b.or_(b.compare("EQ", y, zero), b.compare("EQ", x, one))
    end = b.select(unit, one, b.select(no_number, b.const(dtype, NAN), end))
    is_special = b.or_(b.or_(b.or_(at_zero, at_infinity), endless), b.or_(no_number, unit))
    if is_beyond is not None:
        is_special = b.or_(is_special, is_beyond)
    value = b.select(is_special, end, value)
    return b.bitcast(b.or_(b.bitcast(value, bits), sign), dtype)


@f32_function
def cbrt(b: MathBuilder, x: Value) -> Value:
    """Return the cube root: a third of the exponent, then two of Halley's steps in f64."""
    magnitude = absolute(b, x)
    wide = b.convert(magnitude, F64)
    bits = b.bitcast(wide, S64)
    third = b.idiv(b.lshr(bits, b.const(S64, 32)), b.const(S64, 3))
    guess = b.shl(b.iadd(third, b.const(S64, 715094163)), b.const(S64, 32))
    root = b.bitcast(guess, F64)
    for _ in range(2):
        cube = b.fmul(b.fmul(root, root), root)
        above = b.fadd(b.fadd(wide, wide), cube)
        below = fma(b, cube, b.const(F64, 2.0), wide)
        root = b.fmul(root, b.fdiv(above, below))
    value = with_sign(b, b.convert(root, F32), x)
    special = b.or_(b.compare("EQ", x, c(b, 0.0)), b.compare("EQ", magnitude, c(b, INFINITY)))
    return b.select(b.or_(special, b.is_nan(x)), x, value)
