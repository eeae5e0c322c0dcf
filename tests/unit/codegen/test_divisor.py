"""Rows that are divided by a number of their own: the bits of a division, whatever the numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hloc
from hloc.codegen.builder.reciprocal import reciprocal_parts
from hloc.dtypes import F32, F64

ROWS, SIZE = 96, 70


def module(dtype: str) -> str:
    """Return rows over their last elements, which a reduction finds: the rest of the row is 0."""
    array, row = f"{dtype}[{ROWS},{SIZE}]", f"{dtype}[{ROWS}]"
    return f"""HloModule m
add {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT c = {dtype}[] add(a, b)
}}
ENTRY e {{
  x = {array} parameter(0)
  y = {array} parameter(1)
  zero = {dtype}[] constant(0)
  s = {row} reduce(y, zero), dimensions={{1}}, to_apply=add
  t = {row} reduce(x, zero), dimensions={{1}}, to_apply=add
  sb = {array} broadcast(s), dimensions={{0}}
  q = {array} divide(x, sb)
  ROOT r = ({array}, {row}) tuple(q, t)
}}"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_bits_of_a_division(dtype: str) -> None:
    kind = np.float32 if dtype == "f32" else np.float64
    least_number = float(np.finfo(kind).smallest_subnormal)
    largest = float(np.finfo(kind).max)
    rng = np.random.default_rng(0)
    least, most = (-126, 127) if dtype == "f32" else (-1022, 1023)
    y = np.zeros((ROWS, SIZE), kind)
    y[:, -1] = rng.standard_normal(ROWS) * 2.0 ** rng.integers(least + 2, most - 2, ROWS)
    special = [0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, least_number]
    y[: len(special), -1] = special
    x = rng.standard_normal((ROWS, SIZE)) * 2.0 ** rng.integers(least, most - 2, (ROWS, SIZE))
    x[:, :7] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, largest]
    x = x.astype(kind)
    compiled = hloc.compile(module(dtype))
    found = compiled(x, y)[0]
    with np.errstate(all="ignore"):
        expected = x / y.sum(1, keepdims=True)
    smallest = float(np.finfo(kind).tiny)
    is_exact = ~((np.abs(expected) < smallest) | (np.abs(x) < smallest * 2.0**60) & (x != 0))
    np.testing.assert_array_equal(found[is_exact], expected[is_exact])
    np.testing.assert_array_equal(np.signbit(found[is_exact]), np.signbit(expected[is_exact]))
    ulp = float(np.finfo(kind).eps)
    np.testing.assert_allclose(found[~is_exact], expected[~is_exact], ulp, least_number)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_floats(dtype: str) -> None:
    from hloc.dtypes import DTYPES

    rng = np.random.default_rng(1)
    y = np.zeros((ROWS, SIZE), DTYPES[dtype].numpy)
    y[:, -1] = rng.uniform(0.1, 30, ROWS)
    x = rng.standard_normal((ROWS, SIZE)).astype(DTYPES[dtype].numpy)
    found = hloc.compile(module(dtype))(x, y)[0]
    expected = hloc.evaluate(module(dtype), x, y)[0]
    np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("number", [255.0, -0.7, 3.0, 1e-10, 1.4142135, 1e30, 1e-30])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_constants(dtype: str, number: float) -> None:
    kind = np.float32 if dtype == "f32" else np.float64
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(1003) * 2.0 ** rng.integers(-30, 30, 1003)).astype(kind)
    x[:7] = [0.0, -0.0, np.inf, -np.inf, np.nan, float(np.finfo(kind).max), 1.0]
    text = f"""HloModule m
ENTRY e {{
  x = {dtype}[1003] parameter(0)
  c = {dtype}[] constant({number})
  b = {dtype}[1003] broadcast(c), dimensions={{}}
  ROOT r = {dtype}[1003] divide(x, b)
}}"""
    (found,) = hloc.compile(text)(x)
    with np.errstate(all="ignore"):
        expected = np.divide(x, kind(number))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("number", [3.0, -72.0, 255.0, 999979.0 / 2**40])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_constants_of_few_bits_inside_a_loop(dtype: str, number: float) -> None:
    """All numbers of f32 from 1 to 2, a quarter of them at other magnitudes; as many of f64."""
    kind = np.float32 if dtype == "f32" else np.float64
    bits = np.arange(1 << 23, dtype=np.uint32) + np.uint32(0x3F800000)
    bits[::4] -= np.uint32(80 << 23)
    x = bits.view(np.float32).astype(kind)
    if dtype == "f64":
        low = np.random.default_rng(0).integers(0, 1 << 29, x.size, dtype=np.uint64)
        x = (x.view(np.uint64) | low).view(kind)
    text = f"""HloModule m
ENTRY e {{
  x = {dtype}[{x.size}] parameter(0)
  c = {dtype}[] constant({number!r})
  b = {dtype}[{x.size}] broadcast(c), dimensions={{}}
  ROOT r = {dtype}[{x.size}] divide(x, b)
}}"""
    (found,) = hloc.compile(text)(x)
    np.testing.assert_array_equal(found, np.divide(x, kind(number)))


@pytest.mark.parametrize("number", [0.1, 1 / 3, 2**49 + 1.0])
def test_reciprocals_in_two_parts_are_for_short_divisors_only(number: float) -> None:
    assert reciprocal_parts(number, F64) is None
    assert reciprocal_parts(4.0, F64) is None
    assert reciprocal_parts(2.0**21 + 1, F32) is None
    high, low = reciprocal_parts(-72.0, F64) or (0.0, 0.0)
    assert high < 0
    assert low < 0
    exact = Fraction(1, -72)
    assert abs(Fraction(high) + Fraction(low) - exact) < -exact / 2**105
