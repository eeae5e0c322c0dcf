"""atan, atan2, asin, acos, asinh, acosh, atanh in f32, within 4 ulp."""

from __future__ import annotations

from math import log, pi

from hloc.codegen.builder.math.logarithm import log as emit_log
from hloc.codegen.builder.math.logarithm import log1p
from hloc.codegen.builder.math.parts import (
    NAN,
    absolute,
    c,
    estrin,
    f32_function,
    fma,
    lower,
    with_sign,
)
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import S32

# (atan(t) / t - 1) / t**2 of t**2 on |t| <= 1, relative error 7e-9
_ATAN = (
    -3.3333334e-01, 1.9999953e-01, -1.4284092e-01, 1.1089145e-01, -8.936255e-02,
    7.0444405e-02, -4.9169365e-02, 2.6508458e-02, -9.251728e-03, 1.5122201e-03,
)  # fmt: skip
# (asin(t) / t - 1) / t**2 of t**2 on |t| <= 1/2, relative error 2e-8
_ASIN = (1.6666666e-01, 7.5000994e-02, 4.4597678e-02, 3.1120801e-02, 1.7053477e-02, 3.3849776e-02)


def _first_octant(b: MathBuilder, t: Value) -> Value:
    """Return atan(t) for 0 <= t <= 1."""
    square = b.fmul(t, t)
    return fma(b, b.fmul(square, t), estrin(b, square, _ATAN), t)


@f32_function
def atan(b: MathBuilder, x: Value) -> Value:
    """Return the inverse tangent."""
    magnitude = absolute(b, x)
    steep = b.compare("GT", magnitude, c(b, 1.0))
    angle = _first_octant(b, b.select(steep, b.fdiv(c(b, 1.0), magnitude), magnitude))
    angle = b.select(steep, b.fsub(c(b, pi / 2), angle), angle)
    return with_sign(b, angle, x)


@f32_function
def atan2(b: MathBuilder, y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y), with C's results for zeros and infinities."""
    width, height = absolute(b, x), absolute(b, y)
    steep = b.compare("GT", height, width)
    smaller, larger = b.select(steep, width, height), b.select(steep, height, width)
    same = b.compare("EQ", width, height)
    zero = b.compare("EQ", larger, c(b, 0.0))
    ratio = b.select(same, c(b, 1.0), b.fdiv(smaller, larger))
    angle = _first_octant(b, b.select(zero, c(b, 0.0), ratio))
    angle = b.select(steep, b.fsub(c(b, pi / 2), angle), angle)
    negative = b.compare("LT", b.bitcast(x, S32), b.const(S32, 0))
    angle = b.select(negative, b.fsub(c(b, pi), angle), angle)
    lost = b.or_(b.is_nan(x), b.is_nan(y))
    return b.select(lost, c(b, NAN), with_sign(b, angle, y))


def _asin_parts(b: MathBuilder, x: Value) -> tuple[Value, Value]:
    """Return whether |x| < 1/2, and asin of |x|, or of sqrt((1 - |x|) / 2) where it is not."""
    magnitude = absolute(b, x)
    small = b.compare("LT", magnitude, c(b, 0.5))
    half = fma(b, magnitude, c(b, -0.5), c(b, 0.5))
    square = b.select(small, b.fmul(x, x), half)
    root = b.select(small, magnitude, b.intrinsic("sqrt", half))
    return small, fma(b, b.fmul(square, root), estrin(b, square, _ASIN), root)


@f32_function
def asin(b: MathBuilder, x: Value) -> Value:
    """Return the inverse sine; NaN beyond 1."""
    small, angle = _asin_parts(b, x)
    large = fma(b, angle, c(b, -2.0), c(b, pi / 2))
    return with_sign(b, b.select(small, angle, large), x)


@f32_function
def acos(b: MathBuilder, x: Value) -> Value:
    """Return the inverse cosine; NaN beyond 1."""
    small, angle = _asin_parts(b, x)
    negative = b.compare("LT", x, c(b, 0.0))
    near = b.fsub(c(b, pi / 2), with_sign(b, angle, x))
    twice = b.fadd(angle, angle)
    far = b.select(negative, b.fsub(c(b, pi), twice), twice)
    return b.select(small, near, far)


@f32_function
def asinh(b: MathBuilder, x: Value) -> Value:
    """Return the inverse hyperbolic sine."""
    magnitude = absolute(b, x)
    one = c(b, 1.0)
    bounded = lower(b, magnitude, 2.0**30)
    square = b.fmul(bounded, bounded)
    root = b.intrinsic("sqrt", b.fadd(square, one))
    value = log1p(b, b.fadd(bounded, b.fdiv(square, b.fadd(root, one))))
    huge = b.fadd(emit_log(b, magnitude), c(b, log(2)))
    large = b.compare("LE", magnitude, c(b, 2.0**28))
    return with_sign(b, b.select(large, value, huge), x)


@f32_function
def acosh(b: MathBuilder, x: Value) -> Value:
    """Return the inverse hyperbolic cosine; NaN below 1."""
    t = b.fsub(x, c(b, 1.0))
    bounded = lower(b, t, 2.0**30)
    root = b.intrinsic("sqrt", fma(b, bounded, bounded, b.fadd(bounded, bounded)))
    value = log1p(b, b.fadd(bounded, root))
    huge = b.fadd(emit_log(b, x), c(b, log(2)))
    value = b.select(b.compare("LE", x, c(b, 2.0**28)), value, huge)
    return b.select(b.compare("GE", x, c(b, 1.0)), value, c(b, NAN))


@f32_function
def atanh(b: MathBuilder, x: Value) -> Value:
    """Return the inverse hyperbolic tangent; NaN beyond 1."""
    magnitude = absolute(b, x)
    grown = b.fdiv(b.fadd(magnitude, magnitude), b.fsub(c(b, 1.0), magnitude))
    return with_sign(b, b.fmul(c(b, 0.5), log1p(b, grown)), x)
