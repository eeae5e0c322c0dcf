"""select-and-scatter on GPUs: overlapping windows, padding, steps, and what is in no window."""

from __future__ import annotations

import pytest

from hloc.codegen.gpu.emitters.reduction import select_and_scatter
from tests.unit.codegen.emitters import gpu_emitter_for
from tests.unit.gpu.simulate import check, compiled, entry

_FUNCTIONS = """ge {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=GE
}
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
"""


@pytest.mark.parametrize(
    ("operand", "source", "window"),
    [
        ("10", "4", "size=3 stride=2 pad=0_0"),
        ("11", "4", "size=2 stride=3 pad=0_0"),  # elements between windows
        ("6,7", "6,7", "size=3x3 pad=1_1x1_1"),
        ("2,9", "1,5", "size=2x3 stride=2x2 pad=0_0x2_0"),
    ],
)
def test_windows(operand: str, source: str, window: str) -> None:
    root = (
        f"f32[{operand}] select-and-scatter(p0, p1, p2), "
        f"window={{{window}}}, select=ge, scatter=add"
    )
    text = entry(f"f32[{operand}];f32[{source}];f32[]", root, _FUNCTIONS)
    requests = compiled(text, opt_level=1).plan.kernels
    assert any(gpu_emitter_for(r.inst) is select_and_scatter.EMITTER for r in requests)
    check(text, opt_level=1)
