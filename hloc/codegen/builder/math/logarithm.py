"""log, log1p in f32, within 3 ulp: a polynomial of the mantissa and a multiple of ln 2."""

from __future__ import annotations

from hloc.codegen.builder.math.parts import (
    INFINITY,
    LN2_HIGH,
    LN2_LOW,
    NAN,
    absolute,
    c,
    estrin,
    f32_function,
    fma,
)
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F32, S32

# (log(1 + t) - t) / t**2 for 1 + t between sqrt(1/2) and sqrt(2), relative error 5e-8
_LOG = (
    -4.9999997e-01, 3.3333325e-01, -2.5000778e-01, 2.0001636e-01, -1.6627093e-01,
    1.4196151e-01, -1.3114047e-01, 1.2777299e-01, -7.777965e-02,
)  # fmt: skip
_SQRT_HALF_BITS = 0x3F3504F3
_SMALLEST_NORMAL = 2.0**-126


@f32_function
def log(b: MathBuilder, x: Value) -> Value:
    """Return the natural logarithm, of subnormals too."""
    subnormal = b.compare("LT", x, c(b, _SMALLEST_NORMAL))
    scaled = b.select(subnormal, b.fmul(x, c(b, 2.0**24)), x)
    bits = b.bitcast(scaled, S32)
    exponent = b.ashr(b.isub(bits, b.const(S32, _SQRT_HALF_BITS)), b.const(S32, 23))
    mantissa = b.bitcast(b.isub(bits, b.shl(exponent, b.const(S32, 23))), F32)
    power = b.convert(exponent, F32)
    power = b.select(subnormal, b.fsub(power, c(b, 24.0)), power)
    t = b.fsub(mantissa, c(b, 1.0))
    tail = b.fmul(b.fmul(t, t), estrin(b, t, _LOG))
    value = b.fadd(t, fma(b, power, c(b, LN2_LOW), tail))
    value = fma(b, power, c(b, LN2_HIGH), value)
    value = b.select(b.compare("EQ", x, c(b, INFINITY)), x, value)
    value = b.select(b.compare("EQ", x, c(b, 0.0)), c(b, -INFINITY), value)
    return b.select(b.compare("GE", x, c(b, 0.0)), value, c(b, NAN))


@f32_function
def log1p(b: MathBuilder, x: Value) -> Value:
    """Return log(1 + x): the logarithm of the rounded sum, corrected by the rounding error."""
    one = c(b, 1.0)
    total = b.fadd(one, x)
    large = b.compare("GE", x, one)
    lost = b.select(large, b.fsub(one, b.fsub(total, x)), b.fsub(x, b.fsub(total, one)))
    value = b.fadd(log(b, total), b.fdiv(lost, total))
    # No correction for infinity, -1 and what rounds to 1.
    value = b.select(b.compare("EQ", x, c(b, INFINITY)), x, value)
    value = b.select(b.compare("EQ", total, c(b, 0.0)), c(b, -INFINITY), value)
    return b.select(b.compare("LT", absolute(b, x), c(b, 1e-9)), x, value)
