"""Sparse matrices by custom call, as `jax.experimental.sparse` emits them for the CPU.

A matrix of `rows` rows in CSR form is three arrays: the values `[nnz]`, the start of each
row in them `[rows+1]`, and the column of each value `[nnz]`. Values after the end of the last row
are padding. Source: jaxlib's `cpu/sparse_kernels.cc`.
"""

from __future__ import annotations

import numpy as np

from hloc.dtypes import Array
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import HostValue, Operands
from hloc.shapes import ArrayShape

CSR_TIMES_DENSE = "cpu_csr_sparse_dense_ffi"
"""A CSR matrix times a vector `[columns]` or a matrix `[columns,k]`."""


def fits_csr_times_dense(inst: Instruction) -> bool:
    """True if the operands are a CSR matrix and a vector or matrix, the result their product."""
    shapes = [*(operand.shape for operand in inst.operands), inst.shape]
    arrays = [shape for shape in shapes if isinstance(shape, ArrayShape)]
    if len(shapes) != 5 or len(arrays) != 5:
        return False
    values, starts, columns, right, result = arrays
    return (
        values.rank == starts.rank == columns.rank == 1
        and right.rank in (1, 2)
        and values.dims == columns.dims
        and starts.dtype.is_integer
        and columns.dtype.is_integer
        and values.dtype is right.dtype is result.dtype
        and result.dims == (starts.dims[0] - 1, *right.dims[1:])
    )


def evaluate_csr_times_dense(inst: Instruction, operands: Operands) -> HostValue:
    """Return the product; values whose column does not exist count as zero."""
    result = np.zeros(inst.array.dims, inst.array.dtype.numpy)
    values, starts, columns, right = operands
    add_csr_times_dense(values, starts.astype(np.int64), columns.astype(np.int64), right, result)
    return result


def add_csr_times_dense(
    values: Array, starts: Array, columns: Array, right: Array, result: Array
) -> None:
    """Add the product of a CSR matrix and `right` to `result`."""
    starts = np.maximum.accumulate(np.clip(starts, 0, len(values)))
    used = slice(int(starts[0]), int(starts[-1]))
    rows = np.repeat(np.arange(len(result)), np.diff(starts))
    columns, values = columns[used], values[used]
    inside = (columns >= 0) & (columns < len(right))
    rows, columns, values = rows[inside], columns[inside], values[inside]
    if right.ndim == 2:
        values = values[:, None]
    with np.errstate(all="ignore"):
        np.add.at(result, rows, values * right[columns])
