"""Split products of a few rows by a large matrix along k, so that threads read it in order."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from hloc.analysis.dataflow import is_row_major
from hloc.analysis.stored_operand import contiguous_slice, is_widening
from hloc.dtypes import BF16, F16, F32, F64, DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.contraction.dot_numbers import Side, numbered, sides
from hloc.opt.expander import Expander, is_static
from hloc.shapes import ArrayShape

_MOST_PARTS = 16

_LEAST_SHARE = 8
"""The matrix is at least this many times as large as the sums of all parts."""

_LEAST_STEPS = 32
"""Fewest steps of k of a part."""

_FLOATS = (BF16, F16, F32, F64)

_IN_MEMORY = ("parameter", "constant", "get-tuple-element")
"""Opcodes of matrices that no kernel could compute while it multiplies."""


@dataclass(frozen=True)
class SplitKGemmRewriter(Expander):
    """Split products of a few rows by a large matrix along k: a batch of products, and their sum.

    Such a product takes as long as reading the matrix, `f32[k,n]`. Threads that share its columns
    read a piece of every row, which memory delivers slowly; of a batch, each reads rows in order.
    Measured on two threads: 1x4096x4096 of f32 takes 0.6 of the time by columns, 1x2048x8192 of
    bf16 0.5; on one thread as long as before. Splits matrices of at least `min_bytes`, into up to
    16 parts of at least `part_bytes`. Exact but for the order of sums. Cost: O(instructions).
    """

    name: ClassVar[str] = "split-k-gemm-rewriter"
    acts_on = frozenset({"dot"})

    min_bytes: int = 2 << 20
    part_bytes: int = 1 << 20
    max_rows: int = 4

    def when(self, inst: Instruction) -> bool:
        return is_static(inst) and self._parts(inst) > 1

    def expand(self, inst: Instruction) -> Instruction:
        b, dtype, parts = Builder(inst.computation), inst.array.dtype, self._parts(inst)
        lhs, rhs = (_split(b, side, parts) for side in sides(inst))
        dims = (*lhs.sizes(lhs.batch), *lhs.sizes(lhs.free), *rhs.sizes(rhs.free))
        sums = ArrayShape(_sums(dtype), dims)
        attributes = numbered(inst.attributes, lhs, rhs)
        dot = b.instruction("dot", (lhs.operand, rhs.operand), attributes, shape=sums)
        add = b.scalar_function("add", sums.dtype)
        total = b.reduce((dot,), (b.constant(0, sums.dtype),), (0,), add)
        return total if sums.dtype is dtype else b.convert(total, dtype)

    def _parts(self, inst: Instruction) -> int:
        """Return the number of parts of k, 1 if the product should stay as it is."""
        lhs, rhs = sides(inst)
        is_left = lhs.operand.array.size_bytes > rhs.operand.array.size_bytes
        matrix, rows = (lhs, rhs) if is_left else (rhs, lhs)
        height, size_bytes = prod(rows.sizes(rows.free)), _stored(matrix.operand).array.size_bytes
        is_fitting = (
            all(x.array.dtype in _FLOATS for x in (inst, *inst.operands))
            and len(rows.contracting) == 1
            and not matrix.batch
            and height <= (1 if is_left else self.max_rows)
            and size_bytes >= self.min_bytes
            and _is_in_order(matrix)
            and is_row_major(inst.array)
        )
        if not is_fitting:
            return 1
        depth = matrix.operand.array.dims[0]
        sums_bytes = inst.array.elements * _sums(inst.array.dtype).storage_bytes
        most = min(
            _MOST_PARTS,
            size_bytes // self.part_bytes,
            size_bytes // (_LEAST_SHARE * sums_bytes),
            depth // _LEAST_STEPS,
        )
        return next((parts for parts in range(most, 1, -1) if depth % parts == 0), 1)


def _is_in_order(matrix: Side) -> bool:
    """True if memory holds the rows of k one after the other."""
    operand, stored = matrix.operand, _stored(matrix.operand)
    is_stored = stored.is_a(*_IN_MEMORY) or contiguous_slice(stored) is not None
    return is_stored and matrix.contracting == (0,) and is_row_major(operand.array)


def _stored(operand: Instruction) -> Instruction:
    """Return the narrower array that `operand` widens, which dots can read, else `operand`."""
    return operand.operands[0] if is_widening(operand) else operand


def _sums(dtype: DType) -> DType:
    """Return the type of the sums of parts."""
    return F64 if dtype is F64 else F32


def _split(b: Builder, side: Side, parts: int) -> Side:
    """Return an operand whose contracted dimension is one of parts, then one of steps."""
    (dim,), stored = side.contracting, _stored(side.operand)
    dims = list(stored.array.dims)
    dims[dim : dim + 1] = parts, dims[dim] // parts
    operand = b.convert(b.reshape(stored, dims), side.operand.array.dtype)
    return Side(operand, (dim,), (dim + 1,))
