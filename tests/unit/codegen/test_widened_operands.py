"""Dots of few rows that widen a narrower matrix as they read it."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from fuzz.agreement import TABLE, check
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.pass_base import PassContext
from hloc.opt.pipelines import pipeline_for
from tests.inputs import inputs_for


def product(
    rows: int, depth: int, columns: int, types: str, *, transposed: bool = False, left: bool = False
) -> str:
    """Return a product of rows by a matrix that is converted; `types` are of both and the result.

    With `left` the matrix is the first operand, and there is one row.
    """
    wide, narrow, result = types.split()
    sizes = f"{columns},{depth}" if transposed else f"{depth},{columns}"
    contracted = int(transposed)
    dot = (
        f"{result}[{columns}] dot(w, x), lhs_contracting_dims={{{contracted}}}, "
        "rhs_contracting_dims={0}"
        if left
        else f"{result}[{rows},{columns}] dot(x, w), lhs_contracting_dims={{1}}, "
        f"rhs_contracting_dims={{{contracted}}}"
    )
    return f"""
HloModule m

ENTRY e {{
  x = {wide}[{depth if left else f"{rows},{depth}"}] parameter(0)
  numbers = {narrow}[{sizes}] parameter(1)
  w = {wide}[{sizes}] convert(numbers)
  ROOT d = {dot}
}}"""


def optimised(text: str) -> Module:
    """Return the module as code generation gets it."""
    module = hloc.parse(text)
    pipeline_for(2).run(module, PassContext())
    return module


def converts(module: Module) -> list[Instruction]:
    """Return the converts of matrices that are kernels."""
    return [i for i in module.entry.instructions if i.is_a("convert") and i.array.elements > 4096]


def check_text(text: str) -> None:
    module = hloc.parse(text)
    check(module, inputs_for(module, special=False), TABLE)


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "types",
    ["f32 s8 f32", "f32 u8 f32", "f32 bf16 f32", "f32 f16 f32", "bf16 s8 bf16", "f16 u8 f32"],
)
def test_a_matrix_is_widened_as_it_is_read(rows: int, transposed: bool, types: str) -> None:
    text = product(rows, 403, 331, types, transposed=transposed)
    assert not converts(optimised(text))
    check_text(text)


def test_the_matrix_may_be_the_first_operand() -> None:
    text = product(1, 403, 331, "f32 s8 f32", left=True)
    assert not converts(optimised(text))
    check_text(text)


def test_a_large_matrix_is_split_along_k_too() -> None:
    text = product(2, 4096, 1040, "f32 s8 f32")
    module = optimised(text)
    assert not converts(module)
    assert any(
        inst.is_a("dot") and inst.array.dims[0] == 4
        for c in module.computations
        for inst in c.instructions
    )
    check_text(text)


@pytest.mark.parametrize("columns", [40, 17])
def test_few_columns_have_no_such_kernel_and_the_same_answer(columns: int) -> None:
    text = product(3, 4096, columns, "f32 s8 f32")
    check_text(text)


def test_all_bytes_are_widened_exactly() -> None:
    text = product(1, 256, 256, "f32 s8 f32")
    numbers = np.arange(-128, 128, dtype=np.int8)
    matrix = np.zeros((256, 256), np.int8)
    matrix[np.arange(256), np.arange(256)] = numbers
    (found,) = hloc.compile(text)(np.ones((1, 256), np.float32), matrix)
    assert np.array_equal(found.reshape(-1), numbers.astype(np.float32))


@pytest.mark.parametrize("order", ["4,2048 1", "2048,4 0"])
def test_the_rows_may_be_the_narrow_side(order: str) -> None:
    """Few rows of bytes by few columns of floats, along contiguous or strided steps of k."""
    sizes, contracted = order.split()
    check_text(f"""
HloModule m

ENTRY e {{
  numbers = s8[{sizes}] parameter(0)
  x = f32[{sizes}] convert(numbers)
  w = f32[7,2048] parameter(1)
  ROOT d = f32[4,7] dot(x, w), lhs_contracting_dims={{{contracted}}}, rhs_contracting_dims={{1}}
}}""")


@pytest.mark.parametrize("rows", [1, 4])
def test_the_matrix_may_be_a_batch_or_a_slice(rows: int) -> None:
    check_text(f"""
HloModule m

ENTRY e {{
  numbers = s8[3,2,128,96] parameter(0)
  part = s8[1,2,128,96] slice(numbers), slice={{[2:3],[0:2],[0:128],[0:96]}}
  layer = s8[2,128,96] reshape(part)
  w = f32[2,128,96] convert(layer)
  x = f32[2,{rows},128] parameter(1)
  ROOT d = f32[2,{rows},96] dot(x, w), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
}}""")
