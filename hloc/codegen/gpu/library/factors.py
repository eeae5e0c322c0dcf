"""Cholesky factors for cuSOLVER.

Source: cuSOLVER documentation, potrf: it works in place on column-major matrices, does not change
the other triangle, and returns the number of a pivot that is not positive. HLO's result has zeros
in the other triangle, and is all NaN for a matrix that is not positive definite.
"""

from __future__ import annotations

from math import prod

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.library.arguments import operand_number, result_number, scratch_number
from hloc.codegen.gpu.library_call import CholeskyCall
from hloc.dtypes import C64, C128, F32, F64, S32
from hloc.ir.instruction import Instruction
from hloc.shapes import row_major

_MOST_MATRICES = 64
"""Largest batch: matrices are factored one after another; hloc's kernel has a block for each."""

_SMALLEST = 64
"""Fewest rows; below, hloc's own kernel is as fast."""

_FAULT_BYTES = 4


def match(inst: Instruction) -> CholeskyCall | None:
    """Return the call for a cholesky of row-major matrices, None for anything else."""
    if not inst.is_a("cholesky") or inst.array.dtype not in (F32, F64, C64, C128):
        return None
    (operand,) = inst.operands
    *batch, size, _ = inst.array.dims
    plain = row_major(inst.array.rank).minor_to_major
    if not plain == operand.array.minor_to_major == inst.array.minor_to_major:
        return None
    count = prod(batch)
    if size < _SMALLEST or not 0 < count <= _MOST_MATRICES:
        return None
    return CholeskyCall(
        size,
        count,
        inst.array.dtype,
        inst.attributes.lower,
        operand_number(inst, operand),
        result_number(inst),
        scratch_number(inst),
        count * _FAULT_BYTES,
    )


def finish(w: LaunchWriter, call: CholeskyCall) -> None:
    """Emit the launch that clears the other triangle, and sets failed matrices to NaN."""
    dims = (call.batch, call.size, call.size)
    with w.each(prod(dims)) as (k, number):
        m, b = k.math, k.b
        matrix, row, column = m.delinear(number, dims)
        flat = k.output.flat(prod(dims))
        fault = k.scratch_array(0, S32, (call.batch,)).load(m, (matrix,))
        below, above = (row, column) if call.lower else (column, row)
        kept = m.compare("GE", below, above)
        value = b.select(kept, flat.load(m, (number,)), b.const(call.dtype, 0))
        bad = b.compare("NE", fault, b.const(S32, 0))
        value = b.select(bad, b.const(call.dtype, float("nan")), value)
        flat.store(m, (number,), value)
