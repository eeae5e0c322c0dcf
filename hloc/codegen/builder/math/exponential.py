"""exp, expm1, tanh, logistic, sinh, cosh in f32, within 3 ulp; a shorter tanh for f16 and less.

exp(x) = 2**n * (1 + r + r * r * q(r)) with x = n * ln 2 + r (Cody and Waite's reduction).
A NaN goes through all of it to the result.
"""

from __future__ import annotations

from hloc.codegen.builder.math.parts import (
    LN2_HIGH,
    LN2_LOW,
    absolute,
    c,
    estrin,
    f32_function,
    fma,
    horner,
    lower,
    narrow_function,
    nearest_integer,
    power_of_two,
    scale,
    upper,
    with_sign,
)
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import S32

# exp(r) on |r| <= ln(2) / 2, relative error 4e-9
_EXP = (1.0, 1.0, 4.9999994e-01, 1.666652e-01, 4.1668393e-02, 8.3687808e-03, 1.3814468e-03)
# exp(2 r) by the same polynomial
_EXP_TWICE = tuple(coefficient * 2**power for power, coefficient in enumerate(_EXP))
# (exp(r) - 1 - r) / r**2 there, error of exp 1e-10
_LESS_ONE = (0.5, 1.6666667e-01, 4.1666456e-02, 8.333362e-03, 1.3934496e-03, 1.9858127e-04)
# (tanh(r) / r - 1) / r**2 of r**2 on |r| <= 0.625, relative error 5e-9
_TANH = (-3.3333334e-01, 1.3333304e-01, -5.3959265e-02, 2.1768946e-02, -8.344028e-03, 2.292829e-03)
# tanh(x) / x of x**2 below _NARROW_TANH_END, relative error 1.5e-6: numerator and denominator
_NARROW_OVER = (0.99999881, 0.11719149, 1.6792549e-03)
_NARROW_UNDER = (1.0, 0.45051478, 1.8531818e-02, 6.7455862e-05)
# (sinh(r) / r - 1) / r**2 of r**2 on |r| <= 1, relative error 1.2e-9
_SINH = (1.6666667e-01, 8.333339e-03, 1.9838123e-04, 2.8061418e-06)

_LOG2_E = 1.4426950408889634
_EXP_ZERO = -104.0  # e**x is below half of the smallest number from here on
_TANH_SMALL = 0.625
_TANH_SAME = 2.0**-30
_NARROW_TANH_END = 4.65  # tanh is 1 in f16 from here on


def _remainder(b: MathBuilder, x: Value) -> tuple[Value, Value, Value]:
    """Return r and n, as f32 and as s32, for x = n * ln 2 + r."""
    n, exponent = nearest_integer(b, x, _LOG2_E)
    r = fma(b, n, c(b, -LN2_HIGH), x)
    return fma(b, n, c(b, -LN2_LOW), r), n, exponent


def _reduced(b: MathBuilder, x: Value) -> tuple[Value, Value, Value]:
    """Return exp(r) - 1 and n, as f32 and as s32, for x = n * ln 2 + r."""
    r, n, exponent = _remainder(b, x)
    return fma(b, b.fmul(r, r), estrin(b, r, _LESS_ONE), r), n, exponent


@f32_function
def exp(b: MathBuilder, x: Value) -> Value:
    """Return e**x, with subnormal results.

    Zeros are selected, not computed by scaling: a product that underflows takes the processor a
    hundred times as long, and a mask makes half of all exponents underflow. Attention with a mask,
    2x8x512x512 scores: 9.2 ms instead of 15.4.
    """
    is_zero = b.compare("LE", x, c(b, _EXP_ZERO))
    bounded = upper(b, lower(b, x, 89.0), _EXP_ZERO)
    r, n, exponent = _remainder(b, bounded)
    return scale(b, horner(b, r, _EXP), exponent, n, is_zero)


def normal_exp(b: MathBuilder, x: Value) -> Value:
    """Return e**x where it is a normal number."""
    r, _, exponent = _remainder(b, x)
    return b.fmul(horner(b, r, _EXP), power_of_two(b, exponent))


@f32_function
def expm1(b: MathBuilder, x: Value) -> Value:
    """Return e**x - 1, exact to the last bits near 0."""
    bounded = upper(b, lower(b, x, 89.0), -18.0)
    less_one, _, exponent = _reduced(b, bounded)
    # Half of 2**n, since 2**128 is not representable.
    power = power_of_two(b, b.isub(exponent, b.const(S32, 1)))
    half = fma(b, power, less_one, b.fsub(power, c(b, 0.5)))
    # Around 0 the steps above would lose subnormals and the sign of zero.
    near_zero = b.compare("LT", absolute(b, x), c(b, 1e-9))
    return b.select(near_zero, x, b.fadd(half, half))


@f32_function
def tanh(b: MathBuilder, x: Value) -> Value:
    """Return the hyperbolic tangent: a polynomial near 0, else 1 - 2 / (e**2|x| + 1).

    Numbers so near to 0 that they are their own tangent are kept out of the arithmetic, in which
    products would underflow: that takes the processor a hundred times as long.
    """
    magnitude = absolute(b, x)
    bounded = lower(b, upper(b, magnitude, _TANH_SAME), 10.0)
    square = b.fmul(bounded, bounded)
    small = fma(b, b.fmul(square, bounded), horner(b, square, _TANH), bounded)
    n, exponent = nearest_integer(b, bounded, 2 * _LOG2_E)
    half = fma(b, n, c(b, -0.5 / _LOG2_E), bounded)  # n is at most 29: no error of ln 2 matters
    grown = fma(b, power_of_two(b, exponent), horner(b, half, _EXP_TWICE), c(b, 1.0))
    large = b.fsub(c(b, 1.0), b.fdiv(c(b, 2.0), grown))
    is_small = b.compare("LT", magnitude, c(b, _TANH_SMALL))
    found = b.select(is_small, small, large)
    return with_sign(b, b.select(b.compare("LT", magnitude, found), magnitude, found), x)


@narrow_function
def narrow_tanh(b: MathBuilder, x: Value) -> Value:
    """Return the hyperbolic tangent to 19 bits: a quotient of polynomials of x**2."""
    near = with_sign(b, lower(b, absolute(b, x), _NARROW_TANH_END), x)
    square = b.fmul(near, near)
    over = b.fmul(near, horner(b, square, _NARROW_OVER))
    return b.fdiv(over, horner(b, square, _NARROW_UNDER))


@f32_function
def logistic(b: MathBuilder, x: Value) -> Value:
    """Return 1 / (1 + e**-x) of f32 or f64, by powers of e that do not overflow."""
    one, zero = b.const(x.dtype, 1.0), b.const(x.dtype, 0.0)
    small = b.math("exp", b.fneg(absolute(b, x)))
    above = b.select(b.compare("LT", x, zero), small, one)
    return b.fdiv(above, b.fadd(one, small))


@f32_function
def sinh(b: MathBuilder, x: Value) -> Value:
    """Return the hyperbolic sine: a polynomial near 0, else (e**|x| - e**-|x|) / 2."""
    magnitude = absolute(b, x)
    square = b.fmul(x, x)
    small = fma(b, b.fmul(square, x), estrin(b, square, _SINH), x)
    half, inverse = _half_exp(b, magnitude)
    large = with_sign(b, b.fsub(half, inverse), x)
    return b.select(b.compare("LT", magnitude, c(b, 1.0)), small, large)


@f32_function
def cosh(b: MathBuilder, x: Value) -> Value:
    """Return the hyperbolic cosine (e**|x| + e**-|x|) / 2."""
    return b.fadd(*_half_exp(b, absolute(b, x)))


def _half_exp(b: MathBuilder, x: Value) -> tuple[Value, Value]:
    """Return e**x / 2 without early overflow, and e**-x / 2, for x >= 0."""
    bounded = lower(b, x, 90.0)
    less_one, n, exponent = _reduced(b, bounded)
    grown = b.fadd(less_one, c(b, 1.0))
    half = scale(b, grown, b.isub(exponent, b.const(S32, 1)), b.fsub(n, c(b, 1.0)))
    return half, b.fdiv(c(b, 0.25), half)
