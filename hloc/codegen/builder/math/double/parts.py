"""Pieces that the f64 functions share: constants, sums in two parts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hloc.codegen.builder.math.parts import fma
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64, S64, U8

Pair: TypeAlias = tuple[Value, Value]
"""A number as the sum of two f64, the second at most half an ulp of the first."""

F64_FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The f64 functions by name."""

LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
LOG2_E = 1.4426950408889634


def f64_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register the f64 form of the function of that name."""
    F64_FUNCTIONS[function.__name__] = function
    return function


def d(b: MathBuilder, value: float) -> Value:
    """Return an f64 constant."""
    return b.const(F64, value)


def word(b: MathBuilder, value: int) -> Value:
    """Return an s64 constant."""
    return b.const(S64, value)


def table_of(b: MathBuilder, numbers: Sequence[float]) -> Value:
    """Return a constant array of f64."""
    bits = (struct.unpack("<q", struct.pack("<d", number))[0] for number in numbers)
    text = ", ".join(f"i64 {number}" for number in bits)
    return Value(U8, b.fn.global_constant(f"[{len(numbers)} x i64]", f"[{text}]"))


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
