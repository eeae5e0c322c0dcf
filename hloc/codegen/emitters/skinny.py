"""Products of few rows: the right-hand side streams through once, some of its rows at a time.

    stream(lhs, rhs, out, sums, columns, depth, column_block, lhs_row, lhs_step, rhs_step,
           out_row_bytes)

Sums of a block of columns stay in the cache; they go to totals every `DEPTH_BLOCK` steps of k, so
that long sums stay accurate. Columns lie side by side and fill whole vectors.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache

from hloc.codegen.emitters.context import KernelContext
from hloc.codegen.emitters.products import Axis, Product, swapped
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

COLUMN_MULTIPLE = 16
"""Columns come in multiples of this, which every vector divides."""

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
    def scratch_bytes(self) -> int:
        """Room for sums and totals."""
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
    if column.rhs != 1 or column.out != 1 or column.size % COLUMN_MULTIPLE:
        return None
    work = row.size * column.size * depth.size
    if row.size > MAX_ROWS or column.size < MIN_COLUMNS or work < MIN_WORK:
        return None
    most = max(SPLATS // row.size, 1)
    unroll = next((u for u in (16, 8, 6, 4, 3, 2) if u <= most and depth.size % u == 0), 0)
    if not unroll:
        return None
    return SkinnyProduct(p.batch, row, column, depth, unroll, exchanged, sources, result)


def emit_skinny(
    k: KernelContext, p: SkinnyProduct, lhs: IrArray, rhs: IrArray, scratch_offset: int
) -> None:
    """Write the calls of the routine."""
    if p.exchanged:
        lhs, rhs = rhs, lhs
    routines = stream_routines(p.row.size, p.unroll, p.sources, p.result, k.target)
    k.use(routines)
    sums = k.b.offset_pointer(k.scratch, scratch_offset)
    numbers = (
        p.column.size,
        p.depth.size,
        p.column_block,
        p.row.lhs,
        p.depth.lhs,
        p.depth.rhs,
        p.row.out * p.result.storage_bytes,
    )
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
        arguments = [f"ptr {x}" for x in (*places, sums.text)] + [f"i64 {x}" for x in numbers]
        k.fn.line(f"call void @{routines.name}({', '.join(arguments)})")


@cache
def stream_routines(
    rows: int, unroll: int, sources: tuple[DType, DType], result: DType, target: Target
) -> Routines:
    """Return the function for some number of rows."""
    types = "_".join(dtype.name for dtype in (*sources, result))
    name = f"stream_{types}_{rows}x{unroll}"
    w = RoutineWriter(name, _PARAMETERS, target)
    _Stream(w, rows, unroll, sources, result, target).write()
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

    def write(self) -> None:
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
                with body.loop(start, stop, self.unroll) as step:
                    self._steps(step, first, count)
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

    def _steps(self, step: IndexValue, first: IndexValue, count: IndexValue) -> None:
        """Add some steps of k to all sums."""
        math, fn = self.math, self.fn
        steps = [math.add(step, u) for u in range(self.unroll)]
        xs = [[self._splat(row, k) for k in steps] for row in range(self.rows)]
        starts = [math.add(math.mul(k, argument("%rhs_step")), first) for k in steps]
        with self.body.loop(0, count, self.lanes) as column:
            if self.rows > 1:
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
                self._store(cell, fn.value(f"fadd {self.vector} {halves[0]}, {halves[1]}"))

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
