"""Powers of 1/2, 3/2 and 5/2 of either sign: by a square root, with C's results at the edges."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from tests.tolerance import assert_close

TEXT = """HloModule m
ENTRY e {
  x = TYPE[16] parameter(0)
  k = TYPE[] constant(EXPONENT)
  y = TYPE[16] broadcast(k), dimensions={}
  p = TYPE[16] power(x, y)
  n = TYPE[16] negate(p)
  ROOT t = (TYPE[16], TYPE[16]) tuple(p, n)
}"""


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_edges_and_ordinary_numbers(dtype: str, exponent: float) -> None:
    text = TEXT.replace("TYPE", dtype).replace("EXPONENT", str(exponent))
    module = hloc.parse(text)
    numpy_type = module.entry.parameters[0].array.dtype.numpy
    info = np.finfo(np.float64 if dtype == "f64" else np.float32)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -2.0, info.max, info.tiny, 1.0]
    values = np.array([*edges, 0.3, 2.0, 7.0, 1e10, 1e-10, 123.456, 9.0]).astype(numpy_type)
    got, negated = hloc.compile(text)(values)
    with np.errstate(all="ignore"):
        want = np.power(values.astype(np.float64), np.full(16, exponent)).astype(numpy_type)
    assert_close(got, want)
    assert_close(negated, -want)


def test_a_kernel_of_its_own_does_not_look_at_its_operands() -> None:
    """Two powers of one shape share a kernel; the exponents lie in memory."""
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] constant({0.5, 0.5, 0.5, 0.5})
  b = f32[4] constant({2.5, 2.5, 2.5, 2.5})
  p = f32[4] power(x, a)
  q = f32[4] power(x, b)
  ROOT t = (f32[4], f32[4]) tuple(p, q)
}"""
    x = np.array([1.0, 4.0, 9.0, 16.0], np.float32)
    for level in (0, 2):
        p, q = hloc.compile(text, opt_level=level)(x)
        assert_close(p, x**0.5)
        assert_close(q, x**2.5)
