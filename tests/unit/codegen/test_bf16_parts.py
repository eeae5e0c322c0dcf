"""Products of f32 as sums of products of bf16 parts: accuracy, and elements without parts."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.convolution.windowed_gemm import windowed_gemm
from hloc.codegen.cpu.emitters.gemm.dot import micro_gemm
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import AHEAD, IN_PARTS, LINES
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of, forms_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.llvm.target import target_for
from hloc.dtypes import BF16, F32
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    check_root,
    module_text,
    parse_text,
    random_arrays,
    run_instruction,
)
from tests.unit.codegen.test_products import narrower

SAPPHIRE = target_for("x86_64", "sapphirerapids", "")
ALGORITHMS = (
    "",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_bf16_bf16_f32_x9",
    "dot_tf32_tf32_f32",
    "dot_f32_f32_f32",
)
SIZES = (150, 200, 330)
"""Rows, columns and k: no multiples of a tile or of a block of k, and more than one of each."""

Array = np.ndarray


def product_text(
    sizes: tuple[int, int, int], algorithm: str = "", left: int = 1, right: int = 0
) -> str:
    m, n, k = sizes
    lhs = f"f32[{m},{k}]" if left else f"f32[{k},{m}]"
    rhs = f"f32[{n},{k}]" if right else f"f32[{k},{n}]"
    root = (
        f"f32[{m},{n}] dot(p0, p1), lhs_contracting_dims={{{left}}}, "
        f"rhs_contracting_dims={{{right}}}" + (f", algorithm={algorithm}" if algorithm else "")
    )
    return module_text([lhs, rhs], root)


def product_of(lhs: Array, rhs: Array, *, left: int = 1, right: int = 0, pieces: int = 1) -> Array:
    """Return the product of two arrays whose dimensions `left` and `right` are k."""
    sizes = (lhs.shape[1 - left], rhs.shape[1 - right], lhs.shape[left])
    root = parse_text(product_text(sizes, "", left, right)).entry.root
    (found,) = run_instruction(root, [lhs, rhs], pieces=pieces)
    return found


def gemm_of(sizes: tuple[int, int, int], algorithm: str = "") -> PackedGemm:
    found = micro_gemm(parse_text(product_text(sizes, algorithm)).entry.root)
    assert isinstance(found, PackedGemm)
    return found


def random_matrix(rows: int, columns: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize(("columns", "splits"), [(3, False), (16, True)])
def test_columns_that_are_packed_one_by_one_stay_f32(columns: int, splits: bool) -> None:
    """Splitting elements that do not lie side by side takes longer than it gains."""
    text = f"""HloModule m
ENTRY e {{
  a = f32[64,100] parameter(0)
  x = f32[{192 // columns},64,{columns}] parameter(1)
  ROOT d = f32[100,{192 // columns},{columns}] dot(a, x), lhs_contracting_dims={{0}},
    rhs_contracting_dims={{1}}
}}"""
    found = micro_gemm(parse_text(text).entry.root)
    assert isinstance(found, PackedGemm)
    assert found.splits == splits


@pytest.mark.parametrize(
    "sizes",
    [
        SIZES,
        (130, 400, 75),
        (96, 300, 640),
        (100, 279, 1030),
        (70, 1100, 200),  # three blocks of columns
        (300, 700, 200),  # rows for which columns are not packed ahead
    ],
)
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("right", [0, 1])
def test_parts_are_as_accurate_as_f32(sizes: tuple[int, int, int], left: int, right: int) -> None:
    """The error of a sum relative to the sum of the products' magnitudes."""
    assert gemm_of(sizes).splits
    m, n, k = sizes
    lhs, rhs = random_matrix(m, k, 1), random_matrix(k, n, 2)
    found = product_of(
        np.ascontiguousarray(lhs if left else lhs.T),
        np.ascontiguousarray(rhs.T if right else rhs),
        left=left,
        right=right,
        pieces=2,
    )
    x, y = lhs.astype(np.float64), rhs.astype(np.float64)
    error = np.abs(found - x @ y) / (np.abs(x) @ np.abs(y))
    assert error.max() < 2.0**-21


def test_all_bits_of_an_element_count() -> None:
    """A product with the identity is the other matrix, from either side."""
    m, n, k = SIZES
    rhs = random_matrix(k, n) * np.exp2(np.arange(n, dtype=np.float32) - 100)
    lhs = np.eye(m, k, dtype=np.float32)
    np.testing.assert_array_equal(product_of(lhs, rhs), rhs[:m])
    lines = np.ascontiguousarray(rhs.T)
    identity = np.eye(k, m, dtype=np.float32)
    np.testing.assert_array_equal(product_of(lines, identity), lines[:, :m])
    largest = np.full((k, n), np.finfo(np.float32).max)
    np.testing.assert_array_equal(product_of(lhs, largest), largest[:m])


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3.4e38, 2.0**-126, 3e-35, 1e-44])
@pytest.mark.parametrize("is_left", [False, True])
def test_elements_without_parts(special: float, *, is_left: bool) -> None:
    """Their sums are those of f32, and the others are not touched."""
    m, n, k = SIZES
    lhs, rhs = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    clean = product_of(lhs, rhs)
    changed = np.zeros((m, n), np.bool_)
    if is_left:
        lhs[77] = 0
        lhs[77, 329], changed[77] = special, True
    else:
        rhs[:, 130] = 0
        rhs[3, 130], changed[:, 130] = special, True
    found = product_of(lhs, rhs)
    np.testing.assert_array_equal(found[changed], np.float32(special))
    np.testing.assert_array_equal(found[~changed], clean[~changed])


def test_columns_are_packed_while_others_are_multiplied() -> None:
    for rows, form in ((100, AHEAD), (300, LINES)):
        gemm = gemm_of((rows, 1100, 200))
        assert forms_of(gemm, arithmetic_of(gemm, SAPPHIRE), SAPPHIRE)[1] == form


def test_sums_that_overflow_are_those_of_f32() -> None:
    m, n, k = SIZES
    lhs, rhs = np.full((m, k), 2.0**100, np.float32), np.full((k, n), 2.0**20, np.float32)
    rhs[:, 5], rhs[:, 6] = 2.0**27 * (2 - 2.0**-23), -(2.0**28)
    lhs[:, 1:] = 0
    found = product_of(lhs, rhs)
    np.testing.assert_array_equal(found[:, 5], np.finfo(np.float32).max)
    assert (found[:, 6] == -np.inf).all()


def test_sums_do_not_depend_on_the_parts_of_threads() -> None:
    """Neither do those that are computed anew."""
    m, n, k = SIZES
    lhs, rhs = random_matrix(m, k, 1), random_matrix(k, n, 2)
    lhs[::7, ::11], rhs[5::13, 3::9] = 1e-33, np.inf
    wanted = product_of(lhs, rhs)
    for pieces in (2, 3, 4):
        np.testing.assert_array_equal(product_of(lhs, rhs, pieces=pieces), wanted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_matrix_registers_multiply_parts(algorithm: str) -> None:
    """Three parts are as accurate as f32, so that any algorithm may use them."""
    assert arithmetic_of(gemm_of(SIZES, algorithm), SAPPHIRE).operand is BF16


@pytest.mark.parametrize("sizes", [(16, 4000, 300), (3000, 24, 300), (300, 300, 40)])
def test_splitting_pays_for_products_of_many_elements(sizes: tuple[int, int, int]) -> None:
    """Each element takes part in few products, or blocks of k are not filled."""
    assert arithmetic_of(gemm_of(sizes), SAPPHIRE).operand is F32


@pytest.mark.parametrize("bits", [128, 256])
def test_processors_without_such_units_use_f32(bits: int) -> None:
    assert arithmetic_of(gemm_of(SIZES), narrower(bits)).operand is F32


CONVOLUTIONS = {
    "padded": ("f32[2,9,11,64]", "f32[3,3,64,160]", "f32[2,9,11,160]", "size=3x3 pad=1_1x1_1", 1),
    "valid": ("f32[2,13,12,32]", "f32[3,3,32,176]", "f32[2,11,10,176]", "size=3x3", 1),
    "strides": (
        "f32[2,20,21,32]", "f32[3,3,32,176]", "f32[2,10,11,176]",
        "size=3x3 stride=2x2 pad=0_1x1_1", 1,
    ),
    "reversed": (
        "f32[2,9,11,64]", "f32[3,3,64,160]", "f32[2,9,11,160]",
        "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", 1,
    ),
    "holes": (
        "f32[2,9,11,64]", "f32[3,3,64,160]", "f32[2,9,11,160]",
        "size=3x3 pad=2_2x2_2 rhs_dilate=2x2", 1,
    ),
    "groups": ("f32[2,9,11,64]", "f32[3,3,32,320]", "f32[2,9,11,320]", "size=3x3 pad=1_1x1_1", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("pieces", [1, 3])
def test_convolutions_of_lines_of_parts(name: str, pieces: int) -> None:
    """Elements that several windows read are split once, also those that have no parts."""
    lhs, rhs, result, window, groups = CONVOLUTIONS[name]
    text = module_text(
        [lhs, rhs],
        f"{result} convolution(p0, p1), window={{{window}}}, dim_labels=b01f_01io->b01f, "
        f"feature_group_count={groups}",
    )
    gemm = windowed_gemm(parse_text(text).entry.root)
    assert gemm is not None
    assert gemm.in_parts is not None
    assert forms_of(gemm.product, arithmetic_of(gemm.product, SAPPHIRE), SAPPHIRE)[0] == IN_PARTS
    arrays = random_arrays(text)
    check_root(text, arrays, **bounds("f32 products"), pieces=pieces)
    arrays[0][1, 5, 5, 31] = np.inf
    check_root(text, arrays, **bounds("f32 products"), pieces=pieces)
