"""exp, expm1, tanh, sinh, cosh in f64, within 2 ulp (tanh: 2.5).

exp(x) = 2**n * (1 + r + r * r * q(r)) with x = n * ln 2 + r (Cody and Waite's reduction).
"""

from __future__ import annotations

from hloc.codegen.builder.math.double.parts import (
    LN2,
    LN2_REST,
    LOG2_E,
    Pair,
    d,
    f64_function,
    word,
)
from hloc.codegen.builder.math.parts import (
    absolute,
    estrin,
    fma,
    horner,
    keep_nan,
    lower,
    nearest_integer,
    power_of_two,
    scale,
    upper,
    with_sign,
)
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64

# (exp(r) - 1 - r) / r**2 on |r| <= ln(2) / 2, error of exp 4e-19
_EXP = (
    0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.001388888888888375,
    0.00019841269874815834, 2.480158732554432e-05, 2.7557255406285044e-06,
    2.7557273647451087e-07, 2.5105214474751413e-08, 2.0914685161418067e-09,
)  # fmt: skip


def remainder(b: MathBuilder, x: Value, rest: Value, n: Value) -> Pair:
    """Return x + rest - n * ln 2 in two parts."""
    exact = fma(b, n, d(b, -LN2), x)
    less = fma(b, n, d(b, -LN2_REST), rest)
    r = b.fadd(exact, less)
    return r, b.fadd(b.fsub(exact, r), less)


def less_one(b: MathBuilder, r: Value, rest: Value, *, in_turn: bool = False) -> Value:
    """Return exp(r + rest) - 1 for |r| <= ln(2) / 2, where `rest` is less than an ulp of r.

    With `in_turn` the terms are added one after the other: more accurate by a tenth of an ulp, but
    half again as long where nothing else is computed meanwhile.
    """
    series = horner(b, r, _EXP, F64) if in_turn else estrin(b, r, _EXP)
    return b.fadd(r, fma(b, b.fmul(r, r), series, rest))


def _reduced(b: MathBuilder, x: Value, *, in_turn: bool = False) -> tuple[Value, Value, Value]:
    """Return exp(r) - 1 and n, as f64 and as s64, for x = n * ln 2 + r."""
    n, exponent = nearest_integer(b, x, LOG2_E)
    return less_one(b, *remainder(b, x, d(b, 0.0), n), in_turn=in_turn), n, exponent


@f64_function
def exp(b: MathBuilder, x: Value) -> Value:
    """Return e**x, with subnormal results; 0 is selected, as in the f32 form."""
    is_zero = b.compare("LE", x, d(b, -746.0))
    bounded = upper(b, lower(b, x, 710.0), -746.0)
    grown, n, exponent = _reduced(b, bounded)
    return scale(b, b.fadd(grown, d(b, 1.0)), exponent, n, is_zero)


@f64_function
def expm1(b: MathBuilder, x: Value) -> Value:
    """Return e**x - 1, exact to the last bits near 0."""
    bounded = upper(b, lower(b, x, 710.0), -40.0)
    grown, _, exponent = _reduced(b, bounded, in_turn=True)
    # Half of 2**n, since 2**1024 is not representable.
    power = power_of_two(b, b.isub(exponent, word(b, 1)))
    half = fma(b, power, grown, b.fsub(power, d(b, 0.5)))
    near_zero = b.compare("LT", absolute(b, x), d(b, 1e-17))
    return b.select(near_zero, x, keep_nan(b, x, b.fadd(half, half)))


@f64_function
def tanh(b: MathBuilder, x: Value) -> Value:
    """Return the hyperbolic tangent: m / (m + 2) with m = e**2|x| - 1, or 1 - 2 / (m + 2)."""
    magnitude = lower(b, absolute(b, x), 20.0)
    grown, _, exponent = _reduced(b, b.fadd(magnitude, magnitude), in_turn=True)
    power = power_of_two(b, exponent)
    m = fma(b, power, grown, b.fsub(power, d(b, 1.0)))
    is_small = b.compare("LT", magnitude, d(b, 0.5))
    part = b.fdiv(b.select(is_small, m, d(b, 2.0)), b.fadd(m, d(b, 2.0)))
    return with_sign(b, b.select(is_small, part, b.fsub(d(b, 1.0), part)), x)


@f64_function
def sinh(b: MathBuilder, x: Value) -> Value:
    """Return the hyperbolic sine, by m = e**|x| - 1: (m + m / (m + 1)) / 2."""
    magnitude = absolute(b, x)
    m = expm1(b, lower(b, magnitude, 40.0))
    small = b.fmul(d(b, 0.5), b.fadd(m, b.fdiv(m, b.fadd(m, d(b, 1.0)))))
    value = b.select(b.compare("LT", magnitude, d(b, 22.0)), small, _half_exp(b, magnitude))
    return keep_nan(b, x, with_sign(b, value, x))


@f64_function
def cosh(b: MathBuilder, x: Value) -> Value:
    """Return the hyperbolic cosine (e**|x| + e**-|x|) / 2."""
    half = _half_exp(b, absolute(b, x))
    return keep_nan(b, x, b.fadd(half, b.fdiv(d(b, 0.25), half)))


def _half_exp(b: MathBuilder, x: Value) -> Value:
    """Return e**x / 2 without early overflow, for x >= 0."""
    grown, n, exponent = _reduced(b, lower(b, x, 712.0))
    less = b.fsub(n, d(b, 1.0))
    return scale(b, b.fadd(grown, d(b, 1.0)), b.isub(exponent, word(b, 1)), less)
