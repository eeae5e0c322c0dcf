"""Products of complex numbers by the routines of their real and imaginary parts."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.gemm.complex_gemm import MAX_BLOCKS_BYTES
from tests.tolerance import bounds_of
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays
from tests.unit.codegen.test_products import dims, narrower

BOUNDS = {"c64": bounds_of("dot", "c64"), "c128": bounds_of("dot", "f64")}
SIZES = [(24, 64, 40), (37, 129, 72), (64, 24, 400), (8, 8, 8), (5, 7, 3), (31, 3, 9)]


def calls_blocks(text: str) -> bool:
    """True if the root is computed by a gemm of parts."""
    routines = emit(parse_text(text).entry.root).routines
    return any(routine.name.startswith("complex_blocks") for routine in routines)


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("right", [0, 1])
def test_layouts(bits: int, dtype: str, layout: str, left: int, right: int) -> None:
    lhs, rhs = dtype + dims(37, 40, 1 - left), dtype + dims(40, 51, right)
    contracted = f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    text = module_text([lhs, rhs], f"{dtype}[37,51]{layout} dot(p0, p1), {contracted}")
    assert calls_blocks(text)
    check_root(text, random_arrays(text), target=narrower(bits), **BOUNDS[dtype])


@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize(("rows", "columns", "depth"), SIZES)
def test_sizes(dtype: str, rows: int, columns: int, depth: int) -> None:
    shapes = [f"{dtype}[{rows},{depth}]", f"{dtype}[{depth},{columns}]"]
    contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = module_text(shapes, f"{dtype}[{rows},{columns}] dot(p0, p1), {contracted}")
    assert calls_blocks(text)
    check_root(text, random_arrays(text), **BOUNDS[dtype])


@pytest.mark.parametrize(("rows", "columns"), [(40, 50), (300, 200), (1, 64), (64, 1)])
def test_a_single_step_of_k_is_computed_by_loops(rows: int, columns: int) -> None:
    shapes, contracted = [f"c64[{rows},1]", f"c64[1,{columns}]"], "lhs_contracting_dims={1}"
    root = f"c64[{rows},{columns}] dot(p0, p1), {contracted}, rhs_contracting_dims={{0}}"
    text = module_text(shapes, root)
    assert not calls_blocks(text)
    check_root(text, random_arrays(text), **BOUNDS["c64"])


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "numbers"),
    [
        ("300,200", "200,100", "300,100", "{} {1} {} {0}"),
        ("60,40", "40,300", "60,300", "{} {1} {} {0}"),
        ("10,30,20", "10,20,40", "10,30,40", "{0} {2} {0} {1}"),
        ("9,12,12", "9,12,12", "9,12,12", "{0} {2} {0} {1}"),
        ("30,10,20", "20,10,40", "10,30,40", "{1} {2} {1} {0}"),
        ("3,2,30,20", "3,20,2,40", "3,2,30,40", "{0,1} {3} {0,2} {1}"),
        ("30,4,20", "20,4,30,3", "30,30,3", "{} {1,2} {} {1,0}"),
    ],
)
def test_parts_of_threads_have_the_bits_of_the_whole(
    lhs: str, rhs: str, result: str, numbers: str
) -> None:
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    where = ", ".join(f"{name}={x}" for name, x in zip(names, numbers.split(), strict=True))
    text = module_text([f"c64[{lhs}]", f"c64[{rhs}]"], f"c64[{result}] dot(p0, p1), {where}")
    assert calls_blocks(text)
    arrays, bound = random_arrays(text), BOUNDS["c64"]
    (whole,) = check_root(text, arrays, **bound)
    (found,) = check_root(text, arrays, pieces=3, **bound)
    np.testing.assert_array_equal(found, whole)


def test_large_right_hand_sides_have_no_blocks() -> None:
    columns = MAX_BLOCKS_BYTES // (2 * 8 * 64) + 1
    contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    root = f"c64[64,{columns}] dot(p0, p1), {contracted}"
    assert not calls_blocks(module_text(["c64[64,64]", f"c64[64,{columns}]"], root))


VECTORS = [
    ("200,100", "100", "200", "{} {1} {} {0}"),
    ("130,63", "63", "130", "{} {1} {} {0}"),
    ("90", "70,90", "70", "{} {0} {} {1}"),
    ("300,30", "1,30", "300,1", "{} {1} {} {1}"),
    ("5,40", "60,40", "5,60", "{} {1} {} {1}"),
    ("10,40,50", "10,50", "10,40", "{0} {2} {0} {1}"),
    ("2,3,40,50", "2,3,2,50", "2,3,40,2", "{0,1} {3} {0,1} {3}"),
]
"""Products with few vectors, all contiguous along k."""


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize(("lhs", "rhs", "result", "numbers"), VECTORS)
def test_vectors(dtype: str, bits: int, lhs: str, rhs: str, result: str, numbers: str) -> None:
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    where = ", ".join(f"{name}={x}" for name, x in zip(names, numbers.split(), strict=True))
    shapes = [f"{dtype}[{lhs}]", f"{dtype}[{rhs}]"]
    text = module_text(shapes, f"{dtype}[{result}] dot(p0, p1), {where}")
    assert calls_blocks(text)
    arrays, bound = random_arrays(text), BOUNDS[dtype]
    (whole,) = check_root(text, arrays, target=narrower(bits), **bound)
    (found,) = check_root(text, arrays, target=narrower(bits), pieces=3, **bound)
    np.testing.assert_array_equal(found, whole)


def test_the_product_of_two_vectors_has_no_blocks() -> None:
    contracted = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    text = module_text(["c64[5000]", "c64[5000]"], f"c64[] dot(p0, p1), {contracted}")
    assert not calls_blocks(text)
    check_root(text, random_arrays(text), **BOUNDS["c64"])
