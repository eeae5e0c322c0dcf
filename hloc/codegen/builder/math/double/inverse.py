"""atan, atan2, asin, acos, asinh, acosh, atanh in f64, within 2 ulp (asinh, acosh: 3)."""

from __future__ import annotations

from math import pi

from hloc.codegen.builder.math.double.logarithm import log, log1p
from hloc.codegen.builder.math.double.parts import LN2, d, f64_function, word
from hloc.codegen.builder.math.parts import NAN, absolute, fma, horner, keep_nan, with_sign
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64, S64

# (atan(t) / t - 1) / t**2 of t**2 on |t| <= tan(pi / 8), error 2e-18
_ATAN = (
    -0.3333333333333333, 0.199999999999998, -0.14285714285659326, 0.11111111105106705,
    -0.09090908751076636, 0.0769229630497447, -0.06666423628069258, 0.058789145444006215,
    -0.052303478730160745, 0.04551108126325172, -0.034558092551413795, 0.01627194475162406,
)  # fmt: skip
# (asin(t) / t - 1) / t**2 of t**2 on |t| <= 1/2, error 2e-17
_ASIN = (
    0.16666666666666669, 0.07499999999998433, 0.04464285714635543, 0.030381944138531247,
    0.02237217294214989, 0.017352392720869973, 0.013971212973552933, 0.011479177415184906,
    0.01032281435018578, 0.005457506718640358, 0.01740087944269402, -0.014851887071247204,
    0.028757851367421566,
)  # fmt: skip
_HALF_PI, _HALF_PI_REST = pi / 2, 6.123233995736766e-17
_QUARTER_PI, _QUARTER_PI_REST = pi / 4, 3.061616997868383e-17
_TAN_EIGHTH = 0.41421356237309503


def _angle(b: MathBuilder, y: Value, x: Value) -> Value:
    """Return atan(y / x) for y, x >= 0, not both 0 or both infinite."""
    steep = b.compare("GT", y, x)
    small, large = b.select(steep, x, y), b.select(steep, y, x)
    # Above tan(pi/8) turned back by pi/4: atan(t) = pi/4 + atan((t - 1) / (t + 1)).
    turned = b.compare("GT", small, b.fmul(large, d(b, _TAN_EIGHTH)))
    above = b.select(turned, b.fsub(small, large), small)
    below = b.select(turned, b.fadd(small, large), large)
    t = b.fdiv(above, below)
    square = b.fmul(t, t)
    tail = b.fmul(b.fmul(square, t), horner(b, square, _ATAN, F64))
    zero = d(b, 0.0)
    tail = b.fadd(tail, b.select(turned, d(b, _QUARTER_PI_REST), zero))
    value = b.fadd(b.select(turned, d(b, _QUARTER_PI), zero), b.fadd(t, tail))
    mirrored = b.fsub(d(b, _HALF_PI), b.fsub(value, d(b, _HALF_PI_REST)))
    return b.select(steep, mirrored, value)


@f64_function
def atan(b: MathBuilder, x: Value) -> Value:
    """Return the angle whose tangent is x."""
    value = with_sign(b, _angle(b, absolute(b, x), d(b, 1.0)), x)
    tiny = b.compare("LT", absolute(b, x), d(b, 1e-9))
    infinite = b.compare("EQ", absolute(b, x), d(b, float("inf")))
    value = b.select(infinite, with_sign(b, d(b, _HALF_PI), x), value)
    return b.select(tiny, x, keep_nan(b, x, value))


@f64_function
def atan2(b: MathBuilder, y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y), with C's results for zeros and infinities."""
    down, along = _scaled(b, absolute(b, y), absolute(b, x))
    zero, infinity = d(b, 0.0), d(b, float("inf"))
    both_infinite = b.and_(b.compare("EQ", down, infinity), b.compare("EQ", along, infinity))
    down = b.select(both_infinite, d(b, 1.0), down)
    along = b.select(both_infinite, d(b, 1.0), along)
    value = _angle(b, down, along)
    value = b.select(b.compare("EQ", down, zero), zero, value)
    value = b.select(_is_above(b, down, along), d(b, _HALF_PI), value)
    left = b.compare("LT", b.bitcast(x, S64), word(b, 0))
    rest = b.fsub(value, d(b, 2 * _HALF_PI_REST))
    value = b.select(left, b.fsub(d(b, pi), rest), value)
    value = with_sign(b, value, y)
    return keep_nan(b, y, keep_nan(b, x, value))


def _scaled(b: MathBuilder, y: Value, x: Value) -> tuple[Value, Value]:
    """Return both numbers times a power of two that keeps their sum finite and both normal."""
    large = b.or_(b.compare("GT", y, d(b, 1e300)), b.compare("GT", x, d(b, 1e300)))
    factor = b.select(large, d(b, 2.0**-600), d(b, 1.0))
    small = b.and_(b.compare("LT", y, d(b, 1e-200)), b.compare("LT", x, d(b, 1e-200)))
    factor = b.select(small, d(b, 2.0**600), factor)
    return b.fmul(y, factor), b.fmul(x, factor)


def _is_above(b: MathBuilder, y: Value, x: Value) -> Value:
    """True where y / x is so large that the angle is pi / 2."""
    return b.and_(b.compare("GT", y, d(b, 0.0)), b.compare("LT", x, b.fmul(y, d(b, 2.0**-60))))


def _arc(b: MathBuilder, t: Value, square: Value) -> Value:
    """Return asin(t) - t for |t| <= 1/2."""
    return b.fmul(b.fmul(t, square), horner(b, square, _ASIN, F64))


@f64_function
def asin(b: MathBuilder, x: Value) -> Value:
    """Return the angle whose sine is x; above 1/2 by that of sqrt((1 - |x|) / 2)."""
    magnitude = absolute(b, x)
    small = b.fadd(magnitude, _arc(b, magnitude, b.fmul(x, x)))
    root, rest, arc = _upper_half(b, magnitude)
    turned = b.fadd(b.fadd(rest, arc), b.fadd(rest, arc))
    turned = b.fsub(turned, d(b, _HALF_PI_REST))
    large = b.fsub(d(b, _HALF_PI), b.fadd(b.fadd(root, root), turned))
    value = b.select(b.compare("LE", magnitude, d(b, 0.5)), small, large)
    tiny = b.compare("LT", magnitude, d(b, 1e-9))
    return b.select(tiny, x, _in_domain(b, x, with_sign(b, value, x)))


@f64_function
def acos(b: MathBuilder, x: Value) -> Value:
    """Return the angle whose cosine is x."""
    magnitude = absolute(b, x)
    arc = b.fadd(x, b.fsub(_arc(b, x, b.fmul(x, x)), d(b, _HALF_PI_REST)))
    middle = b.fsub(d(b, _HALF_PI), arc)
    root, rest, tail = _upper_half(b, magnitude)
    half = b.fadd(root, b.fadd(rest, tail))
    right = b.fadd(half, half)
    left = b.fsub(d(b, pi), b.fsub(right, d(b, 2 * _HALF_PI_REST)))
    ends = b.select(b.compare("LT", x, d(b, 0.0)), left, right)
    value = b.select(b.compare("LE", magnitude, d(b, 0.5)), middle, ends)
    return _in_domain(b, x, value)


def _upper_half(b: MathBuilder, magnitude: Value) -> tuple[Value, Value, Value]:
    """Return t = sqrt((1 - |x|) / 2), its rounding error, and asin(t) - t."""
    square = b.fmul(d(b, 0.5), b.fsub(d(b, 1.0), magnitude))
    root = b.intrinsic("sqrt", square)
    missing = fma(b, b.fneg(root), root, square)
    safe = b.select(b.compare("GT", root, d(b, 0.0)), b.fadd(root, root), d(b, 1.0))
    return root, b.fdiv(missing, safe), _arc(b, root, square)


def _in_domain(b: MathBuilder, x: Value, value: Value) -> Value:
    return b.select(b.compare("LE", absolute(b, x), d(b, 1.0)), value, d(b, NAN))


@f64_function
def asinh(b: MathBuilder, x: Value) -> Value:
    """Return log(|x| + sqrt(x**2 + 1)) with the sign of x."""
    magnitude = absolute(b, x)
    one = d(b, 1.0)
    square = b.fmul(magnitude, magnitude)
    root = b.intrinsic("sqrt", b.fadd(square, one))
    small = log1p(b, b.fadd(magnitude, b.fdiv(square, b.fadd(one, root))))
    large = b.fadd(log(b, magnitude), d(b, LN2))
    value = b.select(b.compare("LT", magnitude, d(b, 2.0**28)), small, large)
    tiny = b.compare("LT", magnitude, d(b, 1e-9))
    return b.select(tiny, x, keep_nan(b, x, with_sign(b, value, x)))


@f64_function
def acosh(b: MathBuilder, x: Value) -> Value:
    """Return log(x + sqrt(x**2 - 1)); NaN below 1."""
    above = b.fsub(x, d(b, 1.0))
    root = b.intrinsic("sqrt", fma(b, above, above, b.fadd(above, above)))
    small = log1p(b, b.fadd(above, root))
    large = b.fadd(log(b, x), d(b, LN2))
    value = b.select(b.compare("LT", x, d(b, 2.0**28)), small, large)
    return b.select(b.compare("GE", x, d(b, 1.0)), value, d(b, NAN))


@f64_function
def atanh(b: MathBuilder, x: Value) -> Value:
    """Return log((1 + x) / (1 - x)) / 2, as log1p of 2 |x| / (1 - |x|)."""
    magnitude = absolute(b, x)
    one = d(b, 1.0)
    ratio = b.fdiv(b.fadd(magnitude, magnitude), b.fsub(one, magnitude))
    value = with_sign(b, b.fmul(d(b, 0.5), log1p(b, ratio)), x)
    value = b.select(b.compare("LE", magnitude, one), value, d(b, NAN))
    return b.select(b.compare("LT", magnitude, d(b, 1e-9)), x, value)
