"""Many tiny gemms, such as rotations and products of Jacobians: one in each lane of a vector.

In vectors along the columns, matrices of 3x3 leave most lanes empty. Those of 2x2 and 4x4 fill
vectors as they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.gemm.unpacked.lane_gemm_routine import (
    MOST_BITS,
    TYPES,
    lane_gemm_routine,
)
from hloc.codegen.cpu.emitters.gemm.unpacked.outer_loops import outer_loops
from hloc.codegen.cpu.emitters.gemm.unpacked.small_gemm import (
    SmallGemm,
    emit_small,
    part_of,
    small_gemm,
)
from hloc.codegen.cpu.emitters.gemm.unpacked.square_gemm_routine import (
    SquareForm,
    shares_vectors,
    square_gemm_routine,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem, is_inner, swapped
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

_GROUP = 16
"""Batches of which parts of threads are multiples: no fewer than the lanes of any vector."""

_VECTOR_BYTES = MOST_BITS // 8
"""Size of the widest vector of a tile."""

_MOST = 7
"""Most rows, columns and steps.

Time relative to vectors along the columns, f32, AVX2, square matrices of 2 to 9: 0.69, 0.40, 0.76,
0.58, 0.74, 0.53, 1.77, 1.17.
"""

_INNER_DEPTHS = range(9, 16)
"""Steps of inner products: more than a vector, less than two.

Relative to loops along the steps, matrices of 9x9, 10x10 and 12x12 by vectors take 0.27 to 0.33; of
8 and less 1.0 to 3.
"""

_MOST_ELEMENTS = 225
"""Most elements of a matrix: tiles are to stay in the first cache."""

_ONCE = Axis(1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class LaneGemm:
    """A gemm of which the last batch axis has many tiny matrices.

    Attributes:
        outer: the other batch axes, slowest first.
        sizes: elements of the matrices of both sides and of the result.
        exchanged: the left-hand side is the right operand.
        by_columns: the same gemm with vectors along the columns, if it has that form.
    """

    outer: tuple[Axis, ...]
    batch: Axis
    row: Axis
    column: Axis
    depth: Axis
    sizes: tuple[int, int, int]
    dtype: DType
    exchanged: bool
    by_columns: SmallGemm | None

    @property
    def is_for_loops(self) -> bool:
        """True if a kernel that runs many times calls the routine, too.

        Otherwise it has loops for the sizes: 0.4 to 1.3 of the time for matrices of 2x2 to 7x7.
        """
        return self.depth.size > _MOST

    def part(self, k: KernelContext) -> tuple[IndexValue, IndexValue]:
        """Return the first of the outermost batches of the thread's part, and their number."""
        if self.outer:
            return k.begin, k.math.sub(k.end, k.begin)
        return part_of(k, self.batch.size, _GROUP)

    @property
    def pieces(self) -> int:
        """Iterations of the outermost loop, which threads may share."""
        return self.outer[0].size if self.outer else self.batch.size // _GROUP

    @property
    def numbers(self) -> tuple[int, ...]:
        """The integer arguments of the routine after the number of batches."""
        batch, row, column, depth = self.batch, self.row, self.column, self.depth
        return (
            *(row.size, column.size, depth.size),
            *self.sizes,
            *(batch.lhs, batch.rhs, batch.out),
            *(row.lhs, depth.lhs, column.rhs, depth.rhs, row.out, column.out),
        )

    def square(self, target: Target) -> SquareForm | None:
        """Return the form for matrices that follow each other and of which vectors hold several."""
        size = self.row.size
        steps = (self.batch.lhs, self.batch.rhs, self.batch.out)
        is_square = size == self.column.size == self.depth.size and steps == self.sizes
        if not is_square or not shares_vectors(self.dtype, size, target):
            return None
        by_rows = self.depth.lhs == 1, self.column.rhs == 1, self.column.out == 1
        return SquareForm(self.dtype, size, *by_rows)

    @property
    def scratch_bytes(self) -> int:
        """Memory for a tile of each matrix."""
        return sum(self.sizes) * _VECTOR_BYTES


def lane_gemm(p: GemmProblem, sources: tuple[DType, DType], result: DType) -> LaneGemm | None:
    """Return `p` with a matrix in each lane, None if its matrices are not tiny and contiguous."""
    if result not in TYPES or sources != (result, result) or not p.batch:
        return None
    if len(p.rows) > 1 or len(p.columns) > 1 or len(p.contracted) != 1:
        return None
    if not (_is_tiny(p) or _has_short_products(p)):
        return None
    exchanged = _row(p).size > _column(p).size  # sums of several columns are side by side
    p = swapped(p) if exchanged else p
    *outer, batch = p.batch
    row, column, (depth,) = _row(p), _column(p), p.contracted
    sides = ((row, depth), (depth, column), (row, column))
    strides = map(attrgetter, ("lhs", "rhs", "out"))
    if not all(_is_dense(axes, stride) for axes, stride in zip(sides, strides, strict=True)):
        return None
    left, right, both = (first.size * second.size for first, second in sides)
    if batch.size < _GROUP or max(left, right, both) > _MOST_ELEMENTS:
        return None
    axes, sizes = (tuple(outer), batch, row, column, depth), (left, right, both)
    return LaneGemm(*axes, sizes, result, exchanged, small_gemm(p, sources, result))


def _is_tiny(p: GemmProblem) -> bool:
    sizes = (_row(p).size, _column(p).size, p.contracted[0].size)
    return max(sizes) <= _MOST and min(sizes[:2]) > 1


def _has_short_products(p: GemmProblem) -> bool:
    return is_inner(p) and p.contracted[0].size in _INNER_DEPTHS


def _row(p: GemmProblem) -> Axis:
    return p.rows[0] if p.rows else _ONCE


def _column(p: GemmProblem) -> Axis:
    return p.columns[0] if p.columns else _ONCE


def _is_dense(axes: Sequence[Axis], stride: Callable[[Axis], int]) -> bool:
    """True if the elements along `axes` are contiguous, in any order."""
    size = 1
    for axis in sorted((axis for axis in axes if axis.size > 1), key=stride):
        if stride(axis) != size:
            return False
        size *= axis.size
    return True


def emit_tiny(k: KernelContext, p: LaneGemm, arrays: Sequence[IrArray], offset: int) -> None:
    """Write the calls of a routine; scratch memory is free from `offset` on.

    Where columns fill vectors of the machine, it computes vectors of them.
    """
    lhs, rhs = reversed(arrays) if p.exchanged else arrays
    if p.by_columns is not None and p.column.size % (k.target.vector_bits // p.dtype.bits) == 0:
        emit_small(k, p.by_columns, lhs, rhs, k.output, shared=True, group=_GROUP)
        return
    batch = p.batch
    first, batches = (0, batch.size) if p.outer else p.part(k)
    square = p.square(k.target)
    routine = (
        square_gemm_routine(square, k.target) if square else lane_gemm_routine(p.dtype, k.target)
    )
    k.use(routine)
    start = tuple(k.math.mul(first, step) for step in (batch.lhs, batch.rhs, batch.out))
    with outer_loops(k, p.outer, start, shared=True) as at:
        places = [
            k.b.address(array.pointer, array.dtype, k.math.value(x))
            for array, x in zip((lhs, rhs, k.output), at, strict=True)
        ]
        if square:
            k.b.call_routine(routine.name, places, k.math.value(batches))
        else:
            scratch = k.b.offset_pointer(k.scratch, offset)
            k.b.call_routine(routine.name, [*places, scratch], batches, *p.numbers)
