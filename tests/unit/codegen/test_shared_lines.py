"""Copies of a convolution's input of which each thread writes what it reads."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.convolution import windowed_gemm
from hloc.codegen.cpu.split_kernel import estimate_of, split_of
from tests.tolerance import bounds
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays

NHWC, NCHW = "b01f_01io->b01f", "bf01_oi01->bf01"

# lhs, rhs, result, window, dim_labels, dimension of the input that threads share
CASES = {
    "images": (
        "f32[5,17,16,24]", "f32[3,3,24,12]", "f32[5,17,16,12]", "3x3 pad=1_1x1_1", NHWC, 0,
    ),
    "rows-of-one-image": (
        "f32[1,37,33,24]", "f32[3,3,24,12]", "f32[1,37,33,12]", "3x3 pad=1_1x1_1", NHWC, 1,
    ),
    "rows-stride-2": (
        "f32[1,37,33,24]", "f32[5,5,24,12]", "f32[1,19,17,12]",
        "5x5 stride=2x2 pad=2_2x2_2", NHWC, 1,
    ),
    "rows-apart": (
        "f32[1,37,33,24]", "f32[3,3,24,12]", "f32[1,37,33,12]",
        "3x3 pad=3_3x3_3 rhs_dilate=3x3", NHWC, 1,
    ),
    "rows-with-holes": (
        "f32[1,12,11,24]", "f32[3,3,24,12]", "f32[1,25,21,12]",
        "3x3 pad=2_2x1_1 lhs_dilate=2x2", NHWC, 1,
    ),
    "rows-mostly-padding": (
        "f32[1,5,9,24]", "f32[3,3,24,12]", "f32[1,33,9,12]", "3x3 pad=15_15x1_1", NHWC, 1,
    ),
    "steps-of-a-sequence": (
        "f32[1,300,24]", "f32[2,24,32]", "f32[1,300,32]", "2 pad=1_0", "b0f_0io->b0f", 1,
    ),
    "sequences": (
        "f32[3,100,24]", "f32[2,24,32]", "f32[3,100,32]",
        "2 pad=4_0 rhs_dilate=4", "b0f_0io->b0f", 0,
    ),
    "images-channels-first": (
        "f32[9,24,11,12]", "f32[32,24,3,3]", "f32[9,32,11,12]", "3x3 pad=1_1x1_1", NCHW, 0,
    ),
    "widened": (
        "bf16[3,17,16,24]", "bf16[3,3,24,12]", "bf16[3,17,16,12]", "3x3 pad=1_1x1_1", NHWC, 0,
    ),
    "widened-alone": (
        "f16[1,33,16,24]", "f16[3,3,24,12]", "f16[1,31,14,12]", "3x3", NHWC, 1,
    ),
}  # fmt: skip

READ_AS_A_WHOLE = {
    "one-image-channels-first": (
        "f32[1,24,33,32]", "f32[12,24,3,3]", "f32[1,12,33,32]", "3x3 pad=1_1x1_1", NCHW,
    ),
    "gradient-of-a-kernel": (
        "f32[4,16,16,24]", "f32[4,16,16,12]", "f32[3,3,24,12]", "16x16 pad=1_1x1_1",
        "f01b_i01o->01bf",
    ),
}  # fmt: skip


def _text(lhs: str, rhs: str, result: str, window: str, labels: str) -> str:
    root = f"{result} convolution(p0, p1), window={{size={window}}}, dim_labels={labels}"
    return module_text([lhs, rhs], root)


@pytest.mark.parametrize("name", CASES)
def test_a_piece_copies_the_lines_that_it_reads(name: str) -> None:
    *case, dimension = CASES[name]
    text = _text(*case)
    found = windowed_gemm.windowed_gemm(parse_text(text).entry.root)
    assert found is not None
    assert found.shared is not None
    assert found.shared.dimension == dimension
    arrays, most = random_arrays(text), emit(parse_text(text).entry.root).extent
    limits = bounds("narrow products" if "f16" in case[0] else "f32 products")
    (whole,) = check_root(text, arrays, **limits)
    for pieces in {2, 3, 7, most}:
        (parts,) = check_root(text, arrays, pieces=min(pieces, most), **limits)
        np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("name", READ_AS_A_WHOLE)
def test_what_every_piece_reads_is_copied_whole(name: str) -> None:
    text = _text(*READ_AS_A_WHOLE[name])
    found = windowed_gemm.windowed_gemm(parse_text(text).entry.root)
    assert found is not None
    assert found.padded is not None
    assert found.shared is None
    check_root(text, random_arrays(text), pieces=2, **bounds("f32 products"))


def test_threads_share_a_convolution_of_few_features() -> None:
    text = _text(
        "f32[4,32,32,84]", "f32[3,3,84,12]", "f32[4,32,32,12]", "3x3 pad=1_1x1_1", NHWC
    )  # fmt: skip
    root = parse_text(text).entry.root
    plan = windowed_gemm.plan(root)
    assert plan is not None
    assert split_of(plan, estimate_of(root)) is not None
