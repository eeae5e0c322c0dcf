"""A concatenation as the source of others: what one part makes is not there in another."""

from __future__ import annotations

import numpy as np

import hloc


def test_scalars_are_put_together_twice() -> None:
    """Comparisons made in the second part of one were used after it: wrong LLVM text."""
    text = """HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  i = f32[1] slice(x), slice={[0:1]}
  j = f32[1] slice(x), slice={[1:2]}
  k = f32[1] slice(x), slice={[2:3]}
  ij = f32[1] multiply(i, j)
  jk = f32[1] subtract(j, k)
  one = f32[3] concatenate(ij, jk, i), dimensions={0}
  y = f32[3] add(x, one)
  l = f32[1] slice(y), slice={[0:1]}
  m = f32[1] slice(y), slice={[1:2]}
  n = f32[1] slice(y), slice={[2:3]}
  lm = f32[1] multiply(l, m)
  mn = f32[1] subtract(m, n)
  two = f32[3] concatenate(mn, lm, n), dimensions={0}
  ROOT r = f32[3] add(one, two)
}"""
    x = np.array([1.5, -2.25, 3.0], np.float32)
    (found,) = hloc.compile(text)(x)
    (expected,) = hloc.evaluate(text, x)
    np.testing.assert_array_equal(found, expected)
