"""Products of few rows: the right-hand side streams through once, some of its rows at a time.

    stream(lhs, rhs, out, sums, columns, depth, column_block, lhs_row, lhs_step, rhs_step,
           out_row_bytes)

Sums of a block of columns stay in the cache; they go to totals every `DEPTH_BLOCK` steps of k, so
that long sums stay accurate. Columns lie side by side and fill whole vectors; what is left over is
made together with its neighbours once more.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache

from hloc.codegen.emitters.context import KernelContext
from hloc.codegen.emitters.products import Axis, Product, swapped
from hloc.codegen.emitters.resident_product import MAX_BYTES, write_resident
from hloc.codegen.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.emitters.vector_loads import load_as, store_as
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.routine import Routines
from hloc.codegen.scalar_builder import pointer_value
from hloc.codegen.target import Target
from hloc.codegen.values import REPRESENTATIONS
from hloc.dtypes import BF16, F16, F32, F64, DType

MAX_ROWS = 11
"""Rows up to which streaming is better than packing."""

MIN_COLUMNS, MIN_WORK = 64, 1 << 15

DEPTH_BLOCK = 1024
"""Steps of k whose products are summed before they go to the totals."""

SUM_BYTES, ROW_SUM_BYTES = 1 << 14, 1 << 17
"""Size of the sums of a block of columns, of many rows and of one."""

SPLATS = 32
"""Elements of the left-hand side that are kept in registers."""

UNROLLS = (16, 8, 6, 4, 3, 2)
"""Steps of k that are taken at a time, if they divide k; the first that fits, if none does."""

COLUMN_PIECE = 256
"""Columns that threads count by."""

COLUMN_MULTIPLE = 16
"""The routine takes multiples of this, which every vector divides; others leave a few columns."""

_TYPES = ("ptr",) * 4 + ("i64",) * 7
_PARAMETERS = (
    "ptr noalias readonly %lhs",
    "ptr noalias readonly %rhs",
    "ptr noalias %out",
    "ptr noalias %sums",
    "i64 %columns",
    "i64 %depth",
    "i64 %column_block",
    "i64 %lhs_row",
    "i64 %lhs_step",
    "i64 %rhs_step",
    "i64 %out_row_bytes",
)


@dataclass(frozen=True, slots=True)
class SkinnyProduct:
    """A product of few rows.

    Attributes:
        row: the axis of rows, of size 1 if there is none.
        unroll: rows of the right-hand side that are read at a time.
    """

    outer: tuple[Axis, ...]
    row: Axis
    column: Axis
    depth: Axis
    unroll: int
    exchanged: bool
    sources: tuple[DType, DType]
    result: DType

    @property
    def total(self) -> DType:
        return F64 if self.result is F64 else F32

    @property
    def column_block(self) -> int:
        size = SUM_BYTES if self.row.size > 1 else ROW_SUM_BYTES
        fitting = size // (self.row.size * self.total.storage_bytes)
        return min(fitting // 64 * 64, self.column.size)

    @property
    def pieces(self) -> int:
        """In how many pieces threads share the product: steps of the outermost loop, or columns."""
        return self.outer[0].size if self.outer else -(-self.column.size // COLUMN_PIECE)

    @property
    def repeated_bytes(self) -> int:
        """The side that every thread reads whole."""
        return self.row.size * self.depth.size * self.sources[0].storage_bytes

    @property
    def is_resident(self) -> bool:
        """True if the right-hand side is small enough to be read again and again."""
        size = self.column.size * self.depth.size * self.sources[1].storage_bytes
        return self.depth.size <= DEPTH_BLOCK and size <= MAX_BYTES

    @property
    def scratch_bytes(self) -> int:
        """Room for sums and totals."""
        if self.is_resident:
            return 0
        return 2 * self.row.size * self.column_block * self.total.storage_bytes


def skinny_product(p: Product, sources: tuple[DType, DType], result: DType) -> SkinnyProduct | None:
    """Return how to stream through `p`; None if it cannot be done, or is not worth it."""
    narrow = (F32, BF16, F16)
    if not (sources == (F64, F64) and result is F64) and not (
        result in narrow and all(source in narrow for source in sources)
    ):
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
    most = max(SPLATS // row.size, 1)
    fitting = [u for u in UNROLLS if u <= most]
    unroll = next((u for u in fitting if depth.size % u == 0), fitting[0])
    return SkinnyProduct(p.batch, row, column, depth, unroll, exchanged, sources, result)


def emit_skinny(
    k: KernelContext, p: SkinnyProduct, lhs: IrArray, rhs: IrArray, scratch_offset: int
) -> None:
    """Write the calls of the routine; the kernel's extent is that of `p.pieces`."""
    if p.exchanged:
        lhs, rhs = rhs, lhs
    unroll = 0 if p.is_resident else p.unroll
    has_rest = p.depth.size % p.unroll != 0
    routines = stream_routines(p.row.size, unroll, has_rest, p.sources, p.result, k.target)
    k.use(routines)
    sums = "null" if p.is_resident else k.b.offset_pointer(k.scratch, scratch_offset).text
    first: IndexValue = 0
    columns: IndexValue = p.column.size
    if not p.outer:
        first = k.math.mul(k.begin, COLUMN_PIECE)
        stop = k.math.minimum(p.column.size, k.math.mul(k.end, COLUMN_PIECE))
        columns = k.math.sub(stop, first)
    whole = k.math.mul(k.math.div(columns, COLUMN_MULTIPLE), COLUMN_MULTIPLE)
    numbers = (
        p.depth.size,
        p.column_block,
        p.row.lhs,
        p.depth.lhs,
        p.depth.rhs,
        p.row.out * p.result.storage_bytes,
    )
    with ExitStack() as stack:
        at: tuple[IndexValue, ...] = (0, first, first)
        for number, axis in enumerate(p.outer):
            part = (0, axis.size) if number else (k.begin, k.end)
            i = stack.enter_context(k.body.loop(*part))
            steps = (axis.lhs, axis.rhs, axis.out)
            at = tuple(
                k.math.add(x, k.math.mul(i, step)) for x, step in zip(at, steps, strict=True)
            )

        def call(count: IndexValue, shift: IndexValue) -> None:
            where = (at[0], k.math.add(at[1], shift), k.math.add(at[2], shift))
            places = [
                k.b.address(array.pointer, array.dtype, k.math.value(x))
                for array, x in zip((lhs, rhs, k.output), where, strict=True)
            ]
            arguments = [f"ptr {x}" for x in (*places, sums)]
            arguments += [f"i64 {x}" for x in (k.math.value(count).text, *numbers)]
            k.fn.line(f"call void @{routines.name}({', '.join(arguments)})")

        call(whole, 0)
        if p.column.size % COLUMN_MULTIPLE:
            # The last vector of columns reaches back to some that are done, with the same sums.
            with k.body.when(k.math.compare("NE", whole, columns)):
                call(COLUMN_MULTIPLE, k.math.sub(columns, COLUMN_MULTIPLE))


@cache
def stream_routines(
    rows: int,
    unroll: int,
    has_rest: bool,
    sources: tuple[DType, DType],
    result: DType,
    target: Target,
) -> Routines:
    """Return the function for some number of rows.

    Args:
        rows: of the left-hand side.
        unroll: steps of k that are taken at a time; 0 if sums stay in registers.
        has_rest: true if `unroll` does not divide k.
        sources: element types of the operands.
        result: that of the result.
        target: the machine.
    """
    types = "_".join(dtype.name for dtype in (*sources, result))
    rest = "_rest" if unroll and has_rest else ""
    name = f"stream_{types}_{rows}x{unroll}{rest}"
    w = RoutineWriter(name, _PARAMETERS, target)
    if unroll:
        _Stream(w, rows, unroll, sources, result, target).write(has_rest)
    else:
        write_resident(w, rows, sources, result, target)
    text = "\n".join([*w.fn.declarations, "", w.text()])
    return Routines(name, (f"declare void @{name}({', '.join(_TYPES)})",), text)


class _Stream:
    """Writes one routine."""

    def __init__(
        self,
        w: RoutineWriter,
        rows: int,
        unroll: int,
        sources: tuple[DType, DType],
        result: DType,
        target: Target,
    ) -> None:
        self.w, self.fn, self.b, self.body, self.math = w, w.fn, w.b, w.body, w.math
        self.rows, self.unroll, self.sources, self.result = rows, unroll, sources, result
        self.total = F64 if result is F64 else F32
        self.lanes = target.vector_bits // self.total.bits
        self.vector = f"<{self.lanes} x {REPRESENTATIONS[self.total].memory}>"

    def write(self, has_rest: bool) -> None:
        """Blocks of columns, blocks of k."""
        body, math = self.body, self.math
        columns, depth = argument("%columns"), argument("%depth")
        block = argument("%column_block")
        with body.loop(0, columns, block) as first:
            count = math.minimum(block, math.sub(columns, first))
            cells = math.mul(count, self.rows)
            with body.loop(0, cells, self.lanes) as cell:
                self._store(math.add(cells, cell), "zeroinitializer")
            with body.loop(0, depth, self._depth_block()) as start:
                stop = math.minimum(depth, math.add(start, self._depth_block()))
                with body.loop(0, cells, self.lanes) as cell:
                    self._store(cell, "zeroinitializer")
                left = math.rem(math.sub(stop, start), self.unroll) if has_rest else 0
                whole = math.sub(stop, left)
                with body.loop(start, whole, self.unroll) as step:
                    self._steps(step, first, count, self.unroll)
                if has_rest:
                    with body.loop(whole, stop) as step:
                        self._steps(step, first, count, 1)
                with body.loop(0, cells, self.lanes) as cell:
                    total = math.add(cells, cell)
                    x, y = self._load(total), self._load(cell)
                    self._store(total, self.fn.value(f"fadd {self.vector} {x}, {y}"))
            self._finish(first, count, cells)

    def _depth_block(self) -> int:
        return DEPTH_BLOCK // self.unroll * self.unroll

    def _load(self, cell: IndexValue) -> str:
        at = self.b.address(pointer_value("%sums"), self.total, self.math.value(cell))
        return self.fn.value(f"load {self.vector}, ptr {at}, align 4")

    def _store(self, cell: IndexValue, value: str) -> None:
        at = self.b.address(pointer_value("%sums"), self.total, self.math.value(cell))
        self.fn.line(f"store {self.vector} {value}, ptr {at}, align 4")

    def _splat(self, row: int, step: IndexValue) -> str:
        """Return an element of the left-hand side in all lanes."""
        math, fn = self.math, self.fn
        place = math.mul(argument("%lhs_row"), row)
        place = math.add(place, math.mul(step, argument("%lhs_step")))
        x = self.b.load(pointer_value("%lhs"), self.sources[0], math.value(place))
        x = self.b.convert(x, self.total)
        kind = REPRESENTATIONS[self.total].memory
        first = fn.value(f"insertelement {self.vector} poison, {kind} {x.text}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        return fn.value(f"shufflevector {self.vector} {first}, {self.vector} poison, {mask}")

    def _steps(self, step: IndexValue, first: IndexValue, count: IndexValue, number: int) -> None:
        """Add some steps of k to all sums."""
        math, fn = self.math, self.fn
        steps = [math.add(step, u) for u in range(number)]
        xs = [[self._splat(row, k) for k in steps] for row in range(self.rows)]
        starts = [math.add(math.mul(k, argument("%rhs_step")), first) for k in steps]
        with self.body.loop(0, count, self.lanes) as column:
            if self.rows > 1 and number > 1:
                self._prefetch([math.add(start, column) for start in starts])
            ys = [
                load_as(self.w, "%rhs", self.sources[1], self.total, self.lanes,
                        math.add(start, column))
                for start in starts
            ]  # fmt: skip
            for row in range(self.rows):
                cell = math.add(math.mul(count, row), column)
                halves = [self._load(cell), ""]
                for u, (x, y) in enumerate(zip(xs[row], ys, strict=True)):
                    product = fn.value(f"fmul contract {self.vector} {x}, {y}")
                    side = u % 2
                    halves[side] = (
                        fn.value(f"fadd contract {self.vector} {halves[side]}, {product}")
                        if halves[side]
                        else product
                    )
                if halves[1]:
                    halves[0] = fn.value(f"fadd {self.vector} {halves[0]}, {halves[1]}")
                self._store(cell, halves[0])

    def _prefetch(self, places: list[IndexValue]) -> None:
        """Bring the same columns of the next steps into the second-level cache.

        Blocks of columns are short, so the processor cannot tell where the next row begins.
        """
        math, fn = self.math, self.fn
        fn.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        ahead = math.mul(argument("%rhs_step"), self.unroll)
        for place in places:
            offset = math.mul(math.add(place, ahead), self.sources[1].storage_bytes)
            at = fn.value(f"getelementptr i8, ptr %rhs, i64 {math.value(offset).text}")
            fn.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 2, i32 1)")

    def _finish(self, first: IndexValue, count: IndexValue, cells: IndexValue) -> None:
        """Write the totals into the result."""
        math = self.math
        with self.body.loop(0, self.rows) as row:
            offset = math.mul(row, argument("%out_row_bytes"))
            out = self.fn.value(f"getelementptr i8, ptr %out, i64 {math.value(offset).text}")
            with self.body.loop(0, count, self.lanes) as column:
                cell = math.add(math.add(cells, math.mul(row, count)), column)
                value = self._load(cell)
                place = math.add(first, column)
                store_as(self.w, out, self.total, self.result, self.lanes, place, value)
