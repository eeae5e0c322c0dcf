"""exp, expm1, tanh, sinh, cosh in f64, within 2 ulp (tanh: 2.5).

exp(x) = 2**n * (1 + r + r * r * q(r)) with x = n * ln 2 + r (Cody and Waite's reduction).
"""

from __future__ import annotations

from math import factorial
from typing import TYPE_CHECKING

from hloc.codegen.math.double.parts import (
    LN2,
    LN2_REST,
    LOG2_E,
    d,
    f64_function,
    nearest_integer,
    power_of_two,
    scale,
    word,
)
from hloc.codegen.math.parts import absolute, fma, horner, keep_nan, lower, upper, with_sign
from hloc.dtypes import F64

if TYPE_CHECKING:
    from hloc.codegen.math.double.parts import Pair
    from hloc.codegen.scalar_builder import LlvmBuilder
    from hloc.codegen.values import Value

# (exp(r) - 1 - r) / r**2 on |r| <= ln(2) / 2: Taylor's series, relative error 4e-18
_EXP = tuple(1.0 / factorial(k) for k in range(2, 14))


def remainder(b: LlvmBuilder, x: Value, rest: Value, n: Value) -> Pair:
    """Return x + rest - n * ln 2 in two parts."""
    exact = fma(b, n, d(b, -LN2), x)
    less = fma(b, n, d(b, -LN2_REST), rest)
    r = b.fadd(exact, less)
    return r, b.fadd(b.fsub(exact, r), less)


def less_one(b: LlvmBuilder, r: Value, rest: Value) -> Value:
    """Return exp(r + rest) - 1 for |r| <= ln(2) / 2, where `rest` is less than an ulp of r."""
    tail = fma(b, b.fmul(r, r), horner(b, r, _EXP, F64), rest)
    return b.fadd(r, tail)


def _reduced(b: LlvmBuilder, x: Value) -> tuple[Value, Value]:
    """Return exp(r) - 1 and n for x = n * ln 2 + r."""
    n, exponent = nearest_integer(b, x, LOG2_E)
    return less_one(b, *remainder(b, x, d(b, 0.0), n)), exponent


@f64_function("exp")
def exp(b: LlvmBuilder, x: Value) -> Value:
    """Return e**x, with subnormal results."""
    bounded = upper(b, lower(b, x, 710.0), -746.0)
    grown, exponent = _reduced(b, bounded)
    return keep_nan(b, x, scale(b, b.fadd(grown, d(b, 1.0)), exponent))


@f64_function("expm1")
def expm1(b: LlvmBuilder, x: Value) -> Value:
    """Return e**x - 1, exact to the last bits near 0."""
    bounded = upper(b, lower(b, x, 710.0), -40.0)
    grown, exponent = _reduced(b, bounded)
    # Halved, so that 2**1024 is not needed.
    power = power_of_two(b, b.isub(exponent, word(b, 1)))
    half = fma(b, power, grown, b.fsub(power, d(b, 0.5)))
    near_zero = b.compare("LT", absolute(b, x), d(b, 1e-17))
    return b.select(near_zero, x, keep_nan(b, x, b.fadd(half, half)))


@f64_function("tanh")
def tanh(b: LlvmBuilder, x: Value) -> Value:
    """Return the hyperbolic tangent: m / (m + 2) with m = e**2|x| - 1, or 1 - 2 / (m + 2)."""
    magnitude = lower(b, absolute(b, x), 20.0)
    m = expm1(b, b.fadd(magnitude, magnitude))
    below = b.fadd(m, d(b, 2.0))
    small = b.fdiv(m, below)
    large = b.fsub(d(b, 1.0), b.fdiv(d(b, 2.0), below))
    value = b.select(b.compare("LT", magnitude, d(b, 0.5)), small, large)
    return keep_nan(b, x, with_sign(b, value, x))


@f64_function("sinh")
def sinh(b: LlvmBuilder, x: Value) -> Value:
    """Return the hyperbolic sine, by m = e**|x| - 1: (m + m / (m + 1)) / 2."""
    magnitude = absolute(b, x)
    m = expm1(b, lower(b, magnitude, 40.0))
    small = b.fmul(d(b, 0.5), b.fadd(m, b.fdiv(m, b.fadd(m, d(b, 1.0)))))
    value = b.select(b.compare("LT", magnitude, d(b, 22.0)), small, _half_exp(b, magnitude))
    return keep_nan(b, x, with_sign(b, value, x))


@f64_function("cosh")
def cosh(b: LlvmBuilder, x: Value) -> Value:
    """Return the hyperbolic cosine (e**|x| + e**-|x|) / 2."""
    half = _half_exp(b, absolute(b, x))
    return keep_nan(b, x, b.fadd(half, b.fdiv(d(b, 0.25), half)))


def _half_exp(b: LlvmBuilder, x: Value) -> Value:
    """Return e**x / 2 without early overflow, for x >= 0."""
    grown, exponent = _reduced(b, lower(b, x, 712.0))
    return scale(b, b.fadd(grown, d(b, 1.0)), b.isub(exponent, word(b, 1)))
