"""Dots for cuBLASLt, with its epilogues: a bias along the columns, and relu.

BLAS is column-major, HLO mostly row-major: the call computes the transposed gemm, so that the right
side of HLO is the left one here.
Source of the supported types: cuBLAS documentation, cublasLtMatmul.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import gemm_root, is_gemm
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Side, Space, dot_problem
from hloc.codegen.gpu.library.arguments import operand_number, result_number, scratch_number
from hloc.codegen.gpu.library.epilogue import epilogue_of
from hloc.codegen.gpu.library_call import MatmulCall, Matrix
from hloc.dtypes import BF16, C64, C128, F16, F32, F64, S8, S32, DType
from hloc.ir.instruction import Instruction

WORKSPACE_BYTES = 32 << 20
"""NVIDIA's recommendation for its largest chips; enough for all."""

_TYPES: frozenset[tuple[DType, DType]] = frozenset({
    (F32, F32), (F64, F64), (C64, C64), (C128, C128),
    (F16, F16), (F16, F32), (BF16, BF16), (BF16, F32), (S8, S32),
})  # fmt: skip
"""Types of operands and of the result that cuBLASLt supports."""

_INTEGER_STEP = 4
"""Sizes and strides of s8 must be multiples of this."""

_ALGORITHMS = ("", "dot_f32_f32_f32", "dot_tf32_tf32_f32")

_LEAST_WORK = 1 << 16
"""Fewest multiplications; below, a call costs more than hloc's own kernel."""


def match(inst: Instruction) -> MatmulCall | None:
    """Return the call for a dot with optional bias and relu, None if it is not supported."""
    if not is_gemm(inst) or gemm_root(inst).opcode.name != "dot":
        return None
    p = dot_problem(inst)
    epilogue = epilogue_of(inst, p.root, p.root.array.minor_to_major[0])
    work = p.batch.count * p.rows.count * p.columns.count * p.depth.count
    if epilogue is None or work < _LEAST_WORK or p.root.attributes.algorithm not in _ALGORITHMS:
        return None
    if p.left.dtype is not p.right.dtype or (p.left.dtype, p.result.dtype) not in _TYPES:
        return None
    if epilogue.bias is not None and epilogue.bias.array.dims != (p.columns.count,):
        return None
    left, right = _factor(inst, p, p.right), _factor(inst, p, p.left)
    result = _matrix(
        result_number(inst),
        p.result.dtype,
        _step(p.columns, p.column_steps),
        _step(p.rows, p.row_steps),
        _step(p.batch, p.batch_steps),
    )
    if left is None or right is None or result is None:
        return None
    call = MatmulCall(
        left[0],
        right[0],
        result,
        left_transposed=left[1],
        right_transposed=not right[1],
        batch=p.batch.count,
        algorithm=p.root.attributes.algorithm,
        bias=None if epilogue.bias is None else operand_number(inst, epilogue.bias),
        relu=epilogue.relu,
        workspace=scratch_number(inst),
        workspace_bytes=WORKSPACE_BYTES,
    )
    return call if p.left.dtype is not S8 or _suits_integers(call) else None


_Loop: TypeAlias = tuple[int, int]
"""Size of a loop, and its stride in memory."""


def _step(space: Space, steps: Sequence[int]) -> _Loop | None:
    """Return the one loop of a space; None if there are several."""
    loops = [loop for loop in zip(space.sizes, steps, strict=True) if loop[0] != 1]
    return None if len(loops) > 1 else loops[0] if loops else (1, 0)


def _factor(inst: Instruction, p: MatrixProblem, side: Side) -> tuple[Matrix, bool] | None:
    """Return the matrix of a side, and if it is contiguous along the depth; None if computed."""
    lines = _step(p.rows if side is p.left else p.columns, side.line)
    depth, batch = _step(p.depth, side.depth), _step(p.batch, side.batch)
    if not side.in_memory:
        return None
    argument = operand_number(inst, side.operand)
    by_depth = _matrix(argument, side.dtype, depth, lines, batch)
    if by_depth is not None:
        return by_depth, True
    by_line = _matrix(argument, side.dtype, lines, depth, batch)
    return None if by_line is None else (by_line, False)


def _matrix(
    argument: int, dtype: DType, rows: _Loop | None, columns: _Loop | None, batch: _Loop | None
) -> Matrix | None:
    """Return column-major matrices; None if the operand has another layout."""
    if rows is None or columns is None or batch is None:
        return None
    if rows[0] > 1 and rows[1] != 1:
        return None
    leading = columns[1] if columns[0] > 1 else rows[0]
    if leading < rows[0]:
        return None
    return Matrix(argument, dtype, rows[0], columns[0], leading, batch[1])


def _suits_integers(call: MatmulCall) -> bool:
    """True if cuBLASLt supports a call of s8: depth contiguous on both sides, aligned sizes."""
    if not call.left_transposed or call.right_transposed or call.bias is not None or call.relu:
        return False
    matrices = (call.left, call.right, call.result)
    return not any(
        size % _INTEGER_STEP for m in matrices for size in (m.rows, m.columns, m.leading)
    )
