"""Pieces that the f64 functions share: tables of coefficients, scaling, sums in two parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hloc.codegen.builder.math.parts import fma
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64, S64

Pair: TypeAlias = tuple[Value, Value]
"""A number as the sum of two f64, the second at most half an ulp of the first."""

F64_FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The f64 functions by name."""

LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
LOG2_E = 1.4426950408889634
MAGIC = 1.5 * 2.0**52
"""A number below 2**51 added to it is rounded to an integer, which its low bits hold."""


def f64_function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the f64 form of function `name`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        F64_FUNCTIONS[name] = function
        return function

    return register


def d(b: MathBuilder, value: float) -> Value:
    """Return an f64 constant."""
    return b.const(F64, value)


def word(b: MathBuilder, value: int) -> Value:
    """Return an s64 constant."""
    return b.const(S64, value)


def nearest_integer(b: MathBuilder, x: Value, factor: float) -> tuple[Value, Value]:
    """Return x * factor rounded to an integer, as f64 and as s64; it is below 2**51."""
    magic = d(b, MAGIC)
    shifted = fma(b, x, d(b, factor), magic)
    return b.fsub(shifted, magic), b.isub(b.bitcast(shifted, S64), b.bitcast(magic, S64))


def power_of_two(b: MathBuilder, exponent: Value) -> Value:
    """Return 2**exponent for s64 exponents of normal numbers."""
    return b.bitcast(b.shl(b.iadd(exponent, word(b, 1023)), word(b, 52)), F64)


def scale(
    b: MathBuilder, x: Value, exponent: Value, n: Value, is_zero: Value | None = None
) -> Value:
    """Return x * 2**exponent, for exponents between -2044 and 2046.

    `n` is the exponent as a float. Where `is_zero` holds the result is 0, and nothing is scaled.
    """
    if b.has_scaling:
        return b.scaled(x, exponent, n, is_zero)
    if is_zero is not None:
        exponent = b.select(is_zero, word(b, 0), exponent)
    half = b.ashr(exponent, word(b, 1))
    rest = b.isub(exponent, half)
    value = b.fmul(b.fmul(x, power_of_two(b, half)), power_of_two(b, rest))
    return value if is_zero is None else b.select(is_zero, d(b, 0.0), value)


# ---------------------------------------------------------------- sums in two parts


def sum_of(b: MathBuilder, x: Value, y: Value) -> Pair:
    """Return x + y exactly, for |x| >= |y| (Dekker)."""
    total = b.fsub(x, b.fneg(y))
    return total, b.fsub(y, b.fsub(total, x))


def product_of(b: MathBuilder, x: Value, y: Value) -> Pair:
    """Return x * y exactly."""
    product = fma(b, x, y, d(b, -0.0))
    return product, fma(b, x, y, b.fneg(product))


def multiply(b: MathBuilder, x: Pair, y: Pair) -> Pair:
    """Return x * y to about 104 bits."""
    high, low = product_of(b, x[0], y[0])
    return sum_of(b, high, fma(b, x[0], y[1], fma(b, x[1], y[0], low)))


def add(b: MathBuilder, x: Pair, y: Pair) -> Pair:
    """Return x + y to about 100 bits, for |x| >= |y|."""
    high, low = sum_of(b, x[0], y[0])
    return sum_of(b, high, b.fadd(b.fadd(x[1], y[1]), low))
