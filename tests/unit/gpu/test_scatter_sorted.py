"""Scatters of many windows: sorted by place, so each place has one run of updates, in order."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.gpu.emitters.scatter import scatter_sorted
from hloc.driver import parse_text
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.unit.gpu.simulate import check_bits, compiled

ROWS = """HloModule m
combine {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  {combiner}
}}
ENTRY e {{
  x = f32[{rows},3] parameter(0)
  i = s32[{windows},1] parameter(1)
  u = f32[{windows},3] parameter(2)
  n = f32[{windows},3] negate(u)
  ROOT r = f32[{rows},3] scatter(x, i, n), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=combine
}}
"""

PAIRS = """HloModule m
combine {
  a = f32[] parameter(0)
  n = s32[] parameter(1)
  b = f32[] parameter(2)
  m = s32[] parameter(3)
  more = pred[] compare(b, a), direction=GT
  s = f32[] select(more, b, a)
  t = s32[] add(n, m)
  ROOT r = (f32[], s32[]) tuple(s, t)
}
ENTRY e {
  x = f32[7,9] parameter(0)
  c = s32[7,9] parameter(1)
  i = s32[2,2100] parameter(2)
  u = f32[2100] parameter(3)
  v = s32[2100] parameter(4)
  ROOT r = (f32[7,9], s32[7,9]) scatter(x, c, i, u, v), update_window_dims={},
    inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0,
    to_apply=combine
}
"""


@pytest.mark.parametrize(
    ("combiner", "windows"),
    [
        ("ROOT r = f32[] copy(b)", 2048),
        ("ROOT r = f32[] subtract(b, a)", 2500),  # the order matters
        ("ROOT r = f32[] add(a, b)", 3000),  # so do roundings
    ],
)
def test_rows_that_many_updates_share(combiner: str, windows: int) -> None:
    """Half of the updates go to one row, and some beyond either end."""
    random = np.random.default_rng(windows)
    indices = random.integers(-3, 44, (windows, 1)).astype(np.int32)
    indices[::2] = 17
    arrays = [random.standard_normal(s).astype(np.float32) for s in ((40, 3), (windows, 3))]
    text = ROWS.format(combiner=combiner, windows=windows, rows=40)
    check_bits(text, [arrays[0], indices, arrays[1]], scatter_sorted.EMITTER)


def test_several_operands_and_indices_of_two_dimensions() -> None:
    random = np.random.default_rng(1)
    indices = np.stack([random.integers(-1, 9, 2100), random.integers(0, 8, 2100)])
    values = random.standard_normal(2100).astype(np.float32)
    operand = random.standard_normal((7, 9)).astype(np.float32)
    counts = np.zeros((7, 9), np.int32)
    check_bits(
        PAIRS,
        [operand, counts, indices.astype(np.int32), values, np.ones(2100, np.int32)],
        scatter_sorted.EMITTER,
    )


def test_work_does_not_grow_with_the_square() -> None:
    """A thousand threads that look at all 2048 windows would do more than twice as much."""
    text = ROWS.format(combiner="ROOT r = f32[] add(a, b)", windows=2048, rows=4096)
    device = SimulatedDevice(metrics=True)
    indices = np.random.default_rng(0).integers(0, 4096, (2048, 1)).astype(np.int32)
    operand, updates = np.zeros((4096, 3), np.float32), np.ones((2048, 3), np.float32)
    GpuExecutable(compiled(text), device)(operand, indices, updates)
    assert sum(report.thread_instructions for _, report in device.reports) < 2 * 1024 * 2048


@pytest.mark.parametrize(("windows", "rows"), [(1 << 31, 40), (2048, 1 << 30)])
def test_what_cannot_be_counted_in_s32_is_not_sorted(windows: int, rows: int) -> None:
    """Numbers of windows, and places in the operand, are kept in 32 bits."""
    text = ROWS.format(combiner="ROOT r = f32[] add(a, b)", windows=windows, rows=rows)
    assert not scatter_sorted.plan(parse_text(text).entry.root)
