"""Products of few rows along k: both operands lie along k, the longer one streams through once.

    inner(lhs, rhs, out, columns, depth, lhs_row, rhs_row, out_row_bytes, out_column_bytes)

Sums of some rows and some columns run along k in vectors of their own, and are added up at the end.
Rows and columns are evenly spaced anywhere.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache

from hloc.codegen.emitters.context import KernelContext
from hloc.codegen.emitters.products import Axis, Product, swapped
from hloc.codegen.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.emitters.vector_loads import load_as, vector_type
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.routine import Routines
from hloc.codegen.scalar_builder import pointer_value
from hloc.codegen.target import Target
from hloc.codegen.values import Value
from hloc.dtypes import BF16, F16, F32, F64, DType

MAX_ROWS = 16
"""Rows up to which sums along k are better than packing."""

MIN_DEPTH, MIN_WORK = 32, 1 << 12
"""Sizes below which short code matters more than fast code."""

TILE_ROWS, TILE_SUMS = 8, 16
"""Rows that are multiplied at a time, and rows times columns."""

TILE_COLUMNS = (4, 2)
"""Columns that stream through at the same time, as many as fit."""

COLUMN_PIECE = 64
"""Columns that threads count by: a multiple of those that stream through together."""

_TYPES = ("ptr",) * 3 + ("i64",) * 6
_PARAMETERS = (
    "ptr noalias readonly %lhs",
    "ptr noalias readonly %rhs",
    "ptr noalias %out",
    "i64 %columns",
    "i64 %depth",
    "i64 %lhs_row",
    "i64 %rhs_row",
    "i64 %out_row_bytes",
    "i64 %out_column_bytes",
)
_NARROW = (F32, BF16, F16)


@dataclass(frozen=True, slots=True)
class InnerProduct:
    """A product of few rows whose operands both lie along k; `row` has size 1 if there is none."""

    outer: tuple[Axis, ...]
    row: Axis
    column: Axis
    depth: int
    exchanged: bool
    sources: tuple[DType, DType]
    result: DType

    @property
    def pieces(self) -> int:
        """In how many pieces threads share the product: steps of the outermost loop, or columns."""
        return self.outer[0].size if self.outer else -(-self.column.size // COLUMN_PIECE)

    @property
    def repeated_bytes(self) -> int:
        """The side that every thread reads whole."""
        return self.row.size * self.depth * self.sources[0].storage_bytes

    @property
    def scratch_bytes(self) -> int:
        """Sums are in registers."""
        return 0


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
    work = row.size * column.size * k.size
    if k.lhs != 1 or k.rhs != 1 or k.size < MIN_DEPTH or row.size > MAX_ROWS or work < MIN_WORK:
        return None
    return InnerProduct(p.batch, row, column, k.size, exchanged, sources, result)


def emit_inner(k: KernelContext, p: InnerProduct, lhs: IrArray, rhs: IrArray) -> None:
    """Write the calls of the routine; the kernel's extent is that of `p.pieces`."""
    if p.exchanged:
        lhs, rhs = rhs, lhs
    lanes = k.target.vector_bits // (64 if p.result is F64 else 32)
    has_rests = p.column.size % tile_of(p.row.size)[1] != 0, p.depth % lanes != 0
    routines = inner_routines(p.row.size, has_rests, p.sources, p.result, k.target)
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
        p.depth,
        p.row.lhs,
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
        arguments = [f"ptr {x}" for x in places] + [f"i64 {x}" for x in numbers]
        k.fn.line(f"call void @{routines.name}({', '.join(arguments)})")


def tile_of(rows: int) -> tuple[int, int]:
    """Return how many rows and columns are multiplied at a time; the columns divide a piece."""
    tile = -(-rows // -(-rows // TILE_ROWS))
    return tile, next(width for width in TILE_COLUMNS if width * tile <= TILE_SUMS)


@cache
def inner_routines(
    rows: int,
    has_rests: tuple[bool, bool],
    sources: tuple[DType, DType],
    result: DType,
    target: Target,
) -> Routines:
    """Return the function for some number of rows.

    Args:
        rows: of the left-hand side.
        has_rests: if whole tiles leave columns over, and whole vectors steps of k.
        sources: element types of the operands.
        result: that of the result.
        target: the machine.
    """
    types = "_".join(dtype.name for dtype in (*sources, result))
    rests = "".join(name for name, is_there in zip("ck", has_rests, strict=True) if is_there)
    name = f"inner_{types}_{rows}{rests}"
    w = RoutineWriter(name, _PARAMETERS, target)
    _Inner(w, rows, sources, result, target).write(*has_rests)
    text = "\n".join([*w.fn.declarations, "", w.text()])
    return Routines(name, (f"declare void @{name}({', '.join(_TYPES)})",), text)


class _Inner:
    """Writes one routine."""

    def __init__(
        self,
        w: RoutineWriter,
        rows: int,
        sources: tuple[DType, DType],
        result: DType,
        target: Target,
    ) -> None:
        self.w, self.fn, self.b, self.body, self.math = w, w.fn, w.b, w.body, w.math
        self.rows, self.sources, self.result = rows, sources, result
        self.total = F64 if result is F64 else F32
        self.lanes = target.vector_bits // self.total.bits
        self.vector = vector_type(self.total, self.lanes)
        self.rest_of_depth = True

    def write(self, rest_of_columns: bool, rest_of_depth: bool) -> None:
        """Some columns at a time, and some rows of those."""
        math = self.math
        self.rest_of_depth = rest_of_depth
        tile, width = tile_of(self.rows)
        columns = argument("%columns")
        whole: IndexValue = columns
        if rest_of_columns:
            whole = math.mul(math.div(columns, width), width)
        parts: list[tuple[IndexValue, IndexValue, int]] = [(0, whole, width)]
        if rest_of_columns:
            parts.append((whole, columns, 1))
        for first, end, count in parts:
            with self.body.loop(first, end, count) as column:
                for row in range(0, self.rows, tile):
                    self._tile(row, min(tile, self.rows - row), column, count)

    def _tile(self, row: int, rows: int, column: IndexValue, count: int) -> None:
        """Multiply and write `rows` by `count` elements of the result."""
        math = self.math
        lefts = [math.mul(argument("%lhs_row"), row + i) for i in range(rows)]
        rights = [math.mul(argument("%rhs_row"), math.add(column, j)) for j in range(count)]
        slots = [[self.b.allocate(self.total) for _ in rights] for _ in lefts]
        totals = self._whole(lefts, rights)
        for i, part in enumerate(totals):
            for j, vector in enumerate(part):
                self.b.store(slots[i][j], 0, self._summed(vector))
        if self.rest_of_depth:
            self._add_rest(lefts, rights, slots)
        for i in range(rows):
            for j in range(count):
                offset = math.add(
                    math.mul(argument("%out_row_bytes"), row + i),
                    math.mul(argument("%out_column_bytes"), math.add(column, j)),
                )
                at = self.fn.value(f"getelementptr i8, ptr %out, i64 {math.value(offset).text}")
                value = self.b.convert(self.b.load(slots[i][j], self.total, 0), self.result)
                self.b.store(pointer_value(at), 0, value)

    def _add_rest(
        self, lefts: list[IndexValue], rights: list[IndexValue], slots: list[list[Value]]
    ) -> None:
        """Add the products after the last whole vector."""
        math = self.math
        whole = math.mul(math.div(argument("%depth"), self.lanes), self.lanes)
        with self.body.loop(whole, argument("%depth")) as k:
            for left, row in zip(lefts, slots, strict=True):
                for right, slot in zip(rights, row, strict=True):
                    x, y = self._element(0, math.add(left, k)), self._element(1, math.add(right, k))
                    total = self.b.load(slot, self.total, 0)
                    self.b.store(slot, 0, self.b.fadd(total, self.b.fmul(x, y)))

    def _element(self, side: int, place: IndexValue) -> Value:
        pointer = pointer_value(("%lhs", "%rhs")[side])
        return self.b.convert(
            self.b.load(pointer, self.sources[side], self.math.value(place)), self.total
        )

    def _whole(self, lefts: list[IndexValue], rights: list[IndexValue]) -> list[list[str]]:
        """Run over the whole vectors along k; return the sums by row."""
        fn, entry = self.fn, self.fn.block
        head, after = fn.new_block(), fn.new_block()
        end = self.math.mul(self.math.div(argument("%depth"), self.lanes), self.lanes)
        fn.jump(head)
        fn.start_block(head)
        step = fn.reserve_value()
        sums = [[fn.reserve_value() for _ in rights] for _ in lefts]
        slots = [fn.reserve_line() for _ in range(1 + len(lefts) * len(rights))]
        k = Value(argument("%depth").dtype, step)
        ys = [self._load(1, self.math.add(right, k)) for right in rights]
        new = []
        for left, row in zip(lefts, sums, strict=True):
            x = self._load(0, self.math.add(left, k))
            products = [fn.value(f"fmul contract {self.vector} {x}, {y}") for y in ys]
            new.append(
                [
                    fn.value(f"fadd contract {self.vector} {total}, {product}")
                    for total, product in zip(row, products, strict=True)
                ]
            )
        following = fn.value(f"add i64 {step}, {self.lanes}")
        again = fn.value(f"icmp slt i64 {following}, {self.math.value(end).text}")
        fn.branch(again, head, after)
        phis = [("i64", step, "0", following)]
        for before, later in zip(sums, new, strict=True):
            phis += [
                (self.vector, x, "zeroinitializer", y) for x, y in zip(before, later, strict=True)
            ]
        for slot, (kind, name, first, next_) in zip(slots, phis, strict=True):
            fn.fill_line(slot, f"{name} = phi {kind} [ {first}, %{entry} ], [ {next_}, %{head} ]")
        fn.start_block(after)
        return new

    def _load(self, side: int, place: IndexValue) -> str:
        return load_as(
            self.w, ("%lhs", "%rhs")[side], self.sources[side], self.total, self.lanes, place
        )

    def _summed(self, vector: str) -> Value:
        """Return the sum of the lanes."""
        kind = "double" if self.total is F64 else "float"
        name = f"@llvm.vector.reduce.fadd.v{self.lanes}f{self.total.bits}"
        self.fn.declare(f"declare {kind} {name}({kind}, {self.vector})")
        text = f"call reassoc {kind} {name}({kind} -0.0, {self.vector} {vector})"
        return Value(self.total, self.fn.value(text))
