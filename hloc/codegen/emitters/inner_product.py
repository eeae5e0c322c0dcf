"""Products of few rows along k: both operands lie along k, the longer one streams through once.

Rows and columns are evenly spaced anywhere; rows that do not lie along k are copied first.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from hloc.codegen.emitters.context import KernelContext
from hloc.codegen.emitters.inner_routine import copy_routine, inner_routines, tile_of
from hloc.codegen.emitters.packed_product import MIN_ROWS
from hloc.codegen.emitters.products import Axis, Product, swapped
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.dtypes import BF16, F16, F32, F64, DType

MAX_ROWS, MAX_NARROW_ROWS = 20, 16
"""Rows up to which sums along k are better than packing, and those of narrow floats.

Time over that of packing: 0.30 for 17x200x1024 of f32, 0.65 for 20x768x384, 1.1 for 24x1000x1024;
1.5 for 17x2048x2048 of bf16 with matrix registers.
"""

FEW_ROWS, FEW_STEPS = 8, 256
"""More rows are better packed if they lie side by side in the result, or k is short.

Time over that of packing, f32: 1.3 for 1024x16x2048, 1.8 for 16x1000x100; 0.6 for 1024x8x2048.
"""

MIN_COPY_COLUMNS = 32
"""Columns from which on it pays to copy rows that do not lie along k."""

SET_BYTES = 2048
"""Rows that are a multiple of this apart share few lines of the first-level cache."""

MIN_DEPTH, MIN_WORK = 32, 1 << 12
"""Sizes below which short code matters more than fast code."""

COLUMN_PIECE = 48
"""Columns that threads count by: a multiple of those that stream through together."""

_NARROW = (F32, BF16, F16)


@dataclass(frozen=True, slots=True)
class InnerProduct:
    """A product of few rows along k.

    Attributes:
        row: the axis of the few, of size 1 if there is none.
        depth: that of k.
        copied: rows are copied so that they lie along k, as elements of the type of sums.
    """

    outer: tuple[Axis, ...]
    row: Axis
    column: Axis
    depth: Axis
    exchanged: bool
    copied: bool
    sources: tuple[DType, DType]
    result: DType

    @property
    def total(self) -> DType:
        return F64 if self.result is F64 else F32

    @property
    def copied_row(self) -> int:
        """Elements from a row of the copy to the next: whole lines, which fall into many sets."""
        size = -(-self.depth.size // 16) * 16
        return size + 16 if size * 4 % SET_BYTES == 0 else size

    @property
    def pieces(self) -> int:
        """In how many pieces threads share the product: steps of the outermost loop, or columns."""
        return self.outer[0].size if self.outer else -(-self.column.size // COLUMN_PIECE)

    @property
    def repeated_bytes(self) -> int:
        """The side that every thread reads whole."""
        return self.row.size * self.depth.size * self.sources[0].storage_bytes

    @property
    def scratch_bytes(self) -> int:
        """Room for the copy; sums are in registers."""
        return self.row.size * self.copied_row * self.total.storage_bytes if self.copied else 0


def inner_product(p: Product, sources: tuple[DType, DType], result: DType) -> InnerProduct | None:
    """Return how to multiply along k; None if it cannot be done, or is not worth it."""
    if not (sources == (F64, F64) and result is F64) and not (
        result in _NARROW and all(source in _NARROW for source in sources)
    ):
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
    most = MAX_NARROW_ROWS if sources[1] in (BF16, F16) else MAX_ROWS
    if k.rhs != 1 or k.size < MIN_DEPTH or row.size > most or work < MIN_WORK:
        return None
    copied = k.lhs != 1
    if copied and (row.size > FEW_ROWS or column.size < MIN_COPY_COLUMNS):
        return None
    if row.size > FEW_ROWS:
        is_short = k.size < FEW_STEPS and column.out == 1 and row.size >= MIN_ROWS
        if is_short or (row.out == 1 and column.size >= MIN_COPY_COLUMNS):
            return None
    elif row.size > FEW_ROWS // 2 and row.lhs * sources[0].storage_bytes % SET_BYTES == 0:
        copied = column.size >= MIN_COPY_COLUMNS
    return InnerProduct(p.batch, row, column, k, exchanged, copied, sources, result)


def emit_inner(
    k: KernelContext, p: InnerProduct, lhs: IrArray, rhs: IrArray, scratch_offset: int
) -> None:
    """Write the calls of the routine; the kernel's extent is that of `p.pieces`."""
    if p.exchanged:
        lhs, rhs = rhs, lhs
    lanes = k.target.vector_bits // p.total.bits
    has_rests = p.column.size % tile_of(p.row.size)[1] != 0, p.depth.size % lanes != 0
    sources = (p.total, p.sources[1]) if p.copied else p.sources
    routines = inner_routines(p.row.size, has_rests, sources, p.result, k.target)
    k.use(routines)
    size = p.result.storage_bytes
    first: IndexValue = 0
    columns: IndexValue = p.column.size
    if not p.outer:
        first = k.math.mul(k.begin, COLUMN_PIECE)
        stop = k.math.minimum(p.column.size, k.math.mul(k.end, COLUMN_PIECE))
        columns = k.math.sub(stop, first)
    numbers = (
        k.math.value(columns).text,
        p.depth.size,
        p.copied_row if p.copied else p.row.lhs,
        p.column.rhs,
        p.row.out * size,
        p.column.out * size,
    )
    with ExitStack() as stack:
        at: tuple[IndexValue, ...] = (
            0, k.math.mul(first, p.column.rhs), k.math.mul(first, p.column.out)
        )  # fmt: skip
        for number, axis in enumerate(p.outer):
            part = (0, axis.size) if number else (k.begin, k.end)
            i = stack.enter_context(k.body.loop(*part))
            steps = (axis.lhs, axis.rhs, axis.out)
            at = tuple(
                k.math.add(x, k.math.mul(i, step)) for x, step in zip(at, steps, strict=True)
            )
        places = [
            k.b.address(array.pointer, array.dtype, k.math.value(x))
            for array, x in zip((lhs, rhs, k.output), at, strict=True)
        ]
        if p.copied:
            copy = k.b.offset_pointer(k.scratch, scratch_offset).text
            _copy(k, p, places[0], copy)
            places[0] = copy
        arguments = [f"ptr {x}" for x in places] + [f"i64 {x}" for x in numbers]
        k.fn.line(f"call void @{routines.name}({', '.join(arguments)})")


def _copy(k: KernelContext, p: InnerProduct, rows: str, copy: str) -> None:
    """Copy the rows so that they lie along k."""
    routine = copy_routine(p.row.size, p.sources[0], p.total, k.target)
    k.use(routine)
    numbers = (p.depth.size, p.row.lhs, p.depth.lhs, p.copied_row)
    arguments = [f"ptr {rows}", f"ptr {copy}", *(f"i64 {x}" for x in numbers)]
    k.fn.line(f"call void @{routine.name}({', '.join(arguments)})")
