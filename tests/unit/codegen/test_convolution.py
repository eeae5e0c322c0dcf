"""Convolutions: layouts, strides, dilations, groups, reversal."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.convolution import convolution_gemm, dilated_gemm, windowed_gemm
from hloc.codegen.cpu.emitters.gemm import dot
from hloc.codegen.llvm.target import host_target
from tests.tolerance import bounds, bounds_of
from tests.unit.codegen.emitters import emitter_for
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays

NHWC, NCHW, BF0 = "b01f_01io->b01f", "bf01_oi01->bf01", "bf0_oi0->bf0"

CASES = {
    "nhwc": ("f32[2,9,8,3]", "f32[3,3,3,5]", "f32[2,9,8,5]", "size=3x3 pad=1_1x1_1", NHWC),
    "nchw": ("f32[2,3,9,8]", "f32[5,3,3,3]", "f32[2,5,9,8]", "size=3x3 pad=1_1x1_1", NCHW),
    "stride": (
        "f32[2,3,9,8]", "f32[5,3,3,3]", "f32[2,5,5,4]", "size=3x3 stride=2x2 pad=1_1x1_1", NCHW,
    ),
    "window-dilation": (
        "f32[2,3,9,8]", "f32[5,3,3,3]", "f32[2,5,7,6]", "size=3x3 pad=1_1x1_1 rhs_dilate=2x2", NCHW,
    ),
    "base-dilation": (
        "f32[2,3,9,8]", "f32[5,3,3,3]", "f32[2,5,17,15]", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2",
        NCHW,
    ),
    "reversed": (
        "f32[2,9,8,3]", "f32[3,3,3,5]", "f32[2,17,15,5]",
        "size=3x3 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x1", NHWC,
    ),
    "reversed-nchw": (
        "f32[2,3,9,8]", "f32[5,3,3,4]", "f32[2,5,9,7]",
        "size=3x4 pad=1_1x1_1 rhs_reversal=1x1", NCHW,
    ),
    "negative-padding": (
        "f32[1,1,4]", "f32[1,1,2]", "f32[1,1,4]", "size=2 pad=-1_-1 lhs_dilate=2", "bf0_oi0->bf0",
    ),
    "long-rows": ("f32[1,3,600]", "f32[4,3,5]", "f32[1,4,600]", "size=5 pad=2_2", "bf0_oi0->bf0"),
    "many-features": (
        "f32[1,10,7]", "f32[5,7,300]", "f32[1,10,300]", "size=5 pad=2_2", "b0f_0io->b0f",
    ),
    "wide": (
        "f32[2,18,20,24]", "f32[3,3,24,70]", "f32[2,18,20,70]", "size=3x3 pad=1_1x1_1", NHWC,
    ),
    "wide-stride-nchw": (
        "f32[2,24,19,40]", "f32[70,24,3,3]", "f32[2,70,10,20]",
        "size=3x3 stride=2x2 pad=1_1x1_1", NCHW,
    ),
    "batch-fastest": (
        "f32[9,8,3,20]", "f32[3,3,3,5]", "f32[9,8,5,20]", "size=3x3 pad=1_1x1_1",
        "01fb_01io->01fb",
    ),
    "holes-long-row": (
        "f32[2,3,200]", "f32[1,3,7]", "f32[2,1,600]", "size=7 pad=4_4 lhs_dilate=3", "bf0_oi0->bf0",
    ),
    "holes-and-steps": (
        "f32[2,3,50]", "f32[2,3,4]", "f32[2,2,74]", "size=4 stride=2 pad=1_1 lhs_dilate=3",
        "bf0_oi0->bf0",
    ),
    "holes-cropped": (
        "f32[2,3,9]", "f32[1,3,4]", "f32[2,1,16]", "size=4 pad=-3_-8 lhs_dilate=4 rhs_dilate=2",
        "bf0_oi0->bf0",
    ),
    "holes-empty": (
        "f32[2,3,0]", "f32[1,3,4]", "f32[2,1,4]", "size=4 pad=3_4 lhs_dilate=4", "bf0_oi0->bf0",
    ),
    # rows of vectors: part of one, several blocks, padding wider than a block, long windows
    "short-rows": ("f32[3,2,5,5]", "f32[3,2,3,3]", "f32[3,3,5,5]", "size=3x3 pad=1_1x1_1", NCHW),
    "rows": ("f32[2,1,6,70]", "f32[2,1,3,5]", "f32[2,2,4,70]", "size=3x5 pad=0_0x2_2", NCHW),
    "rows-f64": ("f64[1,1,4,131]", "f64[1,1,3,3]", "f64[1,1,4,131]", "size=3x3 pad=1_1x1_1", NCHW),
    "rows-reversed": (
        "f32[1,2,4,90]", "f32[1,2,2,5]", "f32[1,1,3,89]", "size=2x5 pad=0_0x1_2 rhs_reversal=1x1",
        NCHW,
    ),
    "rows-dilated": (
        "f32[1,1,9,80]", "f32[1,1,3,3]", "f32[1,1,5,76]", "size=3x3 rhs_dilate=2x2", NCHW,
    ),
    "rows-stride-2": (
        "f32[1,2,4,131]", "f32[1,2,1,4]", "f32[1,1,4,66]", "size=1x4 stride=1x2 pad=0_0x2_2", NCHW,
    ),
    "rows-late": (  # the last block begins before the row does
        "f32[1,1,66]", "f32[1,1,2]", "f32[1,1,66]", "size=2 stride=2 pad=67_0", BF0,
    ),
    "rows-cropped": ("f32[1,1,200]", "f32[1,1,3]", "f32[1,1,190]", "size=3 pad=-5_-3", BF0),
    "rows-far-padding": ("f32[1,1,20]", "f32[1,1,3]", "f32[1,1,210]", "size=3 pad=99_93", BF0),
    "rows-long-window": ("f32[1,1,300]", "f32[1,1,31]", "f32[1,1,300]", "size=31 pad=15_15", BF0),
    "rows-many-inputs": ("f32[1,9,70]", "f32[1,9,3]", "f32[1,1,70]", "size=3 pad=1_1", BF0),
    "no-space": ("f32[9,8]", "f32[8,5]", "f32[9,5]", "", "bf_io->bf"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_convolution(name: str) -> None:
    lhs, rhs, result, window, labels = CASES[name]
    root = f"{result} convolution(p0, p1), window={{{window}}}, dim_labels={labels}"
    text = module_text([lhs, rhs], root)
    check_root(text, random_arrays(text), **bounds("f32 products"))


@pytest.mark.parametrize("name", CASES)
def test_convolution_without_gemms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windowed_gemm, "_windowed_gemm", lambda c: None)
    test_convolution(name)


def test_an_infinite_factor_outside_a_row_adds_nothing() -> None:
    root = f"f32[1,1,70] convolution(p0, p1), window={{size=3 pad=1_1}}, dim_labels={BF0}"
    text = module_text(["f32[1,1,70]", "f32[1,1,3]"], root)
    row, factors = random_arrays(text)
    factors[0, 0, 0] = np.inf
    check_root(text, [row, factors], **bounds("f32 products"))


GROUPS = [
    ("f32[2,9,8,6]", "f32[3,3,3,4]", "f32[2,9,8,4]", NHWC, "feature_group_count=2"),
    ("f32[2,9,20,48]", "f32[3,3,24,80]", "f32[2,9,20,80]", NHWC, "feature_group_count=2"),
    ("f32[2,9,8,6]", "f32[3,3,1,6]", "f32[2,9,8,6]", NHWC, "feature_group_count=6"),
    ("f32[2,6,9,8]", "f32[6,1,3,3]", "f32[2,6,9,8]", NCHW, "feature_group_count=6"),
    ("f32[4,9,8,3]", "f32[3,3,3,6]", "f32[2,9,8,6]", NHWC, "batch_group_count=2"),
    ("f32[4,9,20,24]", "f32[3,3,24,80]", "f32[2,9,20,80]", NHWC, "batch_group_count=2"),
    # summed in registers: one input feature for each, for a few, for more than are unrolled
    ("f32[2,9,8,96]", "f32[3,3,1,96]", "f32[2,9,8,96]", NHWC, "feature_group_count=96"),
    ("f64[2,9,8,24]", "f64[3,3,1,24]", "f64[2,9,8,24]", NHWC, "feature_group_count=24"),
    ("f32[2,9,8,6]", "f32[3,3,2,24]", "f32[2,9,8,24]", NHWC, "feature_group_count=3"),
    ("f32[2,9,8,18]", "f32[3,3,9,8]", "f32[2,9,8,8]", NHWC, "feature_group_count=2"),
    # inputs of groups moved to the lanes of outputs: whole vectors, and a rest of groups
    ("f32[2,9,13,64]", "f32[3,3,4,64]", "f32[2,9,13,64]", NHWC, "feature_group_count=16"),
    ("f32[2,9,13,60]", "f32[3,3,2,90]", "f32[2,9,13,90]", NHWC, "feature_group_count=30"),
    ("f64[2,9,13,35]", "f64[3,3,5,21]", "f64[2,9,13,21]", NHWC, "feature_group_count=7"),
]


@pytest.mark.parametrize(("lhs", "rhs", "result", "labels", "groups"), GROUPS)
def test_groups(lhs: str, rhs: str, result: str, labels: str, groups: str) -> None:
    root = (
        f"{result} convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, "
        f"dim_labels={labels}, {groups}"
    )
    text = module_text([lhs, rhs], root)
    check_root(text, random_arrays(text), **bounds("f32 products"))


LINES = {
    "3": ("f32[2,9,21,83]", "f32[3,3,1,83]", "f32[2,9,21,83]", "3x3 pad=1_1x1_1"),
    "3 by 2": ("f32[2,9,22,40]", "f32[3,3,1,40]", "f32[2,4,11,40]", "3x3 stride=2x2 pad=0_0x0_1"),
    "5": ("f32[1,4,13,300]", "f32[5,5,1,300]", "f32[1,4,13,300]", "5x5 pad=2_2x2_2"),
    "5 by 2": ("f32[2,4,33,24]", "f32[5,5,1,24]", "f32[2,2,17,24]", "5x5 stride=2x2 pad=1_2x2_2"),
    "7": ("f32[1,7,14,200]", "f32[7,7,1,200]", "f32[1,7,14,200]", "7x7 pad=3_3x3_3"),
    "reversed": (
        "f32[2,4,9,24]", "f32[3,3,1,24]", "f32[2,4,9,24]", "3x3 pad=1_1x1_1 rhs_reversal=1x1",
    ),
}  # fmt: skip
"""Depthwise windows that are unrolled: few and many features, and a rest of them."""


@pytest.mark.parametrize("name", LINES)
def test_lines_of_depthwise_windows(name: str) -> None:
    lhs, rhs, result, window = LINES[name]
    features = rhs.rstrip("]").split(",")[-1]
    root = (
        f"{result} convolution(p0, p1), window={{size={window}}}, "
        f"dim_labels={NHWC}, feature_group_count={features}"
    )
    text = module_text([lhs, rhs], root)
    (routine,) = emit(parse_text(text).entry.root).routines
    assert "_line_" in routine.name
    check_root(text, random_arrays(text), **bounds("f32 products"))


GROUP_WINDOWS = {
    "stride": ("f32[2,9,15,40]", "f32[3,5,1,40]", "f32[2,5,8,40]", "3x5 stride=2x2 pad=1_1x2_2"),
    "dilated": (
        "f32[2,9,15,40]", "f32[3,3,1,40]", "f32[2,9,11,40]", "3x3 pad=2_2x0_0 rhs_dilate=2x2",
    ),
    "reversed": (
        "f32[2,9,15,40]", "f32[3,2,2,40]", "f32[2,9,14,40]", "3x2 pad=1_1x0_0 rhs_reversal=1x1",
    ),
    "cropped": ("f32[2,9,15,40]", "f32[3,3,1,40]", "f32[2,5,10,40]", "3x3 pad=-1_-1x-2_-1"),
    "mostly-outside": ("f32[1,3,3,40]", "f32[3,3,1,40]", "f32[1,9,11,40]", "3x3 pad=4_4x5_5"),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUP_WINDOWS)
def test_windows_of_groups(name: str) -> None:
    lhs, rhs, result, window = GROUP_WINDOWS[name]
    groups = 20 if name == "reversed" else 40
    root = (
        f"{result} convolution(p0, p1), window={{size={window}}}, "
        f"dim_labels={NHWC}, feature_group_count={groups}"
    )
    text = module_text([lhs, rhs], root)
    check_root(text, random_arrays(text), **bounds("f32 products"))


FEW_OUTPUTS = {
    "run": ("f32[2,9,15,8]", "f32[3,3,8,1]", "f32[2,9,15,1]", "3x3 pad=1_1x1_1", NHWC),
    "long-run": ("f32[1,5,21,35]", "f32[3,5,35,1]", "f32[1,5,21,1]", "3x5 pad=1_1x2_2", NHWC),
    "f64": ("f64[2,9,15,3]", "f64[3,3,3,1]", "f64[2,9,15,1]", "3x3 pad=1_1x1_1", NHWC),
    "stride": ("f32[2,9,15,5]", "f32[3,5,5,1]", "f32[2,5,8,1]", "3x5 stride=2x2 pad=1_1x2_2", NHWC),
    "dilated": (
        "f32[2,9,15,20]", "f32[3,3,20,1]", "f32[2,9,11,1]", "3x3 pad=2_2x0_0 rhs_dilate=2x2", NHWC,
    ),
    "reversed": (
        "f32[2,9,15,4]", "f32[3,2,4,1]", "f32[2,9,14,1]", "3x2 pad=1_1x0_0 rhs_reversal=1x1", NHWC,
    ),
    "cropped": ("f32[2,9,15,4]", "f32[3,3,4,1]", "f32[2,5,10,1]", "3x3 pad=-1_-1x-2_-1", NHWC),
    "mostly-outside": (
        "f32[1,3,3,9]", "f32[3,3,9,1]", "f32[1,13,15,1]", "3x3 pad=6_6x7_7", NHWC,
    ),
    "kernel-by-features": (
        "f32[2,9,15,8]", "f32[1,3,3,8]", "f32[2,9,15,1]", "3x3 pad=1_1x1_1", "b01f_o01i->b01f",
    ),
    "one-dimension": ("f32[3,40,24]", "f32[4,24,1]", "f32[3,40,1]", "4 pad=3_0", "b0f_0io->b0f"),
    "three-dimensions": (
        "f32[2,3,5,9,7]", "f32[3,1,3,7,1]", "f32[2,3,5,9,1]", "3x1x3 pad=1_1x0_0x1_1",
        "b012f_012io->b012f",
    ),
    "holes": (
        "f32[2,14,13,16]", "f32[5,5,1,16]", "f32[2,28,26,1]", "5x5 pad=3_2x3_2 lhs_dilate=2x2",
        "b01f_01oi->b01f",
    ),
    "holes, reversed": (
        "f32[1,9,13,20]", "f32[3,4,20,1]", "f32[1,25,14,1]",
        "3x4 pad=1_1x2_2 lhs_dilate=3x1 rhs_reversal=1x1", NHWC,
    ),
    "holes, cropped": (
        "f32[2,40,24]", "f32[7,24,1]", "f32[2,148,1]", "7 pad=-2_-1 lhs_dilate=4", "b0f_0io->b0f",
    ),
    "holes, two features": (
        "f32[6,10,9,24]", "f32[5,5,2,24]", "f32[6,20,18,2]", "5x5 pad=3_2x3_2 lhs_dilate=2x2",
        "b01f_01oi->b01f",
    ),
    "holes, two features in f64": (
        "f64[1,9,8,13]", "f64[4,3,2,13]", "f64[1,27,8,2]",
        "4x3 pad=3_2x1_1 lhs_dilate=3x1 rhs_reversal=1x1", "b01f_01oi->b01f",
    ),
    "two features": (
        "f32[1,28,28,20]", "f32[5,3,20,2]", "f32[1,14,28,2]", "5x3 stride=2x1 pad=2_1x1_1", NHWC,
    ),
    "three features": (
        "f32[2,19,17,32]", "f32[3,3,32,3]", "f32[2,19,17,3]", "3x3 pad=1_1x1_1", NHWC,
    ),
    "four features": (
        "f64[2,40,24]", "f64[4,24,4]", "f64[2,40,4]", "4 pad=3_0 rhs_reversal=1", "b0f_0io->b0f",
    ),
    "holes, three features": (
        "f32[2,13,14,20]", "f32[3,5,3,20]", "f32[2,26,28,3]", "3x5 pad=1_2x3_2 lhs_dilate=2x2",
        "b01f_01oi->b01f",
    ),
    "holes, four features by output": (
        "f32[3,9,15,9]", "f32[4,4,9,4]", "f32[3,18,30,4]", "4x4 pad=2_2x2_2 lhs_dilate=2x2", NHWC,
    ),
    "more holes than window": (
        "f32[2,9,8,5]", "f32[2,3,5,1]", "f32[2,25,31,1]", "2x3 pad=0_1x2_2 lhs_dilate=3x4", NHWC,
    ),
    "holes beside a stride": (
        "f32[2,9,15,8]", "f32[3,3,8,1]", "f32[2,17,8,1]",
        "3x3 stride=1x2 pad=1_1x1_1 lhs_dilate=2x1", NHWC,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FEW_OUTPUTS)
def test_few_output_features(name: str) -> None:
    lhs, rhs, result, window, labels = FEW_OUTPUTS[name]
    root = f"{result} convolution(p0, p1), window={{size={window}}}, dim_labels={labels}"
    text = module_text([lhs, rhs], root)
    if host_target().has("avx2"):
        routines = [r.name for r in emit(parse_text(text).entry.root).routines]
        assert [r for r in routines if not r.startswith("padded")] == [
            next(r for r in routines if r.startswith("feature_sums"))
        ]
    arrays = random_arrays(text)
    (whole,) = check_root(text, arrays, **bounds("f32 products"))
    (found,) = check_root(text, arrays, pieces=3, **bounds("f32 products"))
    np.testing.assert_array_equal(found, whole)


FILTERS = {
    "3": ("f32[2,9,150]", "f32[3,3]", "f32[2,9,150]", "3x3 pad=1_1x1_1"),
    "5": ("f32[1,40,64]", "f32[5,5]", "f32[1,40,64]", "5x5 pad=2_2x2_2"),
    "7": ("f32[1,9,33]", "f32[3,7]", "f32[1,9,33]", "3x7 pad=1_1x3_3"),
    "wide": ("f32[1,5,200]", "f32[2,20]", "f32[1,4,181]", "2x20"),
    "f64": ("f64[2,9,50]", "f64[3,3]", "f64[2,9,50]", "3x3 pad=1_1x1_1"),
    "short": ("f32[2,9,5]", "f32[3,3]", "f32[2,9,5]", "3x3 pad=1_1x1_1"),
    "stride": ("f32[2,9,90]", "f32[3,3]", "f32[2,5,90]", "3x3 stride=2x1 pad=1_1x1_1"),
    "dilated": ("f32[2,9,90]", "f32[3,3]", "f32[2,9,90]", "3x3 pad=2_2x2_2 rhs_dilate=2x2"),
    "reversed": ("f32[2,9,90]", "f32[3,3]", "f32[2,9,90]", "3x3 pad=1_1x1_1 rhs_reversal=1x1"),
    "cropped": ("f32[2,9,90]", "f32[3,3]", "f32[2,5,85]", "3x3 pad=-1_-1x-2_-1"),
    "mostly-outside": ("f32[1,3,3]", "f32[3,3]", "f32[1,13,81]", "3x3 pad=6_6x40_40"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("labels", [NHWC, NCHW])
def test_filters_of_one_feature(name: str, labels: str) -> None:
    *shapes, window = FILTERS[name]
    lhs, rhs, result = (shape.rstrip("]") for shape in shapes)
    if labels == NHWC:
        lhs, rhs, result = f"{lhs},1]", f"{rhs},1,1]", f"{result},1]"
    else:
        lhs, result = (shape.replace(",", ",1,", 1) + "]" for shape in (lhs, result))
        rhs = rhs.replace("[", "[1,1,") + "]"
    root = f"{result} convolution(p0, p1), window={{size={window}}}, dim_labels={labels}"
    text = module_text([lhs, rhs], root)
    if host_target().has("avx2"):
        (routine,) = emit(parse_text(text).entry.root).routines
        assert routine.name.startswith("filter_rows")
    arrays = random_arrays(text)
    (whole,) = check_root(text, arrays, **bounds("f32 products"))
    (found,) = check_root(text, arrays, pieces=3, **bounds("f32 products"))
    np.testing.assert_array_equal(found, whole)


def test_an_infinite_factor_outside_the_input_adds_nothing() -> None:
    root = f"f32[1,5,9,1] convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, dim_labels={NHWC}"
    text = module_text(["f32[1,5,9,4]", "f32[3,3,4,1]"], root)
    image, factors = random_arrays(text)
    factors[0, 0, 0] = np.inf
    check_root(text, [image, factors], **bounds("f32 products"))


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "window", "labels"),
    [
        ("f32[3,40,24]", "f32[4,1,24]", "f32[3,40,24]", "4 pad=3_0", "b0f_0io->b0f"),
        (
            "f32[2,3,5,9,24]", "f32[3,1,3,1,24]", "f32[2,3,5,9,24]", "3x1x3 pad=1_1x0_0x1_1",
            "b012f_012io->b012f",
        ),
    ],
)  # fmt: skip
def test_groups_of_other_ranks(lhs: str, rhs: str, result: str, window: str, labels: str) -> None:
    root = f"{result} convolution(p0, p1), window={{size={window}}}, dim_labels={labels}"
    text = module_text([lhs, rhs], f"{root}, feature_group_count=24")
    check_root(text, random_arrays(text), **bounds("f32 products"))


HOLES = {
    "transposed": (
        "f32[2,14,13,24]", "f32[4,4,24,32]", "f32[2,27,25,32]", "4x4 pad=2_1x2_1 lhs_dilate=2x2",
        NHWC,
    ),
    "gradient": (
        "f32[2,24,14,13]", "f32[32,24,3,3]", "f32[2,32,28,26]",
        "3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1", NCHW,
    ),
    "of-threes": (
        "f32[2,9,8,24]", "f32[3,5,24,32]", "f32[2,27,24,32]", "3x5 pad=0_4x2_4 lhs_dilate=3x3",
        NHWC,
    ),
    "one-side": (
        "f32[2,14,13,24]", "f32[2,3,24,32]", "f32[2,27,6,32]",
        "2x3 stride=1x2 pad=0_1x0_0 lhs_dilate=2x1", NHWC,
    ),
    "cropped": (
        "f32[2,24,150]", "f32[32,24,7]", "f32[2,32,588]", "7 pad=-2_-1 lhs_dilate=4",
        "bf0_oi0->bf0",
    ),
    "groups of batch elements": (
        "f32[6,10,10,24]", "f32[4,4,24,32]", "f32[6,20,20,32]", "4x4 pad=2_2x2_2 lhs_dilate=2x2",
        NHWC,
    ),
    "narrow": (
        "bf16[2,14,13,24]", "bf16[3,3,24,32]", "bf16[2,27,25,32]", "3x3 pad=1_1x1_1 lhs_dilate=2x2",
        NHWC,
    ),
    "few features first": (
        "f32[2,32,13,12]", "f32[5,32,4,4]", "f32[2,5,26,24]", "4x4 pad=2_2x2_2 lhs_dilate=2x2",
        "bf01_oi01->bf01",
    ),
    "small images, few features first": (
        "f32[2,16,8,8]", "f32[3,16,3,3]", "f32[2,3,16,16]", "3x3 pad=1_2x1_2 lhs_dilate=2x2",
        "bf01_oi01->bf01",
    ),
    "two features last": (
        "f32[2,9,8,24]", "f32[4,4,24,2]", "f32[2,18,16,2]", "4x4 pad=2_2x2_2 lhs_dilate=2x2", NHWC,
    ),
    "narrow, few features first": (
        "bf16[2,48,13,12]", "bf16[3,48,4,4]", "bf16[2,3,26,24]", "4x4 pad=2_2x2_2 lhs_dilate=2x2",
        "bf01_oi01->bf01",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLES)
def test_inputs_with_holes_take_a_product_for_each_place(name: str) -> None:
    lhs, rhs, result, window, labels = HOLES[name]
    root = f"{result} convolution(p0, p1), window={{size={window}}}, dim_labels={labels}"
    text = module_text([lhs, rhs], root)
    inst = parse_text(text).entry.root
    assert emitter_for(inst) is dilated_gemm.EMITTER
    check_root(
        text,
        random_arrays(text),
        **bounds("narrow products" if name.startswith("narrow") else "f32 products"),
    )


GROUPS_APART = {
    "stride": (
        "f32[1,28,28,64]", "f32[3,3,16,64]", "f32[1,14,14,64]", "3x3 stride=2x2 pad=0_1x0_1", 4,
        NHWC,
    ),
    "lines of 96 bytes": (
        "f32[2,15,14,72]", "f32[3,3,24,48]", "f32[2,15,14,48]", "3x3 pad=1_1x1_1", 3, NHWC,
    ),
    "narrow": (
        "bf16[2,15,14,48]", "bf16[3,3,16,48]", "bf16[2,15,14,48]", "3x3 pad=1_1x1_1", 3, NHWC,
    ),
    "one dimension": (
        "f64[3,90,32]", "f64[5,16,32]", "f64[3,90,32]", "5 pad=2_2", 2, "b0f_0io->b0f",
    ),
    "features outside": (
        "f32[2,64,28,28]", "f32[64,16,3,3]", "f32[2,64,14,14]", "3x3 stride=2x2 pad=0_1x0_1", 4,
        NCHW,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS_APART)
def test_groups_of_a_padded_input_lie_apart(name: str) -> None:
    """Where features are the fastest dimension."""
    lhs, rhs, result, window, groups, labels = GROUPS_APART[name]
    root = (
        f"{result} convolution(p0, p1), window={{size={window}}}, dim_labels={labels}, "
        f"feature_group_count={groups}"
    )
    text = module_text([lhs, rhs], root)
    found = windowed_gemm.windowed_gemm(parse_text(text).entry.root)
    assert found
    assert found.padded
    assert found.padded.groups == (1 if labels == NCHW else groups)
    check_root(text, random_arrays(text), **bounds_of("convolution", lhs.partition("[")[0]))


@pytest.mark.parametrize("dtype", ["bf16", "s8", "f64"])
def test_types(dtype: str) -> None:
    root = f"{dtype}[2,9,8,5] convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, "
    text = module_text([f"{dtype}[2,9,8,3]", f"{dtype}[3,3,3,5]"], root + f"dim_labels={NHWC}")
    check_root(text, random_arrays(text), **bounds_of("convolution", dtype))


PRODUCTS = {
    "no-space": ("f32[70,40]", "f32[40,300]", "f32[70,300]", "", "bf_io->bf"),
    "transposed": ("f32[40,70]", "f32[300,40]", "f32[300,70]", "", "fb_oi->fb"),
    "point": ("f32[2,9,8,6]", "f32[1,1,6,40]", "f32[2,9,8,40]", "size=1x1", NHWC),
    "stride": ("f32[2,9,8,6]", "f32[1,1,6,40]", "f32[2,5,3,40]", "size=1x1 stride=2x3", NHWC),
    "crop": ("f32[2,9,8,6]", "f32[1,1,6,4]", "f32[2,7,8,4]", "size=1x1 pad=0_-2x0_0", NHWC),
    "planes": ("f32[2,6,9,8]", "f32[40,6,1,1]", "f32[2,40,9,8]", "size=1x1", NCHW),
    "layouts": (
        "f32[2,9,8,6]{1,3,0,2}", "f32[1,1,6,40]{2,3,1,0}", "f32[2,9,8,40]{0,3,2,1}", "size=1x1",
        NHWC,
    ),
    "reversed": ("s8[9,30,6]", "s8[6,1,4]", "s32[9,30,4]", "size=1 rhs_reversal=1", "0bf_i0o->0bf"),
    "no-inputs": ("f32[20,0]", "f32[0,30]", "f32[20,30]", "", "bf_io->bf"),
    "no-inputs-point": ("f32[1,3,3,0]", "f32[1,1,0,4]", "f32[1,3,3,4]", "size=1x1", NHWC),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_window_of_one_element_makes_a_matrix_product(name: str) -> None:
    lhs, rhs, result, window, labels = PRODUCTS[name]
    root = f"{result} convolution(p0, p1), window={{{window}}}, dim_labels={labels}"
    text = module_text([lhs, rhs], root)
    assert emitter_for(parse_text(text).entry.root) is dot.EMITTER
    check_root(text, random_arrays(text), **bounds("f32 products"))


NO_PRODUCTS = [
    ("f32[2,7,8,6]", "f32[2,11,10,4]", "size=1x1 pad=2_2x1_1", ""),
    ("f32[2,7,8,6]", "f32[2,13,8,4]", "size=1x1 lhs_dilate=2x1", ""),
    ("f32[2,0,8,6]", "f32[2,1,8,4]", "size=1x1 pad=0_1x0_0", ""),
    ("f32[2,7,8,6]", "f32[2,8,8,4]", "size=1x1 pad=0_1x0_0", ""),
    ("f32[2,7,8,12]", "f32[2,7,8,4]", "size=1x1", ", feature_group_count=2"),
    ("f32[4,7,8,6]", "f32[2,7,8,4]", "size=1x1", ", batch_group_count=2"),
]


@pytest.mark.parametrize(("lhs", "result", "window", "groups"), NO_PRODUCTS)
def test_padding_and_groups_are_no_matrix_product(
    lhs: str, result: str, window: str, groups: str
) -> None:
    root = f"{result} convolution(p0, p1), window={{{window}}}, dim_labels={NHWC}{groups}"
    text = module_text([lhs, "f32[1,1,6,4]"], root)
    assert emitter_for(parse_text(text).entry.root) is not dot.EMITTER
    check_root(text, random_arrays(text), **bounds("f32 products"))


KERNEL_GRADIENTS = [
    ("f32[3,9,8,20]", "f32[3,9,8,24]", "f32[3,3,20,24]", "size=9x8 pad=1_1x1_1", ""),
    ("f32[3,9,8,21]", "f32[3,5,4,24]", "f32[3,4,21,24]", "size=5x4 pad=1_1x1_1 rhs_dilate=2x2", ""),
    ("bf16[20,5,4,18]", "bf16[20,5,4,16]", "bf16[2,2,18,16]", "size=5x4 pad=1_0x0_1", ""),
    ("f32[3,9,8,40]", "f32[3,9,8,32]", "f32[3,3,20,32]", "size=9x8 pad=1_1x1_1",
     ", batch_group_count=2"),
]  # fmt: skip


@pytest.mark.parametrize(("lhs", "rhs", "result", "window", "groups"), KERNEL_GRADIENTS)
def test_gradients_of_kernels_run_along_the_batch(
    lhs: str, rhs: str, result: str, window: str, groups: str
) -> None:
    root = f"{result} convolution(p0, p1), window={{{window}}}, dim_labels=f01b_i01o->01bf{groups}"
    text = module_text([lhs, rhs], root)
    products = (convolution_gemm.EMITTER, windowed_gemm.EMITTER)
    assert emitter_for(parse_text(text).entry.root) in products
    check_root(text, random_arrays(text), **bounds_of("convolution", lhs.partition("[")[0]))


FEW_FEATURES = {
    "short-strips": ("f32[2,40,9,16]", "f32[3,40,3,3]", "f32[2,3,9,16]", "3x3 pad=1_1x1_1", NCHW),
    "eight": ("f32[1,24,20,30]", "f32[8,24,3,3]", "f32[1,8,18,28]", "3x3", NCHW),
    "long-strips": ("f32[1,16,9,70]", "f32[6,16,3,3]", "f32[1,6,9,70]", "3x3 pad=1_1x1_1", NCHW),
    "stride": ("f32[2,30,24,32]", "f32[4,30,3,3]", "f32[2,4,12,16]",
               "3x3 stride=2x2 pad=0_1x0_1", NCHW),
    "gradient": ("f32[3,20,14,15]", "f32[3,2,14,15]", "f32[2,20,3,3]", "14x15 pad=1_1x1_1",
                 "fb01_io01->fb01"),
    "bf16": ("bf16[2,40,9,16]", "bf16[4,40,3,3]", "bf16[2,4,9,16]", "3x3 pad=1_1x1_1", NCHW),
}  # fmt: skip
"""Few output features, with a spatial dimension fastest: the rows of a gemm."""

MORE_FEW_FEATURES = {
    "two": ("f32[2,40,9,16]", "f32[2,40,3,3]", "f32[2,2,9,16]", "3x3 pad=1_1x1_1", NCHW),
    "long-strips": ("f32[1,16,9,70]", "f32[5,16,3,3]", "f32[1,5,9,70]", "3x3 pad=1_1x1_1", NCHW),
    "one-dimension": ("f32[4,32,90]", "f32[8,32,5]", "f32[4,8,90]", "5 pad=2_2", "bf0_oi0->bf0"),
    "holes": ("f32[2,30,12,16]", "f32[8,30,3,3]", "f32[2,8,23,31]",
              "3x3 pad=1_1x1_1 lhs_dilate=2x2", NCHW),
}  # fmt: skip
"""The same, where strips along the fastest dimension are faster."""


@pytest.mark.parametrize(
    ("case", "is_gemm"),
    [
        *((case, True) for case in FEW_FEATURES.values()),
        *((case, False) for case in MORE_FEW_FEATURES.values()),
    ],
    ids=[*FEW_FEATURES, *(f"strips-{name}" for name in MORE_FEW_FEATURES)],
)
def test_few_features_beside_strips(case: tuple[str, ...], is_gemm: bool) -> None:
    lhs, rhs, result, window, labels = case
    root = f"{result} convolution(p0, p1), window={{size={window}}}, dim_labels={labels}"
    text = module_text([lhs, rhs], root)
    assert (emitter_for(parse_text(text).entry.root) is windowed_gemm.EMITTER) == is_gemm
    check_root(text, random_arrays(text), **bounds_of("convolution", lhs.partition("[")[0]))
