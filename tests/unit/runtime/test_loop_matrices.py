"""Matrices that products in loops read are copied to a cache line if they do not begin at one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.dtypes import Array
from hloc.memory.heap import CACHE_LINE_BYTES

SIZE = 64
BYTES = 4 * SIZE * SIZE


def module(header: str = "", matrix: str = f"f32[{SIZE},{SIZE}]") -> str:
    """Return a loop of three steps that multiplies a vector by a matrix; both are results."""
    state = f"f32[{SIZE}]"
    types = f"(s32[], {state}, {matrix})"
    return f"""HloModule m{header}
condition {{
  p = {types} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT more = pred[] compare(i, n), direction=LT
}}
body {{
  p = {types} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  s = {state} get-tuple-element(p), index=1
  w = {matrix} get-tuple-element(p), index=2
  d = {state} dot(s, w), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT t = {types} tuple(next, d, w)
}}
ENTRY e {{
  s = {state} parameter(0)
  w = {matrix} parameter(1)
  zero = s32[] constant(0)
  t = {types} tuple(zero, s, w)
  l = {types} while(t), condition=condition, body=body
  r = {state} get-tuple-element(l), index=1
  v = {matrix} get-tuple-element(l), index=2
  ROOT both = ({state}, {matrix}) tuple(r, v)
}}"""


def placed(array: Array, offset: int) -> Array:
    """Return a copy `offset` bytes after the begin of a cache line."""
    memory = np.empty(array.nbytes + 2 * CACHE_LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % CACHE_LINE_BYTES + offset
    copy = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def arrays() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    state = rng.standard_normal(SIZE).astype(np.float32)
    return state, rng.standard_normal((SIZE, SIZE)).astype(np.float32) / 8


@pytest.mark.parametrize("cached", [False, True])
def test_any_place_gives_the_same_bits(
    cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HLOC_CACHE_DIR", str(tmp_path))
    text = module()
    executable = [hloc.compile(text) for _ in range(2)][cached]
    (matrix,) = executable.manifest.loop_matrices
    assert matrix == (executable.manifest.table.first_parameter + 1, BYTES)
    state, weights = arrays()
    matrices = weights, weights.T.copy()
    expected = [executable(state, placed(w, 0))[0] for w in matrices]
    assert not np.array_equal(expected[0], expected[1])
    for offset in (4, 16, 32):
        for w, wanted in zip(matrices, expected, strict=True):
            given = placed(w, offset)
            result, same = executable(state, given)
            np.testing.assert_array_equal(result, wanted)
            np.testing.assert_array_equal(same, w)
            np.testing.assert_array_equal(given, w)


def test_matrices_that_stay_where_they_are() -> None:
    """Those that an output may overwrite, and small ones."""
    aliased = ", input_output_alias={ {1}: (1, {}, may-alias) }"
    assert hloc.compile(module(aliased)).manifest.loop_matrices == ()
    narrow = module().replace(f"[{SIZE}", "[16").replace(f",{SIZE}]", ",16]")
    assert hloc.compile(narrow).manifest.loop_matrices == ()


def test_donated_matrix() -> None:
    aliased = ", input_output_alias={ {1}: (1, {}, may-alias) }"
    state, weights = arrays()
    expected, _ = hloc.compile(module())(state, weights)
    given = placed(weights, 16)
    result, same = hloc.compile(module(aliased))(state, given, donate=[1])
    np.testing.assert_array_equal(result, expected)
    assert same is given
    np.testing.assert_array_equal(same, weights)
