"""Rows that are divided by a number of their own: the bits of a division, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import hloc

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
