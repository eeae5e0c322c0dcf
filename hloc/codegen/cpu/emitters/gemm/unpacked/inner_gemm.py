"""Gemms of few rows with both operands contiguous along k; the longer one is streamed once.

Rows and columns have one stride each; rows that are not contiguous along k are copied first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_choice import MIN_ROWS
from hloc.codegen.cpu.emitters.gemm.unpacked.few_rows import FewRows, sums_floats
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm_routine import (
    LONG_DEPTH,
    copy_routine,
    inner_routines,
    operand_type,
    tile_of,
)
from hloc.codegen.cpu.emitters.gemm.unpacked.outer_loops import outer_loops
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem, swapped
from hloc.dtypes import BF16, F32, S32, DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES

MAX_ROWS, MAX_NARROW_ROWS = 20, 16
"""Most rows for which inner products are faster than packing, and the same for narrow floats.

Time relative to packing: 0.30 for 17x200x1024 of f32, 0.65 for 20x768x384, 1.1 for 24x1000x1024;
1.5 for 17x2048x2048 of bf16 with matrix registers.
"""

MAX_SMALL_ROWS, MAX_SMALL_RESULTS, MIN_SMALL_DEPTH = 32, 3200, 96
"""The same for rows of f32 and f64 contiguous along k if the result has few elements; fewest steps
of k.

Time relative to packing, f32: 0.26 for 100x17x512, 0.59 for 100x31x512, 0.6 for 31x100x1000; 1.1 to
1.4 for 128x31x2048, 500x24x2048 and 48x48x256; 2.6 for 8 of 64x16x17.
"""

MATRIX_ROWS, MATRIX_COLUMNS = 6, 256
"""Fewest rows that are contiguous in the result, and columns, for which packing bf16 for matrix
registers is faster.

Time relative to inner products: 0.5 for 2048x8x128, 0.6 for 500x8x1000; 1.2 to 1.5 for 512x3x100.
"""

FEW_ROWS, FEW_STEPS = 8, 256
"""For more rows, packing is faster if they are contiguous in the result, or k is short.

Time relative to packing, f32: 1.3 for 1024x16x2048, 1.8 for 16x1000x100; 0.6 for 1024x8x2048.
"""

MIN_COPY_COLUMNS, MIN_COPY_DEPTH = 32, 32
"""Fewest columns and steps of k for which copying rows that are not contiguous along k pays."""

SET_BYTES = 2048
"""Rows with a stride that is a multiple of this map to few sets of the L1 cache."""

COLUMN_BLOCK = 64
"""Columns of integers that all parts of the rows multiply before the next ones: they stay in the
second-level cache."""

MIN_DEPTH, MIN_WORK = 16, 1 << 12
"""Smaller gemms get the compact code, not the fast code."""

SHORT_ROWS, MIN_SHORT_DEPTH = 4, 8
"""Most rows for which there may be fewer steps of k, and the fewest.

Time relative to the compact code with 256 bits, f32: 0.34 for 1x10x10000, 0.30 for 3x12x3000; 1.4
for 12x12x1000, 2.3 for a hundred of 8x12x64.
"""


@dataclass(frozen=True, slots=True)
class InnerGemm(FewRows):
    """A gemm of few rows as inner products.

    Attributes:
        copied: rows are copied to be contiguous along k, in the type in which they are multiplied.
    """

    COLUMN_PIECE: ClassVar[int] = 48
    """A multiple of the columns of a tile."""

    copied: bool

    @property
    def row_parts(self) -> tuple[int, ...]:
        """Rows per call of the routine: all, or even parts."""
        rows = self.row.size
        calls = -(-rows // (FEW_ROWS if self.total is S32 else MAX_ROWS))
        return tuple((rows + call) // calls for call in reversed(range(calls)))

    @property
    def copied_row(self) -> int:
        """Row stride of the copy in elements: whole cache lines that map to many cache sets."""
        line = 32 if self.total is S32 else 16
        size = -(-self.depth.size // line) * line
        return size + line if size // line * CACHE_LINE_BYTES % SET_BYTES == 0 else size

    @property
    def scratch_bytes(self) -> int:
        """Bytes for the copy; accumulators are in registers."""
        if not self.copied:
            return 0
        return self.row.size * self.copied_row * operand_type(self.total).storage_bytes


def inner_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType, least_work: int = MIN_WORK
) -> InnerGemm | None:
    """Return `p` as inner products; None if that is not supported, or does not pay.

    Args:
        p: the loops of the gemm.
        sources: element types of both sides.
        result: element type of the result.
        least_work: multiplications of a gemm that pays.
    """
    if not sums_floats(sources, result):
        return None
    if len(p.contracted) != 1 or len(p.rows) > 1 or len(p.columns) > 1:
        return None
    (k,) = p.contracted
    row, column = (axes[0] if axes else Axis(1, 0, 0, 0) for axes in (p.rows, p.columns))
    exchanged = column.size < row.size
    if exchanged:
        p, sources = swapped(p), (sources[1], sources[0])
        row, column = column.swapped(), row.swapped()
        (k,) = p.contracted
    work = row.size * column.size * k.size
    is_narrow = sources[1].bits < F32.bits
    is_small = row.size * column.size <= MAX_SMALL_RESULTS and k.size >= MIN_SMALL_DEPTH
    is_small = is_small and k.lhs == 1 and not is_narrow
    most = MAX_NARROW_ROWS if is_narrow else MAX_SMALL_ROWS if is_small else MAX_ROWS
    min_depth = MIN_SHORT_DEPTH if row.size <= SHORT_ROWS else MIN_DEPTH
    if k.rhs != 1 or k.size < min_depth or row.size > most or work < least_work:
        return None
    copied = k.lhs != 1
    pays_to_copy = column.size >= MIN_COPY_COLUMNS and k.size >= MIN_COPY_DEPTH
    if copied and (row.size > FEW_ROWS or not pays_to_copy):
        return None
    has_matrices = sources == (BF16, BF16) and row.out == 1
    if has_matrices and row.size >= MATRIX_ROWS and column.size >= MATRIX_COLUMNS:
        return None
    if row.size > FEW_ROWS and not is_small:
        is_short = k.size < FEW_STEPS and column.out == 1 and row.size >= MIN_ROWS
        if is_short or (row.out == 1 and column.size >= MIN_COPY_COLUMNS):
            return None
    elif (
        FEW_ROWS >= row.size > FEW_ROWS // 2 and row.lhs * sources[0].storage_bytes % SET_BYTES == 0
    ):
        copied = pays_to_copy
    return InnerGemm(p.batch, row, column, k, exchanged, sources, result, copied)


def emit_inner(
    k: KernelContext,
    p: InnerGemm,
    lhs: IrArray,
    rhs: IrArray,
    out: IrArray,
    scratch_offset: int,
    *,
    whole: bool = False,
    part: tuple[IndexValue, IndexValue] | None = None,
) -> None:
    """Write the calls of the routine; the kernel's extent is that of `p.pieces`, or any if `whole`.

    Threads do not share the outer loops of a whole gemm, nor the columns unless `part` is given:
    the first one and their number.
    """
    if p.exchanged:
        lhs, rhs = rhs, lhs
    first, columns = part or ((0, p.column.size) if whole else p.part_of_columns(k))
    start = (0, k.math.mul(first, p.column.rhs), k.math.mul(first, p.column.out))
    with outer_loops(k, p.outer, start, shared=not whole) as at:
        places = [
            k.b.address(array.pointer, array.dtype, k.math.value(x))
            for array, x in zip((lhs, rhs, out), at, strict=True)
        ]
        if p.copied:
            copy = k.b.offset_pointer(k.scratch, scratch_offset).text
            _copy(k, p, places[0], copy)
            places[0] = copy
        if p.total is not S32 or len(p.row_parts) == 1:
            _multiply(k, p, columns, places)
        else:
            with k.body.loop(0, columns, COLUMN_BLOCK) as block:
                count = k.math.minimum(COLUMN_BLOCK, k.math.sub(columns, block))
                _multiply(k, p, count, [places[0], *_moved(k, p, block, places[1:])])


def _moved(
    k: KernelContext, p: InnerGemm, column: IndexValue, places: Sequence[str]
) -> Iterator[str]:
    """Yield the addresses of a column, on the right-hand side and in the result."""
    steps = p.column.rhs * p.sources[1].storage_bytes, p.column.out * p.result.storage_bytes
    for place, step in zip(places, steps, strict=True):
        yield k.math.moved(place, k.math.mul(column, step))


def _multiply(k: KernelContext, p: InnerGemm, columns: IndexValue, places: Sequence[str]) -> None:
    """Call the routine for all rows; `places` are addresses of the first element of each array."""
    done = 0
    for rows in p.row_parts:
        _call(k, p, rows, done, columns, places)
        done += rows


def _call(
    k: KernelContext,
    p: InnerGemm,
    rows: int,
    first: int,
    columns: IndexValue,
    places: Sequence[str],
) -> None:
    """Call the routine for some rows from row `first` on; `places` are offsets of the first."""
    operand = operand_type(p.total)
    lanes, width = k.target.vector_bits // operand.bits, tile_of(rows, p.total, k.target)[1]
    has_rests = p.column.size % width != 0, p.depth.size % lanes != 0
    sources = (operand, p.sources[1]) if p.copied else p.sources
    is_long, is_short = p.depth.size > LONG_DEPTH, p.depth.size < lanes
    routines = inner_routines(rows, has_rests, sources, p.result, k.target, is_long, is_short)
    k.use(routines)
    size = p.result.storage_bytes
    row = p.copied_row if p.copied else p.row.lhs
    numbers = (
        columns,
        p.depth.size,
        row,
        p.column.rhs,
        p.row.out * size,
        p.column.out * size,
    )
    lhs, rhs, out = places
    if first:
        lhs = k.math.moved(lhs, first * row * sources[0].storage_bytes)
        out = k.math.moved(out, first * p.row.out * size)
    k.b.call_routine(routines.name, (lhs, rhs, out), *numbers)


def _copy(k: KernelContext, p: InnerGemm, rows: str, copy: str) -> None:
    """Copy the rows so that they are contiguous along k."""
    source, operand, done = p.sources[0], operand_type(p.total), 0
    numbers = (p.depth.size, p.row.lhs, p.depth.lhs, p.copied_row)
    for count in p.row_parts:
        routine = copy_routine(count, source, operand, k.target)
        k.use(routine)
        shifts = p.row.lhs * source.storage_bytes, p.copied_row * operand.storage_bytes
        ends = (
            k.math.moved(place, done * shift) if done else place
            for place, shift in zip((rows, copy), shifts, strict=True)
        )
        k.b.call_routine(routine.name, tuple(ends), *numbers)
        done += count
