"""Matrix products by SciPy's BLAS: custom calls `hloc_blas_TT_gemm`.

The letters give the layout of each matrix: `n` for as multiplied, `t` for transposed. Dimensions
before the last two are a batch. The functions are those of `scipy.linalg.cython_blas`; SciPy is the
extra `lapack`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.scipy_routines import routine_address
from hloc.shapes import ArrayShape

_TARGET = re.compile(r"hloc_blas_([nt])([nt])_gemm")
_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
_MAX_SIZE = (1 << 31) - 1
_Pointer = ctypes.c_void_p
_Function = ctypes.CFUNCTYPE(None, *[_Pointer] * 13)


@dataclass(frozen=True, slots=True)
class BlasGemm:
    """The matrices of one gemm, and their layouts."""

    lhs_transposed: bool
    rhs_transposed: bool

    @property
    def target(self) -> str:
        letters = "".join("nt"[side] for side in (self.lhs_transposed, self.rhs_transposed))
        return f"hloc_blas_{letters}_gemm"


TARGETS = tuple(BlasGemm(*sides).target for sides in product((False, True), repeat=2))
"""Targets of custom calls."""


def blas_gemm(inst: Instruction) -> BlasGemm | None:
    """Return the gemm that a custom call stands for, None if it is no BLAS call."""
    found = _TARGET.fullmatch(inst.attributes.custom_call_target)
    return BlasGemm(found[1] == "t", found[2] == "t") if found else None


def has_routine(shapes: Sequence[ArrayShape]) -> bool:
    """True if BLAS has a gemm for operands and a result of these types and sizes."""
    dtypes = {shape.dtype.name for shape in shapes}
    sizes = [size for shape in shapes for size in shape.dims]
    return len(dtypes) == 1 and dtypes <= {*_LETTERS} and 0 < min(sizes) <= max(sizes) <= _MAX_SIZE


def fits_blas(inst: Instruction) -> bool:
    """True if the shapes of a custom call are those of a gemm."""
    found = blas_gemm(inst)
    shapes = [operand.shape for operand in inst.operands] + [inst.shape]
    if found is None or len(shapes) != 3:
        return False
    arrays = [shape for shape in shapes if isinstance(shape, ArrayShape)]
    if len(arrays) != 3 or min(a.rank for a in arrays) < 2 or not has_routine(arrays):
        return False
    (*batch, m, n) = arrays[2].dims
    (*left_batch, a, b), (*right_batch, c, d) = arrays[0].dims, arrays[1].dims
    rows, depth = (b, a) if found.lhs_transposed else (a, b)
    right_depth, columns = (d, c) if found.rhs_transposed else (c, d)
    return batch == left_batch == right_batch and (rows, columns, depth) == (m, n, right_depth)


def evaluate_blas(inst: Instruction, operands: Sequence[Any]) -> Any:
    """Run a custom call into new memory.

    Raises:
        UnsupportedError: SciPy is not installed.
    """
    assert isinstance(inst.shape, ArrayShape)
    result = np.empty(inst.shape.dims, inst.shape.dtype.numpy)
    lhs, rhs = operands
    multiply_into(inst, np.asarray(lhs), np.asarray(rhs), result)
    return result


def multiply_into(inst: Instruction, lhs: Array, rhs: Array, result: Array) -> None:
    """Run a custom call on arrays in logical order; those that are not row-major are copied.

    Raises:
        UnsupportedError: SciPy is not installed.
    """
    found = blas_gemm(inst)
    assert found is not None
    if not result.flags.c_contiguous:
        contiguous = np.empty(result.shape, result.dtype)
        multiply_into(inst, lhs, rhs, contiguous)
        np.copyto(result, contiguous)
        return
    lhs, rhs = np.ascontiguousarray(lhs), np.ascontiguousarray(rhs)
    function = gemm(_LETTERS[inst.array.dtype.name])
    (*batch, m, n) = result.shape
    k = lhs.shape[-2] if found.lhs_transposed else lhs.shape[-1]
    one, zero = (np.full(1, value, result.dtype) for value in (1, 0))
    # BLAS is column-major, so the result is the product of the transposed matrices.
    letters = [b"T" if side else b"N" for side in (found.rhs_transposed, found.lhs_transposed)]
    texts = [ctypes.create_string_buffer(letter) for letter in letters]
    numbers = [ctypes.c_int(size) for size in (n, m, k, rhs.shape[-1], lhs.shape[-1], n)]
    columns, rows, depth, right, left, out = (ctypes.addressof(number) for number in numbers)
    # Not by strides: those of dimensions of size 1 may be anything.
    steps = [prod(array.shape[-2:]) * array.itemsize for array in (rhs, lhs, result)]
    for place in range(prod(batch)):
        y, x, z = (
            array.ctypes.data + place * step
            for array, step in zip((rhs, lhs, result), steps, strict=True)
        )
        function(
            ctypes.addressof(texts[0]), ctypes.addressof(texts[1]), columns, rows, depth,
            one.ctypes.data, y, right, x, left, zero.ctypes.data, z, out,
        )  # fmt: skip


@cache
def gemm(letter: str) -> Any:
    """Return the function of BLAS for element type `s`, `d`, `c` or `z`.

    Raises:
        UnsupportedError: SciPy is not installed.
    """
    return _Function(routine_address("blas", f"{letter}gemm"))
