"""Convolutions: layouts, strides, dilations, groups, reversal."""

from __future__ import annotations

import pytest

from tests.unit.codegen.harness import check_root, module_text, random_arrays

NHWC, NCHW = "b01f_01io->b01f", "bf01_oi01->bf01"

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
    "no-space": ("f32[9,8]", "f32[8,5]", "f32[9,5]", "", "bf_io->bf"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_convolution(name: str) -> None:
    lhs, rhs, result, window, labels = CASES[name]
    root = f"{result} convolution(p0, p1), window={{{window}}}, dim_labels={labels}"
    text = module_text([lhs, rhs], root)
    check_root(text, random_arrays(text), rtol=1e-4, atol=1e-3)


GROUPS = [
    ("f32[2,9,8,6]", "f32[3,3,3,4]", "f32[2,9,8,4]", NHWC, "feature_group_count=2"),
    ("f32[2,9,20,48]", "f32[3,3,24,80]", "f32[2,9,20,80]", NHWC, "feature_group_count=2"),
    ("f32[2,9,8,6]", "f32[3,3,1,6]", "f32[2,9,8,6]", NHWC, "feature_group_count=6"),
    ("f32[2,6,9,8]", "f32[6,1,3,3]", "f32[2,6,9,8]", NCHW, "feature_group_count=6"),
    ("f32[4,9,8,3]", "f32[3,3,3,6]", "f32[2,9,8,6]", NHWC, "batch_group_count=2"),
    ("f32[4,9,20,24]", "f32[3,3,24,80]", "f32[2,9,20,80]", NHWC, "batch_group_count=2"),
]


@pytest.mark.parametrize(("lhs", "rhs", "result", "labels", "groups"), GROUPS)
def test_groups(lhs: str, rhs: str, result: str, labels: str, groups: str) -> None:
    root = (
        f"{result} convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, "
        f"dim_labels={labels}, {groups}"
    )
    text = module_text([lhs, rhs], root)
    check_root(text, random_arrays(text), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 0.1), ("s8", 0), ("f64", 1e-12)])
def test_types(dtype: str, tolerance: float) -> None:
    root = f"{dtype}[2,9,8,5] convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, "
    text = module_text([f"{dtype}[2,9,8,3]", f"{dtype}[3,3,3,5]"], root + f"dim_labels={NHWC}")
    check_root(text, random_arrays(text), rtol=tolerance, atol=tolerance)
