"""Batches of tiny products: one in each lane of a vector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.emitters.gemm.unpacked.lane_gemm import LaneGemm, lane_gemm
from hloc.codegen.kernels.gemm_problem import gemm_problem_of
from hloc.codegen.llvm.target import target_for
from tests.tolerance import bounds_of
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays
from tests.unit.codegen.test_products import narrower

AVX2 = target_for("x86_64", "haswell")
NEON = target_for("aarch64", "neoverse-n1")


def batch(
    count: str,
    rows: int,
    columns: int,
    depth: int,
    left: int = 1,
    right: int = 0,
    dtype: str = "f32",
) -> str:
    """Return a product of matrices; `left` and `right` are the contracted dimensions."""
    outer = count.count(",") + 1
    lhs = f"{dtype}[{count},{rows},{depth}]" if left else f"{dtype}[{count},{depth},{rows}]"
    rhs = f"{dtype}[{count},{columns},{depth}]" if right else f"{dtype}[{count},{depth},{columns}]"
    dims = "{" + ",".join(map(str, range(outer))) + "}"
    root = (
        f"{dtype}[{count},{rows},{columns}] dot(p0, p1), lhs_batch_dims={dims}, "
        f"rhs_batch_dims={dims}, lhs_contracting_dims={{{outer + left}}}, "
        f"rhs_contracting_dims={{{outer + right}}}"
    )
    return module_text([lhs, rhs], root)


def vectors(count: int, size: int) -> str:
    """Return products of matrices and vectors."""
    root = (
        f"f32[{count},{size}] dot(p0, p1), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    )
    return module_text([f"f32[{count},{size},{size}]", f"f32[{count},{size}]"], root)


def found(text: str) -> LaneGemm | None:
    root = parse_text(text).entry.root
    dtypes = [operand.array.dtype for operand in root.operands]
    return lane_gemm(gemm_problem_of(root), (dtypes[0], dtypes[1]), root.array.dtype)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (batch("16", 3, 3, 3), True),
        (batch("15", 3, 3, 3), False),  # fewer than the lanes of the widest vector
        (batch("2,16", 3, 3, 3), True),
        (batch("20", 7, 7, 7), True),
        (batch("20", 3, 3, 8), False),
        (batch("20", 8, 8, 8), False),
        (batch("20", 1, 3, 3), False),
        (batch("20", 3, 3, 3, dtype="f64"), True),
        (batch("20", 3, 3, 3, dtype="s32"), False),
        (batch("20", 3, 3, 3, dtype="c64"), False),
        (vectors(20, 8), False),
        (vectors(20, 9), True),
        (vectors(20, 15), True),
        (vectors(20, 16), False),
        (batch("20", 6, 12, 12, right=1), True),
        (batch("20", 6, 12, 12), False),  # vectors along the columns
        (batch("20", 16, 16, 12, right=1), False),
    ],
)
def test_tiny_products_are_in_lanes(text: str, expected: bool) -> None:
    assert (found(text) is not None) == expected


SIZES = [(2, 2, 2), (3, 3, 3), (2, 5, 3), (5, 2, 7), (4, 4, 4), (7, 7, 7), (6, 3, 2)]


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("left", "right"), [(1, 0), (1, 1), (0, 0), (0, 1)])
def test_products(sizes: tuple[int, int, int], left: int, right: int, bits: int) -> None:
    text = batch("37", *sizes, left, right)
    assert found(text) is not None
    check_root(text, random_arrays(text), target=narrower(bits), **bounds_of("dot", "f32"))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("count", ["16", "17", "33", "70", "2,19", "3,2,16"])
@pytest.mark.parametrize("size", [3, 4])
def test_batches_and_parts(count: str, size: int, dtype: str) -> None:
    text = batch(count, size, size, size, dtype=dtype)
    arrays = random_arrays(text)
    bounds = bounds_of("dot", dtype)
    (whole,) = check_root(text, arrays, **bounds)
    for pieces in (2, 3):
        (parts,) = check_root(text, arrays, pieces=pieces, **bounds)
        np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("size", [9, 12, 15])
@pytest.mark.parametrize("pieces", [1, 2])
def test_inner_products_of_less_than_two_vectors(size: int, pieces: int) -> None:
    for text in (vectors(40, size), batch("40", 6, size, size, right=1)):
        assert found(text) is not None
        check_root(text, random_arrays(text), pieces=pieces, **bounds_of("dot", "f32"))


def test_columns_that_fill_vectors_are_computed_together() -> None:
    root = parse_text(batch("20", 4, 4, 4)).entry.root
    assert "@square_gemm_f32_4_rrr" in emit(root, target=AVX2).text
    assert "@small_gemm_f32" in emit(root, target=NEON).text


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("order", ["{2,1,0}", "{1,2,0}"])
def test_matrices_of_which_vectors_hold_several(
    size: int, dtype: str, bits: int, order: str
) -> None:
    # LLVM splits vectors that are wider than the machine's.
    target = replace(narrower(bits), vector_bits=bits)
    for count, left, right in (("16", 1, 0), ("37", 0, 0), ("19", 1, 1), ("2,17", 0, 1)):
        text = batch(count, size, size, size, left, right, dtype)
        if "," not in count:
            whole = f"{dtype}[{count},{size},{size}]"
            text = text.replace(f"ROOT r = {whole}", f"ROOT r = {whole}{order}")
        root = parse_text(text).entry.root
        lanes = bits // (32 if dtype == "f32" else 64)
        assert ("@square_gemm" in emit(root, target=target).text) == (size < lanes)
        arrays = random_arrays(text)
        (whole_result,) = check_root(text, arrays, target=target, **bounds_of("dot", dtype))
        (parts,) = check_root(text, arrays, target=target, pieces=2, **bounds_of("dot", dtype))
        np.testing.assert_array_equal(parts, whole_result)


def test_other_squares_have_a_matrix_in_each_lane() -> None:
    for text in (batch("20", 3, 3, 3), batch("20", 2, 4, 4), batch("20", 5, 5, 5)):
        assert "@lane_gemm_f32" in emit(parse_text(text).entry.root, target=AVX2).text


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("right", [0, 1])
def test_products_in_a_loop(size: int, right: int) -> None:
    """Their code is made for the sizes."""
    kind = f"f32[40,{size},{size}]"
    text = f"""HloModule m
body {{
  s = (s32[], {kind}, {kind}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = {kind} get-tuple-element(s), index=1
  b = {kind} get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  c = {kind} dot(b, a), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{{1 + right}}}
  ROOT t = (s32[], {kind}, {kind}) tuple(next, a, c)
}}
more {{
  s = (s32[], {kind}, {kind}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  a = {kind} parameter(0)
  zero = s32[] constant(0)
  s = (s32[], {kind}, {kind}) tuple(zero, a, a)
  w = (s32[], {kind}, {kind}) while(s), condition=more, body=body
  ROOT r = {kind} get-tuple-element(w), index=2
}}"""
    (a,) = random_arrays(text)
    (wanted,) = hloc.evaluate(text, a)
    for threads in (1, 3):
        (result,) = hloc.compile(text, threads=threads)(a)
        np.testing.assert_allclose(result, wanted, **bounds_of("dot", "f32"))
