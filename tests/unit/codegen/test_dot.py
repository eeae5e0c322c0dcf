"""Products: every orientation, batch and free dimensions, element types, layouts."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.tolerance import bounds, bounds_of
from tests.unit.codegen.harness import (
    Compiled,
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
    run_instruction,
)


@pytest.mark.parametrize(
    "dtype", ["f32", "f64", "bf16", "f16", "s8", "s32", "u8", "c64", "f8e4m3fn"]
)
def test_types(dtype: str) -> None:
    root = f"{dtype}[17,19] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    text = module_text([f"{dtype}[17,33]", f"{dtype}[33,19]"], root)
    check_root(text, random_arrays(text), **bounds_of("dot", dtype))


@pytest.mark.parametrize(("narrow", "wide"), [("bf16", "f32"), ("s8", "s32"), ("f32", "f64")])
def test_wider_result(narrow: str, wide: str) -> None:
    root = f"{wide}[17,19] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    text = module_text([f"{narrow}[17,33]", f"{narrow}[33,19]"], root)
    check_root(text, random_arrays(text))


@pytest.mark.parametrize("layout", ["", "{0,1}"])
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("right", [0, 1])
def test_orientations(left: int, right: int, layout: str) -> None:
    lhs = ("f32[300,37]", "f32[37,300]")[left] + layout
    rhs = ("f32[300,290]", "f32[290,300]")[right]
    root = (
        f"f32[37,290]{layout} dot(p0, p1), "
        f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    )
    text = module_text([lhs, rhs], root)
    check_root(text, random_arrays(text), **bounds("f32 sum"))


SHAPES = [
    ("f32[9,30,20]", "f32[20,70]", "f32[9,30,70]", "", "", "2", "0"),
    ("f32[30,20,9]{1,0,2}", "f32[20,70]", "f32[30,9,70]", "", "", "1", "0"),
    ("f32[5,7,6,3]", "f32[7,5,3,4]", "f32[7,5,6,4]", "1,0", "0,1", "3", "2"),
    ("f32[5,7,20,3]", "f32[7,5,3,40]", "f32[7,5,20,40]", "1,0", "0,1", "3", "2"),
    ("f32[5,7,6,3]", "f32[3,5,4,2]", "f32[7,6,4,2]", "", "", "3,0", "0,1"),
    ("f32[50]", "f32[50]", "f32[]", "", "", "0", "0"),
    ("f32[50]", "f32[50,700]", "f32[700]", "", "", "0", "0"),
    ("f32[20,50]", "f32[50]", "f32[20]", "", "", "1", "0"),
    ("f32[20]", "f32[50]", "f32[20,50]", "", "", "", ""),
    ("f32[20,0]", "f32[0,50]", "f32[20,50]", "", "", "1", "0"),
    ("f32[0,20]", "f32[20,50]", "f32[0,50]", "", "", "1", "0"),
]


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(("lhs", "rhs", "result", "b0", "b1", "c0", "c1"), SHAPES)
def test_dimension_numbers(
    lhs: str, rhs: str, result: str, b0: str, b1: str, c0: str, c1: str, pieces: int
) -> None:
    root = (
        f"{result} dot(p0, p1), lhs_batch_dims={{{b0}}}, rhs_batch_dims={{{b1}}}, "
        f"lhs_contracting_dims={{{c0}}}, rhs_contracting_dims={{{c1}}}"
    )
    text = module_text([lhs, rhs], root)
    check_root(text, random_arrays(text), **bounds("f32 sum"), pieces=pieces)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "c64"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("depth", [1025, 2050, 3000])
def test_blocks_of_long_sums_share_no_steps(rows: int, depth: int, dtype: str) -> None:
    """The steps of a pass, five for three rows, need not divide a block of k."""
    shapes, contracted = [f"{dtype}[{rows},{depth}]", f"{dtype}[{depth},11]"], "{1}"
    root = f"{dtype}[{rows},11] dot(p0, p1), lhs_contracting_dims={contracted}, "
    text = module_text(shapes, f"{root}rhs_contracting_dims={{0}}")
    check_root(text, random_arrays(text), **bounds_of("dot", dtype))


@pytest.mark.parametrize("rows", [3, 20])
def test_long_sums_stay_accurate(rows: int) -> None:
    """A chain of 50,000 additions in f32 would lose four digits."""
    depth = 50001
    root = f"f32[{rows},70] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    text = module_text([f"f32[{rows},{depth}]", f"f32[{depth},70]"], root)
    lhs = np.full((rows, depth), 0.1, np.float32)
    (found,) = run_instruction(parse_text(text).entry.root, [lhs, np.ones((depth, 70), np.float32)])
    np.testing.assert_allclose(found, float(np.float32(0.1)) * depth, **bounds("f32 long sum"))


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "s32", "s8", "pred"])
@pytest.mark.parametrize("level", [1, 2])
def test_packed_panels_are_read_by_vectors_at_every_level(
    dtype: str, level: int, capfd: pytest.CaptureFixture[str]
) -> None:
    root = f"{dtype}[20,70] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    text = module_text([f"{dtype}[20,40]", f"{dtype}[40,70]"], root)
    compiled = Compiled(emit(parse_text(text).entry.root), level)
    texts = [str(compiled.module), *(routines.text for routines in compiled.kernel.routines)]
    assert re.search(r" (mul|fmul|and|call) [a-z ]*<\d+ x ", "".join(texts))
    assert not capfd.readouterr().err
