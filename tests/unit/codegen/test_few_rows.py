"""Products of few rows: along k on both sides, or with a right-hand side that stays in cache."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as product_of

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.gemm.dot import micro_gemm
from hloc.codegen.cpu.emitters.gemm.micro_kernels.multiply_accumulate import has_pair_sums
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_resident import tile_of
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming import GemvStreaming
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm import InnerGemm
from hloc.codegen.cpu.emitters.gemm.unpacked.row_groups import groups_in_cache
from hloc.codegen.llvm.target import host_target, target_for
from tests.unit.codegen.harness import check_root, module_text, parse_text, random_arrays
from tests.unit.codegen.test_matrix_registers import routine_text
from tests.unit.codegen.test_products import (
    dims,
    narrower,
    product,
    tolerances,
    without_matrices,
)


@pytest.mark.parametrize("bits", [128, 256, 512])
# One row, a tile of rows, and tiles with a rest; the others are whole tiles again.
@pytest.mark.parametrize(
    "rows", [1, 3, 9, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (2, 8, 16))]
)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_both_sides_along_k(bits: int, rows: int, dtype: str) -> None:
    """Depth and columns that no vector and no tile divides."""
    text = product(f"{dtype}[{rows},259]", f"{dtype}[77,259]", f"{dtype}[{rows},77]", 1, 1)
    assert isinstance(micro_gemm(parse_text(text).entry.root), InnerGemm)
    check_root(text, random_arrays(text), target=narrower(bits), **tolerances(dtype))


@pytest.mark.parametrize("bits", [128, 256, 512])
# Fewer steps than a vector has lanes, a vector, and a vector with a rest.
@pytest.mark.parametrize("depth", [8, 13, 21])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_few_steps_along_k(bits: int, depth: int, dtype: str) -> None:
    """A product that is infinite is counted once, and multiplied by nothing else."""
    text = product(f"{dtype}[3,{depth}]", f"{dtype}[200,{depth}]", f"{dtype}[3,200]", 1, 1)
    assert isinstance(micro_gemm(parse_text(text).entry.root), InnerGemm)
    arrays = random_arrays(text)
    arrays[0][1, 6] = np.inf
    check_root(text, arrays, target=narrower(bits), **tolerances(dtype))


@pytest.mark.parametrize("rows", range(1, 21))
@pytest.mark.parametrize("columns", [96, 97])
def test_tiles_stay_in_their_pieces(rows: int, columns: int) -> None:
    """Any number of rows; pieces and tiles of columns that fit, and those that leave one over."""
    text = product(f"f32[{rows},264]", f"f32[{columns},264]", f"f32[{rows},{columns}]", 1, 1)
    arrays = random_arrays(text)
    (found,) = check_root(text, arrays, pieces=2, **tolerances("f32"))
    (whole,) = check_root(text, arrays, **tolerances("f32"))
    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_few_columns_count_as_rows(pieces: int) -> None:
    text = product("f32[200,96]", "f32[3,96]", "f32[200,3]", 1, 1)
    found = micro_gemm(parse_text(text).entry.root)
    assert isinstance(found, InnerGemm)
    assert found.exchanged
    check_root(text, random_arrays(text), pieces=pieces, **tolerances("f32"))


def test_vector_times_matrix() -> None:
    root = "f32[150] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = module_text(["f32[150,70]", "f32[70]"], root)
    assert isinstance(micro_gemm(parse_text(text).entry.root), InnerGemm)
    check_root(text, random_arrays(text), **tolerances("f32"))


@pytest.mark.parametrize("pieces", [1, 2])
def test_batches_along_k(pieces: int) -> None:
    root = (
        "f32[3,4,50] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={1}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}"
    )
    text = module_text(["f32[3,4,65]", "f32[50,3,65]"], root)
    assert isinstance(micro_gemm(parse_text(text).entry.root), InnerGemm)
    check_root(text, random_arrays(text), pieces=pieces, **tolerances("f32"))


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("rows", [1, 3, 8, 11])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_sums_in_registers(bits: int, rows: int, dtype: str) -> None:
    """A prime depth, and columns that whole tiles do not fill."""
    text = product(f"{dtype}[{rows},61]", f"{dtype}[61,592]", f"{dtype}[{rows},592]", 1, 0)
    found = micro_gemm(parse_text(text).entry.root)
    assert isinstance(found, GemvStreaming)
    assert found.is_resident
    check_root(text, random_arrays(text), target=narrower(bits), pieces=2, **tolerances(dtype))


def test_accumulators_fit_the_registers() -> None:
    found = [tile_of(rows, target_for("x86_64", "haswell")) for rows in range(1, 12)]
    assert [rows for rows, _ in found] == [1, 2, 3, 4, 5, 6, 4, 4, 5, 5, 6]
    assert [vectors for _, vectors in found] == [8, 6, 4, 3, 2, 2, 3, 3, 2, 2, 2]
    wide = [tile_of(rows, target_for("x86_64", "skylake-avx512")) for rows in (1, 7, 11)]
    assert wide == [(1, 8), (7, 3), (11, 2)]


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_streams_of_odd_sizes(rows: int, pieces: int) -> None:
    """A prime depth beyond one block, and columns that leave some over in the last piece."""
    text = product(f"f32[{rows},1031]", "f32[1031,773]", f"f32[{rows},773]", 1, 0)
    found = micro_gemm(parse_text(text).entry.root)
    assert isinstance(found, GemvStreaming)
    assert not found.is_resident
    check_root(text, random_arrays(text), pieces=pieces, **tolerances("f32"))


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(("rows", "columns"), [(5, 900), (24, 777), (31, 512)])
def test_right_hand_side_in_a_large_cache(
    bits: int, dtype: str, pieces: int, rows: int, columns: int
) -> None:
    """One row more than packed products need, groups of rows, and rows that no group divides."""
    target = replace(narrower(bits), l2_bytes=8 << 20)
    types = f"{dtype}[{rows},300]", f"{dtype}[300,{columns}]", f"{dtype}[{rows},{columns}]"
    text = product(*types, 1, 0)
    found = micro_gemm(parse_text(text).entry.root)
    if isinstance(found, GemvStreaming):
        assert not found.is_resident
        assert found.is_resident_in(target.l2_bytes)
    else:
        assert isinstance(found, PackedGemm)
        assert not groups_in_cache(found, replace(target, l2_bytes=1 << 20))
        assert bool(groups_in_cache(found, target)) == (rows == 24)
    written = routine_text(text, target)
    assert ("stream_" in written) == (rows != 31)
    check_root(text, random_arrays(text), target=target, pieces=pieces, **tolerances(dtype))


# ---------------------------------------------------------------- bytes

needs_pairs = pytest.mark.skipif(not has_pair_sums(host_target()), reason="needs pmaddwd")


def check_bytes(text: str, bits: int = 512, *, pieces: int = 1) -> None:
    """Compare inner products with the evaluator: random bytes, and those of largest products."""
    machine = without_matrices(bits)
    assert "inner_" in routine_text(text, machine)
    arrays = random_arrays(text)
    rng = np.random.default_rng(0)
    for value in ("min", "max", "any"):
        for array in arrays:
            limits = np.iinfo(array.dtype)
            numbers = rng.integers(limits.min, limits.max + 1, array.shape)
            array[...] = numbers if value == "any" else getattr(limits, value)
        check_root(text, arrays, target=machine, pieces=pieces)


@needs_pairs
@pytest.mark.parametrize("bits", [256, 512])
# A tile of rows, several tiles, and several calls.
@pytest.mark.parametrize(
    "few", [4, 7, 8, 13, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 6, 16, 17, 47, 48))]
)
@pytest.mark.parametrize("types", [*product_of(("s8", "u8"), repeat=2)], ids="-".join)
@pytest.mark.parametrize("along_k", [0, 1])
def test_few_rows_of_bytes(bits: int, few: int, types: tuple[str, str], along_k: int) -> None:
    """Few rows or few columns, along k or not; whole vectors and tiles, and a rest of both."""
    left, right = types
    for many, depth in ((128, 96), (101, 135)):
        lhs, rhs = left + dims(few, depth, 1 - along_k), f"{right}[{many},{depth}]"
        check_bytes(product(lhs, rhs, f"s32[{few},{many}]", along_k, 1), bits)
        lhs, rhs = f"{left}[{many},{depth}]", right + dims(few, depth, 1 - along_k)
        check_bytes(product(lhs, rhs, f"s32[{many},{few}]", 1, along_k), bits)


@needs_pairs
@pytest.mark.parametrize("pieces", [1, 2, 4])
@pytest.mark.parametrize("batches", [3, 9])
def test_batches_of_few_rows_of_bytes(pieces: int, batches: int) -> None:
    """Threads share rows of the result, or many batches."""
    root = (
        f"s32[{batches},140,11] dot(p0, p1), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    )
    text = module_text([f"s8[{batches},140,100]", f"s8[{batches},100,11]"], root)
    check_bytes(text, pieces=pieces)
    check_bytes(text.replace("s8", "u8", 1), pieces=pieces)


@needs_pairs
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_threads_share_columns_of_bytes(pieces: int) -> None:
    text = product("s8[9,512]", "s8[200,512]", "s32[9,200]", 1, 1)
    check_bytes(text, pieces=pieces)


def test_machines_without_sums_of_pairs_pack_bytes() -> None:
    text = product("s8[9,512]", "s8[200,512]", "s32[9,200]", 1, 1)
    for machine in (target_for("x86_64"), target_for("aarch64")):
        assert "inner_" not in routine_text(text, machine)
    for cpu in ("haswell", "skylake-avx512", "cascadelake"):
        assert "inner_" in routine_text(text, target_for("x86_64", cpu))
    many = product("s8[24,512]", "s8[200,512]", "s32[24,200]", 1, 1)
    assert "inner_" in routine_text(many, target_for("x86_64", "skylake-avx512"))
    assert "inner_" not in routine_text(many, target_for("x86_64", "cascadelake"))


# ---------------------------------------------------------------- few columns, copied along k


@pytest.mark.parametrize("bits", [128, 256, 512])
# One column is not copied; 2 and 7 are copied as 3 is.
@pytest.mark.parametrize(
    "columns", [1, 3, 8, *(pytest.param(columns, marks=pytest.mark.slow) for columns in (2, 7))]
)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_few_columns_are_copied_along_k(bits: int, columns: int, dtype: str) -> None:
    """Depths with and without a rest; the copy holds elements of the type of sums."""
    for depth in (64, 67):
        root = (
            f"{dtype}[75,{columns}] dot(p0, p1), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        )
        text = module_text([f"{dtype}[75,{depth}]", f"{dtype}[{depth},{columns}]"], root)
        found = micro_gemm(parse_text(text).entry.root)
        assert isinstance(found, InnerGemm)
        assert found.copied == (columns > 1)
        check_root(text, random_arrays(text), target=narrower(bits), pieces=2, **tolerances(dtype))


def test_batches_of_few_columns_are_copied_one_by_one() -> None:
    root = (
        "f32[3,50,5] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    )
    text = module_text(["f32[3,50,65]", "f32[3,65,5]"], root)
    found = micro_gemm(parse_text(text).entry.root)
    assert isinstance(found, InnerGemm)
    assert found.copied
    for pieces in (1, 3):
        check_root(text, random_arrays(text), pieces=pieces, **tolerances("f32"))


def test_rows_that_share_lines_of_the_cache_are_copied_apart() -> None:
    """Rows of a multiple of 2048 bytes; nothing is read behind the last element of k."""
    text = product("f32[6,1024]", "f32[40,1024]", "f32[6,40]", 1, 1)
    found = micro_gemm(parse_text(text).entry.root)
    assert isinstance(found, InnerGemm)
    assert found.copied
    assert found.copied_row * 4 % 2048
    check_root(text, random_arrays(text), **tolerances("f32"))


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_not_a_number_stays_in_its_row_and_column(bits: int) -> None:
    """Masks and sums of several vectors at a time let no NaN into other sums."""
    text = product("f32[64,70]", "f32[70,3]", "f32[64,3]", 1, 0)
    lhs, rhs = random_arrays(text)
    lhs[5, 69], rhs[69, 1] = np.nan, np.inf
    (found,) = check_root(text, [lhs, rhs], target=narrower(bits), **tolerances("f32"))
    finite = np.isfinite(found)
    expected = np.ones((64, 3), bool)
    expected[5], expected[:, 1] = False, False
    np.testing.assert_array_equal(finite, expected)
