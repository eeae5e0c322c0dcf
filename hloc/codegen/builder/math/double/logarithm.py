"""log and log1p in f64, within 1 ulp.

x = m * 2**e with m between sqrt(1/2) and sqrt(2); log m is a series in s = (m - 1) / (m + 1), put
together as f - (f**2 / 2 - s * (f**2 / 2 + s**2 * p(s**2))) with f = m - 1, which keeps f exact.
"""

from __future__ import annotations

from hloc.codegen.builder.math.double.parts import d, f64_function, word
from hloc.codegen.builder.math.parts import INFINITY, NAN, absolute, estrin, fma
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64, S64

# (log((1 + s) / (1 - s)) / s - 2) / s**2 of s**2, error 2e-18
_LOG = (
    0.6666666666666666, 0.40000000000000885, 0.28571428570799784, 0.22222222392581045,
    0.18181795547521137, 0.15386244737621665, 0.13268638369266825, 0.13088034850927555,
)  # fmt: skip
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
# Their sum is ln 2; the first has few bits, so that its products with exponents are exact.
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10


def split(b: MathBuilder, x: Value) -> tuple[Value, Value]:
    """Return m and e for x = m * 2**e, m between sqrt(1/2) and sqrt(2), x positive and finite."""
    tiny = b.compare("LT", x, d(b, 2.0**-1022))
    bits = b.bitcast(b.select(tiny, b.fmul(x, d(b, 2.0**54)), x), S64)
    exponent = b.ashr(b.isub(bits, word(b, _SQRT_HALF_BITS)), word(b, 52))
    mantissa = b.bitcast(b.isub(bits, b.shl(exponent, word(b, 52))), F64)
    return mantissa, b.isub(exponent, b.select(tiny, word(b, 54), word(b, 0)))


def _log(b: MathBuilder, x: Value, missing: Value | None = None) -> Value:
    """Return log(x) + missing for positive finite x."""
    m, exponent = split(b, x)
    e = b.convert(exponent, F64)
    f = b.fsub(m, d(b, 1.0))
    s = b.fdiv(f, b.fadd(f, d(b, 2.0)))
    square = b.fmul(s, s)
    half = b.fmul(b.fmul(d(b, 0.5), f), f)
    series = b.fmul(square, estrin(b, square, _LOG))
    low = b.fmul(e, d(b, _LN2_LOW))
    if missing is not None:
        low = b.fadd(low, missing)
    correction = b.fsub(half, fma(b, s, b.fadd(half, series), low))
    return fma(b, e, d(b, _LN2_HIGH), b.fsub(f, correction))


def _at_ends(b: MathBuilder, x: Value, value: Value) -> Value:
    """Return log(x): `value` if x is positive and finite."""
    zero, infinity = d(b, 0.0), d(b, INFINITY)
    value = b.select(b.compare("LT", x, infinity), value, x)
    value = b.select(b.compare("EQ", x, zero), b.fneg(infinity), value)
    return b.select(b.compare("LT", x, zero), d(b, NAN), value)


@f64_function
def log(b: MathBuilder, x: Value) -> Value:
    """Return the natural logarithm; NaN below 0."""
    return _at_ends(b, x, _log(b, x))


@f64_function
def log1p(b: MathBuilder, x: Value) -> Value:
    """Return log(1 + x), corrected by the rounding error of 1 + x."""
    one = d(b, 1.0)
    total = b.fadd(one, x)
    part = b.fsub(total, one)
    lost = b.fadd(b.fsub(one, b.fsub(total, part)), b.fsub(x, part))
    value = _log(b, total, b.fdiv(lost, total))
    value = _at_ends(b, total, value)
    return b.select(b.compare("LT", absolute(b, x), d(b, 1e-17)), x, value)
