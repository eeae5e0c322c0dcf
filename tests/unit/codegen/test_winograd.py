"""Convolutions by Winograd's F(2x2, 3x3): which ones, their results, and numbers that overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.convolution import winograd, winograd_plan
from tests.tolerance import bounds_of
from tests.unit.codegen.emitters import emitter_for
from tests.unit.codegen.harness import check_root, module_text, parse_text, random_arrays
from tests.unit.codegen.processors import TARGETS

NHWC, FLIPPED, NCHW = "b01f_01io->b01f", "b01f_01oi->b01f", "bf01_oi01->bf01"
DIRECT = ", operand_precision={highest,highest}"

CASES = {
    "plain": ("f32[1,14,16,32]", "f32[3,3,32,64]", "f32[1,14,16,64]", "pad=1_1x1_1", NHWC),
    "odd": ("f32[2,13,15,32]", "f32[3,3,32,48]", "f32[2,13,15,48]", "pad=1_1x1_1", NHWC),
    "unpadded": ("f32[1,16,18,48]", "f32[3,3,48,32]", "f32[1,14,16,32]", "", NHWC),
    "wide-padding": ("f32[1,12,9,32]", "f32[3,3,32,32]", "f32[1,15,18,32]", "pad=4_1x0_11", NHWC),
    "cut": ("f32[2,17,16,32]", "f32[3,3,32,32]", "f32[2,11,14,32]", "pad=-3_-1x0_0", NHWC),
    "many-blocks": ("f32[1,70,6,32]", "f32[3,3,32,32]", "f32[1,70,6,32]", "pad=1_1x1_1", NHWC),
    "few-tiles": ("f32[1,8,8,64]", "f32[3,3,64,64]", "f32[1,8,8,64]", "pad=1_1x1_1", NHWC),
    "planes-few-tiles": (
        "f32[1,64,7,8]", "f32[64,64,3,3]", "f32[1,64,7,8]", "pad=1_1x1_1", NCHW,
    ),
    "parts": ("f32[1,14,14,32]", "f32[3,3,32,192]", "f32[1,14,14,192]", "pad=1_1x1_1", NHWC),
    "reversed": (
        "f32[1,14,14,64]", "f32[3,3,64,32]", "f32[1,14,14,32]", "pad=1_1x1_1 rhs_reversal=1x1",
        NHWC,
    ),
    "gradient": (
        "f32[1,14,14,64]", "f32[3,3,128,64]", "f32[1,14,14,128]", "pad=1_1x1_1 rhs_reversal=1x1",
        FLIPPED,
    ),
    "half-reversed": (
        "f32[3,6,12,32]", "f32[3,3,32,32]", "f32[3,6,12,32]", "pad=1_1x1_1 rhs_reversal=0x1", NHWC,
    ),
    "batch-inside": (
        "f32[14,14,2,32]", "f32[3,3,32,32]", "f32[14,14,2,32]", "pad=1_1x1_1", "01bf_01io->01bf",
    ),
    "planes": ("f32[1,32,14,16]", "f32[64,32,3,3]", "f32[1,64,14,16]", "pad=1_1x1_1", NCHW),
    "planes-odd": ("f32[2,32,13,15]", "f32[48,32,3,3]", "f32[2,48,13,15]", "pad=1_1x1_1", NCHW),
    "planes-unpadded": ("f32[1,48,16,41]", "f32[32,48,3,3]", "f32[1,32,14,39]", "", NCHW),
    "planes-wide-padding": (
        "f32[1,32,12,9]", "f32[32,32,3,3]", "f32[1,32,15,18]", "pad=4_1x0_11", NCHW,
    ),
    "planes-cut": ("f32[2,32,17,16]", "f32[32,32,3,3]", "f32[2,32,14,11]", "pad=0_-1x-2_-1", NCHW),
    "planes-many-blocks": (
        "f32[2,32,70,6]", "f32[32,32,3,3]", "f32[2,32,70,6]", "pad=1_1x1_1", NCHW,
    ),
    "planes-several-images": (
        "f32[6,32,10,10]", "f32[128,32,3,3]", "f32[6,128,10,10]", "pad=1_1x1_1", NCHW,
    ),
    "planes-gradient": (
        "f32[1,64,14,14]", "f32[64,128,3,3]", "f32[1,128,14,14]", "pad=1_1x1_1 rhs_reversal=1x1",
        "bf01_io01->bf01",
    ),
    "window-fastest": (
        "f32[1,14,14,32]", "f32[64,32,3,3]", "f32[1,14,14,64]", "pad=1_1x1_1", "b01f_oi01->b01f",
    ),
    "several-blocks-of-k": (
        "f32[1,14,14,1056]", "f32[3,3,1056,32]", "f32[1,14,14,32]", "pad=1_1x1_1", NHWC,
    ),
    "deep": ("f32[2,20,20,384]", "f32[3,3,384,352]", "f32[2,20,20,352]", "pad=1_1x1_1", NHWC),
}  # fmt: skip


def _text(case: tuple[str, ...], more: str = "") -> str:
    lhs, rhs, result, window, labels = case
    window = f"window={{size=3x3 {window}}}"
    root = f"{result} convolution(p0, p1), {window}, dim_labels={labels}{more}"
    return module_text([lhs, rhs], root)


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    """In one piece and in several: a thread transforms what its own pieces need."""
    text = _text(CASES[name])
    assert emitter_for(parse_text(text).entry.root) is winograd.EMITTER
    arrays, bounds = random_arrays(text), bounds_of("convolution", "f32")
    for machine in TARGETS:
        (whole,) = check_root(text, arrays, **bounds, target=machine)
        (pieces,) = check_root(text, arrays, **bounds, target=machine, pieces=3)
        np.testing.assert_array_equal(whole, pieces)


OTHERS = {
    "stride": ("f32[1,27,27,32]", "f32[3,3,32,32]", "f32[1,14,14,32]", "stride=2x2 pad=1_1x1_1"),
    "dilated": ("f32[1,18,18,32]", "f32[3,3,32,32]", "f32[1,14,14,32]", "rhs_dilate=2x2"),
    "holes": ("f32[1,8,8,32]", "f32[3,3,32,32]", "f32[1,15,15,32]", "pad=1_1x1_1 lhs_dilate=2x2"),
    "few-features": ("f32[1,30,30,16]", "f32[3,3,16,32]", "f32[1,28,28,32]", ""),
    "part-of-a-vector": ("f32[1,16,16,40]", "f32[3,3,40,40]", "f32[1,14,14,40]", ""),
    "few-tiles": ("f32[1,6,6,64]", "f32[3,3,64,64]", "f32[1,6,6,64]", "pad=1_1x1_1"),
    "few-multiplications": ("f32[1,8,8,32]", "f32[3,3,32,32]", "f32[1,8,8,32]", "pad=1_1x1_1"),
    "few-tiles-of-many": ("f32[1,10,10,256]", "f32[3,3,256,256]", "f32[1,8,8,256]", ""),
    "few-tiles-of-very-many": ("f32[1,14,14,384]", "f32[3,3,384,384]", "f32[1,12,12,384]", ""),
    "f64": ("f64[1,16,16,32]", "f64[3,3,32,32]", "f64[1,14,14,32]", ""),
    "groups": ("f32[1,16,16,64]", "f32[3,3,32,64]", "f32[1,14,14,64]", ""),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_convolutions_have_no_tiles(name: str) -> None:
    more = ", feature_group_count=2" if name == "groups" else ""
    assert (
        winograd_plan.winograd_of(parse_text(_text((*OTHERS[name], NHWC), more)).entry.root) is None
    )


def test_highest_precision_sums_the_products_of_the_window() -> None:
    text = _text(CASES["plain"], DIRECT)
    assert emitter_for(parse_text(text).entry.root) is not winograd.EMITTER
    check_root(text, random_arrays(text), **bounds_of("convolution", "f32"))


def _special(name: str) -> np.ndarray[Any, Any]:
    """Return an input with numbers that are not finite, or whose differences overflow."""
    x = np.random.default_rng(7).standard_normal((2, 13, 15, 32)).astype(np.float32)
    if name == "infinite":
        x[0, 3, 4, 5], x[1, 12, 14, 0] = np.inf, -np.inf
    elif name == "nan":
        x[1, 0, 0, 31] = np.nan
    else:
        x[0, 5:9, 5:9] = 3e38
    return x


KERNELS = {NHWC: (3, 3, 32, 128), FLIPPED: (3, 3, 128, 32), NCHW: (128, 32, 3, 3)}


@pytest.mark.parametrize("labels", KERNELS)
@pytest.mark.parametrize("name", ["infinite", "nan", "large"])
def test_rows_that_are_not_finite_are_computed_from_their_windows(name: str, labels: str) -> None:
    """An infinity reaches the results whose windows contain it, and no others."""
    x, dims = _special(name), KERNELS[labels]
    results = (2, 13, 15, 128)
    if labels == NCHW:
        x, results = x.transpose(0, 3, 1, 2), (2, 128, 13, 15)
    shapes = (f"f32[{','.join(map(str, sizes))}]" for sizes in (x.shape, dims, results))
    text = _text((*shapes, "pad=1_1x1_1", labels))
    kernel = np.random.default_rng(8).uniform(0, 1e-3, dims).astype(np.float32)
    (found,) = check_root(text, [x, kernel], **bounds_of("convolution", "f32"))
    assert np.isfinite(found).all() == (name == "large")
    assert np.isfinite(found).mean() > 0.9
