"""Pieces that the f32 functions share: polynomials, ranges, scaling by powers of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F32, F64, S32, S64, U64, DType

F32_FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The f32 functions by name."""

NARROW_FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Shorter f32 functions by name, for results that are rounded to f16 or narrower."""

INFINITY = float("inf")
NAN = float("nan")
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""Their sum is ln 2; the first has few bits, so that its products with integers are exact."""


def f32_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register the f32 form of the function of that name."""
    F32_FUNCTIONS[function.__name__] = function
    return function


def narrow_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register the form of a function in f32 whose result is rounded to f16 or narrower."""
    NARROW_FUNCTIONS[function.__name__.removeprefix("narrow_")] = function
    return function


def c(b: MathBuilder, value: float) -> Value:
    """Return an f32 constant."""
    return b.const(F32, value)


def u64(b: MathBuilder, value: int) -> Value:
    """Return a u64 constant."""
    return b.const(U64, value)


def fma(b: MathBuilder, x: Value, y: Value, z: Value) -> Value:
    """Return x * y + z, rounded once if the target has fused multiply-adds."""
    return b.intrinsic("fma", x, y, z)


def horner(b: MathBuilder, x: Value, coefficients: Sequence[float], dtype: DType = F32) -> Value:
    """Return the polynomial with `coefficients`, lowest first."""
    total = b.const(dtype, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(b, total, x, b.const(dtype, coefficient))
    return total


def estrin(b: MathBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    """Return the polynomial with `coefficients`, lowest first, by a tree of short chains."""
    terms = [b.const(x.dtype, coefficient) for coefficient in coefficients]
    power = x
    while len(terms) > 1:
        pairs = [terms[i : i + 2] for i in range(0, len(terms), 2)]
        terms = [fma(b, pair[1], power, pair[0]) if len(pair) == 2 else pair[0] for pair in pairs]
        if len(terms) > 1:
            power = b.fmul(power, power)
    return terms[0]


def lower(b: MathBuilder, x: Value, limit: float) -> Value:
    """Return the smaller of x and `limit`; NaN for NaN."""
    bound = b.const(x.dtype, limit)
    return b.select(b.compare("GT", x, bound), bound, x)


def upper(b: MathBuilder, x: Value, limit: float) -> Value:
    """Return the larger of x and `limit`; NaN for NaN."""
    bound = b.const(x.dtype, limit)
    return b.select(b.compare("LT", x, bound), bound, x)


def absolute(b: MathBuilder, x: Value) -> Value:
    """Return |x|."""
    return b.intrinsic("fabs", x)


def with_sign(b: MathBuilder, magnitude: Value, sign: Value) -> Value:
    """Return `magnitude` with the sign of `sign`."""
    return b.intrinsic("copysign", magnitude, sign)


def keep_nan(b: MathBuilder, x: Value, result: Value) -> Value:
    """Return x where it is NaN, else `result`."""
    return b.select(b.is_nan(x), x, result)


def nearest_integer(b: MathBuilder, x: Value, factor: float) -> tuple[Value, Value]:
    """Return x * factor rounded to an integer, as a float and as s32 or s64 like it.

    Its magnitude must be below 2**22, or 2**51 in f64: it is taken from the low bits of a sum with
    a large constant.
    """
    dtype, word = x.dtype, S32 if x.dtype is F32 else S64
    magic = b.const(dtype, 1.5 * 2.0**dtype.mantissa_bits)
    shifted = fma(b, x, b.const(dtype, factor), magic)
    integer = b.isub(b.bitcast(shifted, word), b.bitcast(magic, word))
    return b.fsub(shifted, magic), integer


def power_of_two(b: MathBuilder, exponent: Value) -> Value:
    """Return 2**exponent for exponents of normal numbers: f32 for s32, f64 for s64."""
    word, dtype = exponent.dtype, F32 if exponent.dtype is S32 else F64
    biased = b.iadd(exponent, b.const(word, (1 << (dtype.exponent_bits - 1)) - 1))
    return b.bitcast(b.shl(biased, b.const(word, dtype.mantissa_bits)), dtype)


def scale(
    b: MathBuilder, x: Value, exponent: Value, n: Value, is_zero: Value | None = None
) -> Value:
    """Return x * 2**exponent, for exponents between -252 and 254; NaN if x is NaN.

    In f64 they lie between -2044 and 2046. `n` is the exponent as a float. Where `is_zero` holds,
    the result is 0 and x is not scaled.
    """
    if b.has_scaling:
        return b.scaled(x, exponent, n, is_zero)
    if is_zero is not None:
        exponent = b.select(is_zero, b.const(exponent.dtype, 0), exponent)
    half = b.ashr(exponent, b.const(exponent.dtype, 1))
    rest = b.isub(exponent, half)
    value = b.fmul(b.fmul(x, power_of_two(b, half)), power_of_two(b, rest))
    return value if is_zero is None else b.select(is_zero, b.const(x.dtype, 0.0), value)
