"""Products through packed panels and micro-kernels: which ones, in what tiles, and the call.

The columns of the result lie side by side in memory; its rows are evenly spaced. Axes that do not
fit into these two become loops around the routine. All else about the operands is in tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from hloc.codegen.emitters.context import KernelContext
from hloc.codegen.emitters.micro_kernel import Arithmetic, Tile, lanes
from hloc.codegen.emitters.packing import RUN
from hloc.codegen.emitters.product_routine import (
    ANY,
    DIRECT,
    LINES,
    PIECES,
    RUNS,
    product_routines,
)
from hloc.codegen.emitters.products import Axis, Product, swapped
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.scalar_builder import pointer_value
from hloc.codegen.target import Target
from hloc.codegen.values import Value
from hloc.dtypes import BF16, F16, F32, F64, S8, S32, U8, DType

MIN_ROWS, MIN_COLUMNS, MIN_DEPTH, MIN_WORK = 12, 12, 8, 1 << 15
"""Sizes below which packing does not pay."""

MIN_LINES = 96
"""Rows that lie side by side from which on they are packed by themselves."""

DIRECT_COLUMNS, DIRECT_RUN_COLUMNS = 128, 4096
"""Columns up to which rows are read where they are: of any rows, and of rows along k."""

DEPTH_BLOCK = 384
"""Steps of k that are packed at a time; fewer than would make long sums of f32 inaccurate."""

COLUMN_BLOCK = 1024
"""Columns that are packed at a time."""

PANEL_BYTES = 4 << 20
"""Size of packed columns if all of k is packed at a time."""

MAX_TILE, MAX_ROWS = 64, 24
"""No tile has more columns, and no more rows."""

_WIDE_TILES: tuple[Tile, ...] = (
    Tile(12, 2),
    Tile(14, 2),
    Tile(6, 4),
    Tile(8, 3),
    Tile(8, 2),
    Tile(24, 1),
)
_NARROW_TILES: tuple[Tile, ...] = (Tile(6, 2), Tile(4, 2), Tile(12, 1))
_WIDE_DIRECT_TILES: tuple[Tile, ...] = (Tile(6, 4), Tile(8, 3), Tile(8, 2), Tile(10, 1))
_NARROW_DIRECT_TILES: tuple[Tile, ...] = (Tile(6, 2), Tile(4, 2), Tile(8, 1))
_ALIGNMENT = 64
_NARROW_FLOATS = (BF16, F16)


@dataclass(frozen=True, slots=True)
class PackedProduct:
    """A product as the routine takes it.

    Attributes:
        outer: loops around the routine, slowest first.
        rows, columns, depth: axes of the two sides and of k, slowest first.
    """

    outer: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    exchanged: bool
    sources: tuple[DType, DType]
    result: DType

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        m, n, k = (
            prod(axis.size for axis in axes) for axes in (self.rows, self.columns, self.depth)
        )
        return m, n, k

    @property
    def blocks(self) -> tuple[int, int]:
        """Columns and steps of k that are packed at a time; narrow results are written once."""
        depth = self.sizes[2]
        if self.result in _NARROW_FLOATS:
            fitting = max(PANEL_BYTES // (4 * depth) // MAX_TILE, 1) * MAX_TILE
            return min(fitting, COLUMN_BLOCK), depth
        count = -(-depth // DEPTH_BLOCK)
        even = -(-depth // count)
        return COLUMN_BLOCK, -(-even // 16) * 16

    @property
    def table_entries(self) -> int:
        rows, columns, depth = self.sizes
        return rows + columns + 2 * depth

    @property
    def scratch_bytes(self) -> int:
        """Room for the tables, a panel of rows and the packed columns."""
        _, columns, _ = self.sizes
        block, depth = self.blocks
        packed = min(block, columns)
        widest = max(-(-packed // width) * width for width in range(1, MAX_TILE + 1))
        elements = (MAX_ROWS + widest) * depth
        size = 8 if self.result is F64 else 4
        return 3 * _ALIGNMENT + 8 * self.table_entries + elements * size


def packed_product(p: Product, sources: tuple[DType, DType], result: DType) -> PackedProduct | None:
    """Return how the routine computes `p`; None if it cannot, or is not worth it."""
    if _total(sources, result) is None:
        return None
    exchanged = not any(axis.out == 1 for axis in p.columns)
    if exchanged:
        p = swapped(p)
        sources = (sources[1], sources[0])
    columns, other_columns = _chain(p.columns, 1)
    if not columns:
        return None
    rows, other_rows = _chain(p.rows, min((axis.out for axis in p.rows), default=1))
    if len(rows) > 1 and rows[-1].lhs == 1 and rows[-1].size >= MIN_LINES:
        rows, other_rows = rows[-1:], (*rows[:-1], *other_rows)
    outer = (*p.batch, *other_columns, *other_rows)
    found = PackedProduct(outer, rows, columns, p.contracted, exchanged, sources, result)
    m, n, k = found.sizes
    is_worth = m >= MIN_ROWS and n >= MIN_COLUMNS and k >= MIN_DEPTH and m * n * k >= MIN_WORK
    return found if is_worth else None


def _total(sources: tuple[DType, DType], result: DType) -> DType | None:
    """Return the type of the sums, None if there is no micro-kernel for it."""
    floats = (F32, BF16, F16)
    if result in floats and all(source in floats for source in sources):
        return F32
    if result is F64 and sources == (F64, F64):
        return F64
    if result is S32 and all(source in (S8, U8, S32) for source in sources):
        return S32
    return None


def _chain(axes: Sequence[Axis], step: int) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Return the axes that together are evenly spaced in the result by `step`, and the others."""
    chain: list[Axis] = []
    for axis in sorted(axes, key=lambda axis: axis.out):
        if axis.out == step:
            chain.insert(0, axis)
            step *= axis.size
    return tuple(chain), tuple(axis for axis in axes if axis not in chain)


def arithmetic_of(p: PackedProduct, target: Target) -> Arithmetic:
    """Return the best way to multiply that the machine has."""
    total = _total(p.sources, p.result)
    assert total is not None
    depth = p.sizes[2]
    wide = target.vector_bits == 512
    if wide and p.sources == (BF16, BF16) and depth % 2 == 0 and target.has("avx512bf16"):
        return Arithmetic(f"bf16_{p.result.name}", F32, BF16, p.result, 2)
    if wide and p.sources == (S8, S8) and depth % 4 == 0 and target.has("avx512vnni"):
        return Arithmetic("s8", S32, S8, S32, 4)
    return Arithmetic(f"{total.name}_{p.result.name}", total, total, p.result)


def tile_of(p: PackedProduct, arithmetic: Arithmetic, target: Target) -> Tile:
    """Return the tile that wastes least at the edges."""
    rows, columns, _ = p.sizes
    width = lanes(arithmetic, target)
    has_32_registers = target.vector_bits == 512 or target.triple.startswith("aarch64")
    wide_tiles, narrow_tiles = (
        (_WIDE_DIRECT_TILES, _NARROW_DIRECT_TILES)
        if is_direct(p, arithmetic)
        else (_WIDE_TILES, _NARROW_TILES)
    )
    tiles = wide_tiles if has_32_registers else narrow_tiles

    def cost(tile: Tile) -> float:
        wide = tile.vectors * width
        padded = -(-rows // tile.rows) * tile.rows * -(-columns // wide) * wide
        loads = tile.vectors + tile.rows
        return padded * (1 + 0.2 * loads / (tile.rows * tile.vectors))

    return min(tiles, key=cost)


def is_direct(p: PackedProduct, arithmetic: Arithmetic) -> bool:
    """True if rows are better read where they are than packed."""
    most = DIRECT_RUN_COLUMNS if p.depth[-1].lhs == 1 else DIRECT_COLUMNS
    return p.sizes[1] <= most and p.sources[0] is arithmetic.operand is arithmetic.total


def forms_of(p: PackedProduct, arithmetic: Arithmetic) -> tuple[str, str]:
    """Return how the rows and the columns lie in memory."""
    inner, group = p.depth[-1], arithmetic.group

    def form(axes: Sequence[Axis], steps: list[int], inner_step: int) -> str:
        if steps == [1]:
            return LINES
        if group == 1 and steps and steps[-1] == 1 and axes[-1].size >= RUN:
            return PIECES
        return RUNS if inner_step == 1 and inner.size >= RUN * group else ANY

    left = form(p.rows, [axis.lhs for axis in p.rows], inner.lhs)
    if left != LINES and is_direct(p, arithmetic):
        left = DIRECT
    return left, form(p.columns, [axis.rhs for axis in p.columns], inner.rhs)


def emit_packed(
    k: KernelContext, p: PackedProduct, lhs: IrArray, rhs: IrArray, scratch_offset: int
) -> None:
    """Write the tables and the calls of the routines."""
    if p.exchanged:
        lhs, rhs = rhs, lhs
    nest = _Nest(k, p, scratch_offset)
    nest.fill_tables()
    with ExitStack() as stack:
        at: tuple[IndexValue, ...] = (0, 0, 0)
        for axis in p.outer:
            i = stack.enter_context(k.body.loop(0, axis.size))
            steps = (axis.lhs, axis.rhs, axis.out)
            at = tuple(
                k.math.add(x, k.math.mul(i, step)) for x, step in zip(at, steps, strict=True)
            )
        places = [
            k.b.address(array.pointer, array.dtype, k.math.value(x))
            for array, x in zip((lhs, rhs, k.output), at, strict=True)
        ]
        nest.write(places[0], places[1], places[2])


class _Nest:
    """Writes the loops around the tiles.

    A block of k of some columns is packed for the second-level cache; against it goes one panel of
    rows after the other, packed for the first-level cache. Sums of every block of k are added to
    the result.
    """

    def __init__(self, k: KernelContext, p: PackedProduct, scratch_offset: int) -> None:
        self.k, self.p, self.body, self.math = k, p, k.body, k.math
        self.arithmetic = arithmetic_of(p, k.target)
        tile = tile_of(p, self.arithmetic, k.target)
        self.height = tile.rows
        self.width = tile.vectors * lanes(self.arithmetic, k.target)
        self.forms = forms_of(p, self.arithmetic)
        self.routines = product_routines(self.arithmetic, tile, p.sources, self.forms, k.target)
        k.use(self.routines)
        rows, columns, depth = p.sizes
        starts = (0, rows, rows + columns, rows + columns + depth)
        scratch = _aligned_pointer(k, k.b.offset_pointer(k.scratch, scratch_offset))
        self.tables = [k.b.offset_pointer(scratch, 8 * x) for x in starts]
        offset = _aligned(8 * p.table_entries)
        self.panel = k.b.offset_pointer(scratch, offset).text
        block, self.deep = p.blocks
        self.block = max(block // self.width, 1) * self.width
        self.bytes = self.arithmetic.operand.storage_bytes
        offset += _aligned(self.deep * self.height * self.bytes)
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

    def write(self, lhs: str, rhs: str, out: str) -> None:
        """Blocks of columns, blocks of k, panels of rows."""
        body, math, p = self.body, self.math, self.p
        rows, columns, depth = p.sizes
        size = p.result.storage_bytes
        row_bytes = max(min((axis.out for axis in p.rows), default=1), 1) * size
        with body.loop(0, columns, self.block) as first, body.loop(0, depth, self.deep) as step:
            count = math.minimum(self.block, math.sub(columns, first))
            steps = math.minimum(self.deep, math.sub(depth, step))
            self._pack_columns(rhs, first, count, step, steps)
            adds = math.compare("NE", step, 0).text
            units = math.div(steps, self.arithmetic.group)
            with body.loop(0, rows, self.height) as row:
                tile_rows = math.minimum(self.height, math.sub(rows, row))
                if self.forms[0] == DIRECT:
                    rows_at = self._at(self.tables[0].text, math.mul(row, 8))
                    source = [lhs, rows_at, self._at(self.tables[2].text, math.mul(step, 8))]
                else:
                    self._pack(0, lhs, row, tile_rows, step, steps, self.panel)
                    source = [self.panel]
                place = math.add(math.mul(row, row_bytes), math.mul(first, size))
                self._call(
                    "tiles",
                    [*source, self.panels, self._at(out, place)],
                    [units, row_bytes, tile_rows, count],
                    f", i1 {adds}",
                )

    def _pack_columns(
        self, rhs: str, first: IndexValue, count: IndexValue, step: IndexValue, steps: IndexValue
    ) -> None:
        math = self.math
        if self.forms[1] == LINES:
            self._pack(1, rhs, first, count, step, steps, self.panels)
            return
        with self.body.loop(0, count, self.width) as column:
            to = self._at(self.panels, math.mul(math.mul(column, steps), self.bytes))
            width = math.minimum(self.width, math.sub(count, column))
            self._pack(1, rhs, math.add(first, column), width, step, steps, to)

    def _pack(
        self,
        side: int,
        operand: str,
        first: IndexValue,
        count: IndexValue,
        step: IndexValue,
        steps: IndexValue,
        to: str,
    ) -> None:
        """Pack rows (side 0) or columns (1)."""
        math = self.math
        pointers = [self._at(self.tables[2 + side].text, math.mul(step, 8)), to]
        if self.forms[side] == LINES:
            place = math.mul(first, self.p.sources[side].storage_bytes)
            pointers = [self._at(operand, place), *pointers]
        else:
            table = self._at(self.tables[side].text, math.mul(first, 8))
            pointers = [operand, table, *pointers]
        self._call(("rows", "columns")[side], pointers, [count, steps])

    def _call(
        self, name: str, pointers: list[str], numbers: list[IndexValue], rest: str = ""
    ) -> None:
        arguments = [f"ptr {x}" for x in pointers]
        arguments += [f"i64 {self.math.value(x).text}" for x in numbers]
        text = ", ".join(arguments) + rest
        self.k.fn.line(f"call void @{self.routines.name}_{name}({text})")

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
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _aligned_pointer(k: KernelContext, pointer: Value) -> Value:
    """Return the first place from `pointer` on where a cache line begins."""
    fn = k.fn
    address = fn.value(f"ptrtoint ptr {pointer.text} to i64")
    below = fn.value(f"sub i64 0, {address}")
    missing = fn.value(f"and i64 {below}, {_ALIGNMENT - 1}")
    return pointer_value(fn.value(f"getelementptr i8, ptr {pointer.text}, i64 {missing}"))
