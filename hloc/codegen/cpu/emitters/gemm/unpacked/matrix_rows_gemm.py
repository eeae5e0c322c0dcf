"""Gemms of few columns in matrix registers: the choice of these, and loops around `matrix_rows`.

The columns are packed once for all of k, by the routines of `packed_gemm`; rows are read in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.gemm.micro_kernels.matrix_kernel import ROW_BYTES
from hloc.codegen.cpu.emitters.gemm.micro_kernels.matrix_rows import row_tiles
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import lanes
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import LINES, matrix_columns
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of, forms_of, tile_of
from hloc.codegen.cpu.emitters.gemm.packed.offset_table import table_routine
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import (
    PackedGemm,
    stays_in_rows,
)
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import number_table
from hloc.codegen.cpu.emitters.gemm.unpacked.outer_loops import outer_loops
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.codegen.llvm.target import Target
from hloc.memory.heap import CACHE_LINE_BYTES, aligned_bytes

MIN_DEPTH_BYTES = 2 * ROW_BYTES
"""Smallest size of a row for which this pays.

Time relative to packed rows: 1.2 for 2048x5x16 of bf16, 1.3 for 12 of 31x8x500.
"""


def reads_rows(p: PackedGemm, target: Target) -> bool:
    """True if matrix registers read the rows of `p` in place; there is at least one whole tile."""
    arithmetic = arithmetic_of(p, target)
    if not stays_in_rows(p) or not arithmetic.is_matrix:
        return False
    rows, _, depth = p.sizes
    is_deep = depth * p.sources[0].storage_bytes >= MIN_DEPTH_BYTES
    return is_deep and rows >= tile_of(p, arithmetic, target).rows


def emit_rows(
    k: KernelContext, p: PackedGemm, lhs: IrArray, rhs: IrArray, scratch_offset: int
) -> None:
    """Write the tables and the calls of the routines; the kernel's extent is that of `p.pieces`."""
    if p.exchanged:
        lhs, rhs = rhs, lhs
    rows = _Rows(k, p, scratch_offset)
    rows.fill_tables()
    with outer_loops(k, p.outer, (0, 0, 0), shared=p.shared == "outer") as at:
        lhs_at, rhs_at, out_at = (
            k.b.address(array.pointer, array.dtype, k.math.value(x))
            for array, x in zip((lhs, rhs, k.output), at, strict=True)
        )
        rows.write(lhs_at, rhs_at, out_at)


class _Rows:
    """Writes one product."""

    def __init__(self, k: KernelContext, p: PackedGemm, scratch_offset: int) -> None:
        """Request the routines, and divide the scratch memory.

        In this order: offsets of the columns, offsets of the steps of k, the last rows if they do
        not fill a tile, and the packed panels.
        """
        self.k, self.p, self.math = k, p, k.math
        self.arithmetic = arithmetic_of(p, k.target)
        self.tile = tile_of(p, self.arithmetic, k.target)
        self.form = forms_of(p, self.arithmetic, k.target)[1]
        self.width = self.tile.vectors * lanes(self.arithmetic, k.target)
        self.columns = matrix_columns(self.arithmetic, self.tile, p.sources[1], self.form, k.target)
        self.tiles = row_tiles(self.arithmetic, self.tile, k.target)
        self.table = table_routine(k.target)
        for unit in (self.columns, self.tiles, self.table):
            k.use(unit)
        _, columns, depth = p.sizes
        self.steps = -(-depth // self.arithmetic.depth_multiple)
        scratch = k.b.offset_pointer(k.scratch, scratch_offset)
        scratch = pointer_value(k.math.aligned(scratch.text, CACHE_LINE_BYTES))
        places = [0, 8 * columns, aligned_bytes(8 * (columns + depth))]
        places.append(places[-1] + self.steps * self.tile.rows * ROW_BYTES)
        pointers = [k.b.offset_pointer(scratch, place) for place in places]
        self.columns_at, self.steps_at, self.edge, self.panels = pointers

    def fill_tables(self) -> None:
        """Write the tables of offsets of columns and steps of k in the right-hand side."""
        if self.form != LINES:
            self._fill(self.columns_at, self.p.columns)
        self._fill(self.steps_at, self.p.depth)

    def _fill(self, table: Value, axes: Sequence[Axis]) -> None:
        """Write the offsets of all positions along some axes."""
        numbers = [x for axis in reversed(axes) for x in (axis.size, axis.rhs)]
        pairs = number_table(self.k, numbers)
        self.k.b.call_routine(self.table.name, (table, pairs), len(axes))

    def write(self, lhs: str, rhs: str, out: str) -> None:
        """Pack the columns, then multiply some rows at a time."""
        p, math, k = self.p, self.math, self.k
        size = p.result.storage_bytes
        first_column, last_column = self._part("columns", p.sizes[1], p.column_piece)
        first_row, last_row = self._part("rows", p.sizes[0], p.row_piece)
        count = math.sub(last_column, first_column)
        self._pack(rhs, first_column, count)
        row = p.rows[0]
        left, depth_bytes = p.sources[0].storage_bytes, p.sizes[2] * p.sources[0].storage_bytes
        with k.body.loop(first_row, last_row, self.tile.rows) as first:
            here = math.minimum(self.tile.rows, math.sub(last_row, first))
            place = math.add(math.mul(first, row.out * size), math.mul(first_column, size))
            rows_at = self.math.moved(lhs, math.mul(first, row.lhs * left))
            pointers = (rows_at, self.edge, self.panels, self.math.moved(out, place))
            numbers = (self.steps, row.out * size, here, count)
            rest = (depth_bytes, row.lhs * left)
            k.b.call_routine(self.tiles.name, pointers, *numbers, "i1 false", *rest)

    def _pack(self, rhs: str, first: IndexValue, count: IndexValue) -> None:
        """Pack some columns."""
        math, k, p = self.math, self.k, self.p
        depth, pack = p.sizes[2], k.b.call_routine
        if self.form == LINES:
            place = self.math.moved(rhs, math.mul(first, p.sources[1].storage_bytes))
            pack(self.columns.name, (place, self.steps_at, self.panels), count, depth)
            return
        with k.body.loop(0, count, self.width) as column:
            to = self.math.moved(self.panels.text, math.mul(column, self.steps * ROW_BYTES))
            table = self.math.moved(self.columns_at.text, math.mul(math.add(first, column), 8))
            width = math.minimum(self.width, math.sub(count, column))
            pack(self.columns.name, (rhs, table, self.steps_at, to), width, depth)

    def _part(self, side: str, size: int, piece: int) -> tuple[IndexValue, IndexValue]:
        """Return the rows or columns to compute: this thread's, or all."""
        if self.p.shared != side:
            return 0, size
        math = self.math
        return math.mul(self.k.begin, piece), math.minimum(size, math.mul(self.k.end, piece))
