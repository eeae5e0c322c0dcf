"""Gemms of few rows: the right-hand side is streamed once, several of its rows at a time.

Columns are contiguous and fill whole vectors; a remainder is computed by a last vector that
overlaps its neighbour.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from hloc.codegen.builder.index import IndexMath
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.gemm.unpacked.few_rows import FewRows, sums_floats
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_resident import MAX_BYTES, MAX_SHARE
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming_routine import (
    DEPTH_BLOCK,
    stream_routines,
)
from hloc.codegen.cpu.emitters.gemm.unpacked.outer_loops import outer_loops
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem, swapped
from hloc.codegen.kernels.lanes import has_many_registers
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

MAX_ROWS = 11
"""Most rows for which streaming is faster than packing."""

MIN_COLUMNS, MIN_WORK = 64, 1 << 15

SUM_BYTES, ROW_SUM_BYTES = 1 << 14, 1 << 17
"""Bytes of the sums of a block of columns, of several rows and of one."""

SPLATS = 32
"""Elements of the left-hand side at a time, of which registers keep what fits."""

UNROLLS, LEAST_UNROLL = (16, 8, 6, 4, 3, 2), 4
"""Steps of k per iteration: of those that fit, the first that divides k, else the first.

Steps below `LEAST_UNROLL` are for rows that fill the registers: the 650 steps of 1x650x2600 take
0.81 of the time by 8 and a rest as by 2.
"""

FEW_REGISTERS = {1: 8}
"""Most steps of k by number of rows on machines with 16 registers; of more rows 4.

Rows of the right-hand side are often a multiple of 4096 bytes apart: all lines of an iteration are
in one set of the L1 cache, of which there are 8. Time relative to 16 steps of half a line each:
0.43 for 1x768x3072 of f32, 0.73 for 1x4096x4096, 0.88 for 1x768x3072 of f64, 0.7 for 3x768x3072,
0.8 for 4x768x3072 and 5x768x3072, 0.9 to 1.0 for 8 and 11 rows. Of two rows, relative to 8 steps:
0.45 to 0.83 from the third-level cache, 0.86 to 1.05 from memory.
"""

MAX_BATCHES_BYTES = 1 << 22
"""Most bytes of all right-hand sides: strips of more come from memory, which is slow where they are
narrow.

Time in order over that by strips: 0.50 for 100 of 11x256x256, 0.58 for 400 of 4x256x256, 0.59 for
100 of 1x128x1024, 0.93 for 400 of 1x256x256; 1.1 for 8 of 1x256x256.
"""

COLUMN_MULTIPLE = 16
"""The routine computes a multiple of this, which all vectors divide; a few columns remain."""


@dataclass(frozen=True, slots=True)
class GemvStreaming(FewRows):
    """A product of few rows."""

    COLUMN_PIECE: ClassVar[int] = 256

    @property
    def column_block(self) -> int:
        size = SUM_BYTES if self.row.size > 1 else ROW_SUM_BYTES
        fitting = size // (self.row.size * self.total.storage_bytes)
        return min(fitting // 64 * 64, self.column.size)

    @property
    def is_resident(self) -> bool:
        """True if a right-hand side may be read repeatedly, a strip at a time, on any machine."""
        return self.is_resident_in(0)

    def is_resident_in(self, l2_bytes: int) -> bool:
        """The same on a machine with a second-level cache of this size."""
        size = self.column.size * self.depth.size * self.sources[1].storage_bytes
        batches = prod(axis.size for axis in self.outer if axis.rhs)
        most = max(MAX_BYTES, int(MAX_SHARE * l2_bytes))
        is_cached = size <= most and batches * size <= MAX_BATCHES_BYTES
        return self.depth.size <= DEPTH_BLOCK and is_cached

    @property
    def scratch_bytes(self) -> int:
        """Bytes for sums and totals."""
        if self.is_resident:
            return 0
        return 2 * self.row.size * self.column_block * self.total.storage_bytes


def gemv_streaming(
    p: GemmProblem, sources: tuple[DType, DType], result: DType
) -> GemvStreaming | None:
    """Return `p` as a streaming gemm; None if that is not supported, or does not pay."""
    if not sums_floats(sources, result):
        return None
    exchanged = not any(axis.rhs == 1 and axis.out == 1 for axis in p.columns)
    if exchanged:
        p, sources = swapped(p), (sources[1], sources[0])
    if len(p.columns) != 1 or len(p.rows) > 1 or len(p.contracted) != 1:
        return None
    row = p.rows[0] if p.rows else Axis(1, 0, 0, 0)
    column, depth = p.columns[0], p.contracted[0]
    if column.rhs != 1 or column.out != 1:
        return None
    work = row.size * column.size * depth.size
    if row.size > MAX_ROWS or column.size < MIN_COLUMNS or work < MIN_WORK:
        return None
    return GemvStreaming(p.batch, row, column, depth, exchanged, sources, result)


def unrolls(rows: int, target: Target) -> list[int]:
    """Return the numbers of steps of k per iteration that fit the registers, most first."""
    most = max(SPLATS // rows, 1)
    if not has_many_registers(target):
        most = min(most, FEW_REGISTERS.get(rows, 4))
    return [u for u in UNROLLS if min(most, LEAST_UNROLL) <= u <= most]


def unroll_of(rows: int, depth: int, target: Target) -> int:
    """Return the steps of k per iteration of a gemm."""
    fitting = unrolls(rows, target)
    return next((u for u in fitting if depth % u == 0), fitting[0])


def emit_gemv_streaming(
    k: KernelContext,
    p: GemvStreaming,
    lhs: IrArray,
    rhs: IrArray,
    scratch_offset: int,
    part: tuple[IndexValue, IndexValue] | None = None,
) -> None:
    """Write the calls of the routine.

    Args:
        k: the kernel.
        p: the product.
        lhs: its left-hand side.
        rhs: its right-hand side.
        scratch_offset: begin of the free scratch memory.
        part: the first column and the number of columns of a call; None if the kernel's extent is
            `p.pieces`.
    """
    if p.exchanged:
        lhs, rhs = rhs, lhs
    is_resident = p.is_resident_in(k.target.l2_bytes)
    unroll = 0 if is_resident else unroll_of(p.row.size, p.depth.size, k.target)
    has_rest = unroll > 0 and p.depth.size % unroll != 0
    routines = stream_routines(p.row.size, unroll, has_rest, p.sources, p.result, k.target)
    k.use(routines)
    sums = "null" if is_resident else k.b.offset_pointer(k.scratch, scratch_offset).text
    first, columns = part or p.part_of_columns(k)
    whole = k.math.mul(k.math.div(columns, COLUMN_MULTIPLE), COLUMN_MULTIPLE)
    numbers = (
        p.depth.size,
        _even_block(k.math, whole, p.column_block),
        p.row.lhs,
        p.depth.lhs,
        p.depth.rhs,
        p.row.out * p.result.storage_bytes,
    )
    with outer_loops(k, p.outer, (0, first, first), shared=part is None) as at:

        def call(count: IndexValue, shift: IndexValue) -> None:
            where = (at[0], k.math.add(at[1], shift), k.math.add(at[2], shift))
            places = [
                k.b.address(array.pointer, array.dtype, k.math.value(x))
                for array, x in zip((lhs, rhs, k.output), where, strict=True)
            ]
            k.b.call_routine(routines.name, (*places, sums), count, *numbers)

        call(whole, 0)
        if p.column.size % COLUMN_MULTIPLE:
            # The last vector overlaps finished columns, for which it computes the same sums.
            with k.body.when(k.math.compare("NE", whole, columns)):
                call(COLUMN_MULTIPLE, k.math.sub(columns, COLUMN_MULTIPLE))


def _even_block(math: IndexMath, columns: IndexValue, most: int) -> IndexValue:
    """Return the columns of a block, at most `most`, that divide all nearly evenly.

    A last block of few columns would read short pieces of memory far apart.
    """
    blocks = math.maximum(math.ceiling_div(columns, most), 1)
    multiples = math.ceiling_div(math.ceiling_div(columns, blocks), COLUMN_MULTIPLE)
    return math.mul(math.maximum(multiples, 1), COLUMN_MULTIPLE)
