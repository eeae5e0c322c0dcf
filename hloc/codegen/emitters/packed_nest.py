"""Products through packed panels and micro-kernels: the loops around the routines.

Sizes of tiles and blocks come from `packed_product`. What the routines must know of the operands is
in tables, which every part of the product writes for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from hloc.codegen.emitters.context import KernelContext
from hloc.codegen.emitters.micro_kernel import lanes
from hloc.codegen.emitters.packed_product import (
    ALIGNMENT,
    COLUMN_PIECE,
    PART_PAIRS,
    ROW_PIECE,
    PackedProduct,
    arithmetic_of,
    blocks_of,
    forms_of,
    parts_of,
    tile_of,
)
from hloc.codegen.emitters.product_routine import IN_PLACE, LINES, product_routines
from hloc.codegen.emitters.products import Axis
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.scalar_builder import pointer_value
from hloc.codegen.values import Value


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What is done to sums as soon as they are final.

    Attributes:
        sums: where they lie.
        finish: writes it, given the place of the first element in memory, the elements from a row
            to the next, and how many rows and columns there are.
    """

    sums: IrArray
    finish: Callable[[IndexValue, int, IndexValue, IndexValue], None]


def emit_packed(
    k: KernelContext,
    p: PackedProduct,
    lhs: IrArray,
    rhs: IrArray,
    scratch_offset: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Write the tables and the calls of the routines; the kernel's extent is that of `p.pieces`.

    The product is the kernel's only result, or what `epilogue` works on.
    """
    if p.exchanged:
        lhs, rhs = rhs, lhs
    nest = _Nest(k, p, scratch_offset, epilogue)
    out = epilogue.sums if epilogue else k.output
    nest.fill_tables()
    with ExitStack() as stack:
        at: tuple[IndexValue, ...] = (0, 0, 0)
        for number, axis in enumerate(p.outer):
            is_shared = number == 0 and p.shared == "outer"
            i = stack.enter_context(
                k.body.loop(k.begin, k.end) if is_shared else k.body.loop(0, axis.size)
            )
            steps = (axis.lhs, axis.rhs, axis.out)
            at = tuple(
                k.math.add(x, k.math.mul(i, step)) for x, step in zip(at, steps, strict=True)
            )
        places = [
            k.b.address(array.pointer, array.dtype, k.math.value(x))
            for array, x in zip((lhs, rhs, out), at, strict=True)
        ]
        nest.write(places[0], places[1], places[2], at[2])


class _Nest:
    """Writes the loops around the tiles.

    A block of k of some columns is packed for the second-level cache; against it goes one panel of
    rows after the other, packed for the first-level cache. Sums of every block of k are added to
    the result. Where all of k is packed at once, a panel of rows goes through all blocks of k while
    its part of the result is in the cache.
    """

    def __init__(
        self, k: KernelContext, p: PackedProduct, scratch_offset: int, epilogue: Epilogue | None
    ) -> None:
        self.k, self.p, self.body, self.math = k, p, k.body, k.math
        self.epilogue = epilogue
        self.arithmetic = arithmetic_of(p, k.target)
        tile = tile_of(p, self.arithmetic, k.target)
        self.height = tile.rows
        self.width = tile.vectors * lanes(self.arithmetic, k.target)
        self.forms = forms_of(p, self.arithmetic)
        self.parts = parts_of(p, self.arithmetic)
        self.routines = product_routines(
            self.arithmetic, tile, p.sources, self.forms, k.target, self.parts
        )
        for unit in self.routines.units:
            k.use(unit)
        rows, columns, depth = p.sizes
        starts = (0, rows, rows + columns, rows + columns + depth)
        scratch = _aligned_pointer(k, k.b.offset_pointer(k.scratch, scratch_offset))
        self.tables = [k.b.offset_pointer(scratch, 8 * x) for x in starts]
        offset = _aligned(8 * p.table_entries)
        self.panel = k.b.offset_pointer(scratch, offset).text
        block, self.deep, self.keeps_depth = blocks_of(p, self.arithmetic)
        fitting = max(block // self.width, 1)
        self.block = min(fitting, -(-columns // self.width)) * self.width
        self.bytes = self.arithmetic.operand.storage_bytes
        deepest = -(-self.deep // self.arithmetic.depth_multiple) * self.arithmetic.depth_multiple
        self.panel_bytes = _aligned(deepest * self.height * self.bytes)
        offset += self.parts * self.panel_bytes
        self.panels = k.b.offset_pointer(scratch, offset).text

    def fill_tables(self) -> None:
        """Write the places of rows, columns and steps of k in the operands."""
        p = self.p
        if self.forms[0] != LINES:
            _fill(self.k, self.tables[0], p.rows, [axis.lhs for axis in p.rows])
        if self.forms[1] != LINES:
            _fill(self.k, self.tables[1], p.columns, [axis.rhs for axis in p.columns])
        _fill(self.k, self.tables[2], p.depth, [axis.lhs for axis in p.depth])
        _fill(self.k, self.tables[3], p.depth, [axis.rhs for axis in p.depth])

    def write(self, lhs: str, rhs: str, out: str, out_place: IndexValue) -> None:
        """Blocks of columns, blocks of k, panels of rows; `out` is element `out_place`."""
        body, math, p = self.body, self.math, self.p
        depth = p.sizes[2]
        first_row, last_row = self._part("rows", p.sizes[0], ROW_PIECE)
        first_column, last_column = self._part("columns", p.sizes[1], COLUMN_PIECE)
        size = p.result.storage_bytes
        row_step = max(min((axis.out for axis in p.rows), default=1), 1)
        row_bytes = row_step * size

        def tiles(first: IndexValue, count: IndexValue, step: IndexValue, row: IndexValue) -> None:
            """Multiply some rows by the packed columns from `first` on, over a block of k."""
            steps = math.minimum(self.deep, math.sub(depth, step))
            units = math.div(self._padded(steps), self.arithmetic.depth_multiple)
            tile_rows = math.minimum(self.height, math.sub(last_row, row))
            for part in range(self.parts if self.routines.rows else 0):
                to = self._at(self.panel, part * self.panel_bytes)
                self._pack((0, part), lhs, row, tile_rows, step, steps, to)
            place = math.add(math.mul(row, row_bytes), math.mul(first, size))
            adds = math.compare("NE", step, 0).text
            for left, right in PART_PAIRS[-1:] if self.parts == 1 else PART_PAIRS:
                source = [self._at(self.panel, left * self.panel_bytes)]
                if self.forms[0] in IN_PLACE:
                    rows_at = self._at(self.tables[0].text, math.mul(row, 8))
                    source = [lhs, rows_at, self._at(self.tables[2].text, math.mul(step, 8))]
                self._call(
                    self.routines.tiles,
                    [*source, self._panels_at(step, right), self._at(out, place)],
                    [units, row_bytes, tile_rows, count],
                    f", i1 {adds}",
                )
                adds = "true"
            if self.epilogue:
                is_last = math.compare("GE", math.add(step, self.deep), depth)
                start = math.add(math.add(out_place, math.mul(row, row_step)), first)
                with body.when(is_last):
                    self.epilogue.finish(start, row_step, tile_rows, count)

        with body.loop(first_column, last_column, self.block) as first:
            count = math.minimum(self.block, math.sub(last_column, first))
            if self.keeps_depth:
                with body.loop(0, depth, self.deep) as step:
                    self._pack_columns(rhs, first, count, step)
                with (
                    body.loop(first_row, last_row, self.height) as row,
                    body.loop(0, depth, self.deep) as step,
                ):
                    tiles(first, count, step, row)
                return
            with body.loop(0, depth, self.deep) as step:
                self._pack_columns(rhs, first, count, step)
                with body.loop(first_row, last_row, self.height) as row:
                    tiles(first, count, step, row)

    def _panels_at(self, step: IndexValue, part: int) -> str:
        """Return where the packed columns of the block of k from `step` on are."""
        math, multiple = self.math, self.arithmetic.depth_multiple
        depth = self.p.sizes[2] if self.keeps_depth else self.deep
        start: IndexValue = part * -(-depth // multiple) * multiple
        if self.keeps_depth:
            start = math.add(start, step)
        return self._at(self.panels, math.mul(start, self.block * self.bytes))

    def _part(self, side: str, size: int, piece: int) -> tuple[IndexValue, IndexValue]:
        """Return the rows or columns to compute: this thread's, or all."""
        if self.p.shared != side:
            return 0, size
        math = self.math
        return math.mul(self.k.begin, piece), math.minimum(size, math.mul(self.k.end, piece))

    def _padded(self, steps: IndexValue) -> IndexValue:
        """Return the steps of k that a panel holds: zeros follow the last in matrix registers."""
        math, multiple = self.math, self.arithmetic.depth_multiple
        if not self.arithmetic.is_matrix:
            return steps
        return math.mul(math.div(math.add(steps, multiple - 1), multiple), multiple)

    def _pack_columns(
        self, rhs: str, first: IndexValue, count: IndexValue, step: IndexValue
    ) -> None:
        math = self.math
        steps = math.minimum(self.deep, math.sub(self.p.sizes[2], step))
        for part in range(self.parts):
            panels = self._panels_at(step, part)
            if self.forms[1] == LINES:
                self._pack((1, part), rhs, first, count, step, steps, panels)
                continue
            with self.body.loop(0, count, self.width) as column:
                depth = self._padded(steps)
                to = self._at(panels, math.mul(math.mul(column, depth), self.bytes))
                width = math.minimum(self.width, math.sub(count, column))
                self._pack((1, part), rhs, math.add(first, column), width, step, steps, to)

    def _pack(
        self,
        which: tuple[int, int],
        operand: str,
        first: IndexValue,
        count: IndexValue,
        step: IndexValue,
        steps: IndexValue,
        to: str,
    ) -> None:
        """Pack a part of rows (side 0) or columns (1); `which` is the side and the part."""
        math, (side, part) = self.math, which
        pointers = [self._at(self.tables[2 + side].text, math.mul(step, 8)), to]
        if self.forms[side] == LINES:
            place = math.mul(first, self.p.sources[side].storage_bytes)
            pointers = [self._at(operand, place), *pointers]
        else:
            table = self._at(self.tables[side].text, math.mul(first, 8))
            pointers = [operand, table, *pointers]
        routines = self.routines
        names = (
            (routines.rows, routines.rest_rows),
            (routines.columns, routines.rest_columns),
        )
        self._call(names[side][part], pointers, [count, steps])

    def _call(
        self, name: str, pointers: list[str], numbers: list[IndexValue], rest: str = ""
    ) -> None:
        arguments = [f"ptr {x}" for x in pointers]
        arguments += [f"i64 {self.math.value(x).text}" for x in numbers]
        text = ", ".join(arguments) + rest
        self.k.fn.line(f"call void @{name}({text})")

    def _at(self, pointer: str, offset: IndexValue) -> str:
        if offset == 0:
            return pointer
        offset_text = self.math.value(offset).text
        return self.k.fn.value(f"getelementptr i8, ptr {pointer}, i64 {offset_text}")


def _fill(k: KernelContext, table: Value, axes: Sequence[Axis], steps: Sequence[int]) -> None:
    """Write the places of all positions along some axes."""
    sizes = [axis.size for axis in axes]
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    with k.body.nest(sizes, list(range(len(sizes)))) as at:
        place = k.math.value(k.math.linear(at, steps))
        k.b.store(table, k.math.linear(at, strides), place)


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _aligned_pointer(k: KernelContext, pointer: Value) -> Value:
    """Return the first place from `pointer` on where a cache line begins."""
    fn = k.fn
    address = fn.value(f"ptrtoint ptr {pointer.text} to i64")
    below = fn.value(f"sub i64 0, {address}")
    missing = fn.value(f"and i64 {below}, {ALIGNMENT - 1}")
    return pointer_value(fn.value(f"getelementptr i8, ptr {pointer.text}, i64 {missing}"))
