"""Convolutions on the simulated GPU: as tiled products and element by element."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.gpu.emitters.gemm.gemm import Way, problem_of, way_of
from hloc.codegen.gpu.nvptx.cubin import assemble
from hloc.driver import parse_text
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.unit.gpu.simulate import SPILL_BYTES, check, compiled, entry


def convolution(operands: str, result: str, numbers: str) -> str:
    return entry(operands, f"{result} convolution(p0, p1), {numbers}")


def way(text: str) -> Way:
    return way_of(problem_of(parse_text(text).entry.root))


@pytest.mark.parametrize(
    ("operands", "result", "numbers"),
    [
        (  # channels last
            "f32[2,9,8,4];f32[3,3,4,20]",
            "f32[2,9,8,20]",
            "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
        ),
        (  # channels first, strides, uneven padding
            "f32[2,4,19,18];f32[20,4,3,3]",
            "f32[2,20,9,9]",
            "window={size=3x3 stride=2x2 pad=1_0x1_1}, dim_labels=bf01_oi01->bf01",
        ),
        (  # gradient of the input: holes in it, window reversed
            "f32[2,4,9,8];f32[8,4,3,3]",
            "f32[2,8,17,15]",
            "window={size=3x3 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x1}, "
            "dim_labels=bf01_oi01->bf01",
        ),
        (  # gradient of the weights: a window as large as the result was
            "f32[9,8,2,12];f32[7,6,2,10]",
            "f32[3,3,12,10]",
            "window={size=7x6}, dim_labels=01fb_01io->01bf",
        ),
        (  # a dilated window, groups of features
            "f32[2,9,8,6];f32[3,3,3,24]",
            "f32[2,5,4,24]",
            "window={size=3x3 rhs_dilate=2x2}, dim_labels=b01f_01io->b01f, feature_group_count=2",
        ),
        (  # groups of the batch
            "f32[4,9,8,6];f32[3,3,6,16]",
            "f32[2,7,6,16]",
            "window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=2",
        ),
        (  # one spatial dimension, holes and steps
            "f32[2,30,3];f32[5,3,9]",
            "f32[2,22,9]",
            "window={size=5 stride=3 pad=4_5 lhs_dilate=2}, dim_labels=b0f_0io->b0f",
        ),
        (  # negative padding
            "f32[2,9,8,6];f32[3,3,6,8]",
            "f32[2,5,4,8]",
            "window={size=3x3 pad=-1_-1x-1_-1}, dim_labels=b01f_01io->b01f",
        ),
        (  # three spatial dimensions
            "f32[1,5,4,6,4];f32[2,2,2,4,8]",
            "f32[1,4,3,5,8]",
            "window={size=2x2x2}, dim_labels=b012f_012io->b012f",
        ),
    ],
)
def test_forms(operands: str, result: str, numbers: str) -> None:
    """Labels, windows and groups that are products of matrices large enough for tiles."""
    text = convolution(operands, result, numbers)
    assert way(text) in (Way.TILES, Way.FEW_ROWS)
    check(text)


@pytest.mark.parametrize(
    "types", ["bf16 bf16 bf16", "f16 f16 f32", "s8 s8 s32", "f64 f64 f64", "c64 c64 c64"]
)
def test_types(types: str) -> None:
    left, right, result = types.split()
    text = convolution(
        f"{left}[2,6,8,16];{right}[3,3,16,24]",
        f"{result}[2,6,8,24]",
        "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    )
    check(text)
    has_tiles = left in ("bf16", "f16", "s8")
    assert ("mma.sync" in compiled(text).ptx) is has_tiles


@pytest.mark.parametrize("labels", ["b01f_01io->b01f", "bf01_oi01->bf01"])
def test_depthwise_and_narrow(labels: str) -> None:
    """A thread per element: groups of one feature, and results of few features."""
    last = labels.startswith("b01f")
    image, kernel = ("2,7,6,8", "3,3,1,8") if last else ("2,8,7,6", "8,1,3,3")
    window = f"window={{size=3x3 pad=1_1x1_1}}, dim_labels={labels}"
    text = convolution(
        f"f32[{image}];f32[{kernel}]", f"f32[{image}]", f"{window}, feature_group_count=8"
    )
    assert way(text) is Way.ELEMENTS
    check(text)


def test_padding_meets_infinity_element_by_element() -> None:
    """What is outside is left out, not multiplied with zero."""
    text = convolution(
        "f32[1,4,1];f32[3,1,1]", "f32[1,4,1]", "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"
    )
    image = np.arange(4, dtype=np.float32).reshape(1, 4, 1)
    kernel = np.array([np.inf, 1, 1], np.float32).reshape(3, 1, 1)
    (found,) = GpuExecutable(compiled(text), SimulatedDevice())(image, kernel)
    assert found[0, 0, 0] == 1.0


def test_an_input_without_elements() -> None:
    """All of the result is padding."""
    check(
        convolution(
            "f32[2,0,4];f32[1,4,9]",
            "f32[2,40,9]",
            "window={size=1 pad=20_20}, dim_labels=b0f_0io->b0f",
        )
    )


def test_what_is_fused_around_a_convolution() -> None:
    """A computed input and kernel, a bias and an activation: one kernel."""
    text = """HloModule m
fused {
  a = f32[2,6,8,16] parameter(0)
  b = f32[3,3,16,24] parameter(1)
  bias = f32[24] parameter(2)
  x = bf16[2,6,8,16] convert(a)
  y = bf16[3,3,16,24] convert(b)
  d = f32[2,6,8,24] convolution(x, y), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  w = f32[2,6,8,24] broadcast(bias), dimensions={3}
  s = f32[2,6,8,24] add(d, w)
  ROOT t = f32[2,6,8,24] tanh(s)
}
ENTRY e {
  a = f32[2,6,8,16] parameter(0)
  b = f32[3,3,16,24] parameter(1)
  bias = f32[24] parameter(2)
  ROOT f = f32[2,6,8,24] fusion(a, b, bias), kind=kOutput, calls=fused
}
"""
    (kernel,) = compiled(text, 1).kernels
    assert len(kernel.functions) == 1
    check(text, 1)


@pytest.mark.parametrize(
    "chip",
    ["sm_90", *(pytest.param(chip, marks=pytest.mark.slow) for chip in ("sm_80", "sm_100"))],
)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_nothing_spills(dtype: str, chip: str) -> None:
    text = convolution(
        f"{dtype}[32,56,56,64];{dtype}[3,3,64,128]",
        f"{dtype}[32,56,56,128]",
        "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    )
    (use,) = assemble(compiled(text, cpu=chip).ptx, chip).uses.values()
    assert use.spill_bytes <= SPILL_BYTES
    assert use.registers <= 224
