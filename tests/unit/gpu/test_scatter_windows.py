"""Scatters whose windows overlap at any distance: updates of an element in order, no races."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.gpu.emitters.scatter import scatter_windows
from tests.unit.gpu.simulate import Array, check_bits

COMBINERS = {
    "last": "ROOT r = f32[] copy(b)",
    "add": "ROOT r = f32[] add(a, b)",
    "minus": "ROOT r = f32[] subtract(b, a)",  # the order matters
}


def scatter(operand: str, indices: str, updates: str, attributes: str, combiner: str) -> str:
    return f"""HloModule m
combine {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  {COMBINERS[combiner]}
}}
ENTRY e {{
  x = f32[{operand}] parameter(0)
  i = s32[{indices}] parameter(1)
  u = f32[{updates}] parameter(2)
  ROOT r = f32[{operand}] scatter(x, i, u), {attributes}, to_apply=combine
}}
"""


@pytest.mark.parametrize("combiner", COMBINERS)
def test_windows_that_overlap(combiner: str) -> None:
    """Of 12 windows of 3 x 4 in 9 x 11, some do not fit; a window may lie on itself."""
    attributes = (
        "update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1"
    )
    text = scatter("9,11", "12,2", "12,3,4", attributes, combiner)
    random = np.random.default_rng(3)
    indices = random.integers(-2, 10, (12, 2)).astype(np.int32)
    indices[5] = indices[4] = (2, 3)
    arrays = [random.standard_normal(s).astype(np.float32) for s in ((9, 11), (12, 3, 4))]
    check_bits(text, [arrays[0], indices, arrays[1]], scatter_windows.EMITTER)


def test_dimensions_that_indices_do_not_move_and_those_left_out() -> None:
    """One dimension of the operand is left out of windows, one is as long as the window."""
    attributes = (
        "update_window_dims={0,2}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={2,1}, index_vector_dim=0"
    )
    text = scatter("5,6,7", "2,8", "5,8,2", attributes, "add")
    random = np.random.default_rng(5)
    indices = random.integers(0, 6, (2, 8)).astype(np.int32)
    operand = random.integers(-9, 9, (5, 6, 7)).astype(np.float32)
    check_bits(
        text,
        [operand, indices, random.integers(-9, 9, (5, 8, 2)).astype(np.float32)],
        scatter_windows.EMITTER,
    )


def test_one_window_without_a_batch() -> None:
    """As `x.at[2:5].set(u)` is traced: a single index vector."""
    attributes = (
        "update_window_dims={0}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=0"
    )
    text = scatter("300", "1", "7", attributes, "last")
    arrays: list[Array] = [np.arange(300, dtype=np.float32), np.array([290], np.int32)]
    check_bits(text, [*arrays, -np.ones(7, np.float32)], scatter_windows.EMITTER)
