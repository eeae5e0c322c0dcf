"""Micro-kernels: a tile of the result in registers while k runs over packed panels.

    tiles(a, panels, out, steps, row_bytes, rows, columns, adds)

`a` holds a unit per row and step, each panel some vectors per step; a unit is one element of k, or
a few that one instruction multiplies and sums. One tile after the other along a row of panels is
added to `out`, or stored if `adds` is false; of tiles at the edge only `rows` and `columns` count.

    direct_tiles(lhs, rows_at, lhs_steps, panels, out, ...)

reads rows where they are, at sums of two table entries, which is better than packing if there are
few columns. Where steps of k follow each other in memory, some are taken for one table entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloc.codegen.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.emitters.tile_copy import EDGE_TYPES
from hloc.codegen.emitters.vector_loads import rounded, vector_type
from hloc.codegen.scalar_builder import pointer_value
from hloc.codegen.target import Target
from hloc.codegen.values import REPRESENTATIONS, Value
from hloc.dtypes import BF16, S8, S64, DType

_PACKED_ROWS = ("ptr noalias readonly %a",)

_DIRECT_ROWS = (
    "ptr noalias readonly %lhs",
    "ptr noalias readonly %rows_at",
    "ptr noalias readonly %lhs_steps",
)

_PARAMETERS = (
    "ptr noalias readonly %panels",
    "ptr noalias %out",
    "i64 %steps",
    "i64 %row_bytes",
    "i64 %rows",
    "i64 %columns",
    "i1 %adds",
)


PACKED_PARAMETERS = (*_PACKED_ROWS, *_PARAMETERS)

TILE_TYPES = ("ptr",) * 3 + ("i64",) * 4 + ("i1",)
DIRECT_TILE_TYPES = ("ptr", "ptr", *TILE_TYPES)


RUN_STEPS = 4
"""Steps of k that are taken at a time where all of k consists of such runs."""

MAX_PARTIAL_SUMS = 24
"""Registers for sums up to which even and odd steps have sums of their own: few sums wait for each
other."""

MATRIX_UNITS = 16
"""Units of k that one instruction of matrix registers multiplies."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How units are multiplied.

    Attributes:
        name: part of the routine's name.
        total: type of the sums.
        operand: type of the packed elements.
        result: type in which the sums are written; sums of k in parts need that of the sums.
        group: elements of k in a unit, which is as wide as a sum.
        instruction: of matrix registers, "" for vectors.
    """

    name: str
    total: DType
    operand: DType
    result: DType
    group: int = 1
    instruction: str = ""

    @property
    def is_matrix(self) -> bool:
        """True if tiles are in matrix registers."""
        return bool(self.instruction)

    @property
    def depth_multiple(self) -> int:
        """Elements of k in one step of the micro-kernel."""
        return self.group * (MATRIX_UNITS if self.is_matrix else 1)


@dataclass(frozen=True, slots=True)
class Tile:
    """The part of the result that is in registers: `rows` by `vectors` registers."""

    rows: int
    vectors: int


def lanes(arithmetic: Arithmetic, target: Target) -> int:
    """Return the sums in one register."""
    return target.vector_bits // arithmetic.total.bits


def micro_kernel(
    name: str,
    edge: str,
    arithmetic: Arithmetic,
    tile: Tile,
    target: Target,
    *,
    direct: bool,
    in_runs: bool = False,
) -> RoutineWriter:
    """Return the function of a row of tiles.

    Tiles at the edge and those that are added go through a copy and the function `edge`.

    Args:
        name: of the function.
        edge: name of the function for tiles at the edge.
        arithmetic: how units are multiplied.
        tile: what is in registers.
        target: the machine.
        direct: rows are not packed.
        in_runs: all of k are runs of `RUN_STEPS` steps that follow each other in every row.
    """
    rows = _DIRECT_ROWS if direct else _PACKED_ROWS
    w = RoutineWriter(name, (*rows, *_PARAMETERS), target)
    _Writer(w, edge, arithmetic, tile, target, direct, RUN_STEPS if in_runs else 1).write()
    return w


class _Writer:
    """Writes one micro-kernel."""

    def __init__(
        self,
        w: RoutineWriter,
        edge: str,
        arithmetic: Arithmetic,
        tile: Tile,
        target: Target,
        direct: bool,
        unroll: int,
    ) -> None:
        self.w, self.edge = w, edge
        self.fn, self.b, self.body, self.math = w.fn, w.b, w.body, w.math
        self.arithmetic, self.tile, self.unroll = arithmetic, tile, unroll
        has_partial_sums = unroll > 1 and 2 * tile.rows * tile.vectors <= MAX_PARTIAL_SUMS
        self.sets = 2 if has_partial_sums and target.vector_bits == 512 else 1
        self.lanes = lanes(arithmetic, target)
        self.element = REPRESENTATIONS[arithmetic.total].memory
        self.vector = f"<{self.lanes} x {self.element}>"
        # The instruction takes unsigned bytes on one side; one more row sums up the excess.
        self.is_biased = arithmetic.operand is S8
        # Units of several elements are moved as integers.
        self.unit = self.element if arithmetic.group == 1 else "i32"
        self.bits = f"<{self.lanes} x {self.unit}>"
        self.bytes = arithmetic.total.storage_bytes
        self.width = tile.vectors * self.lanes
        self.copy = self.fn.allocate(self.element, tile.rows * self.width)
        self.rows_at = self._row_pointers() if direct else []

    def _row_pointers(self) -> list[str]:
        """Return where the rows of the tile begin; those beyond the last are the last."""
        last = self.math.sub(argument("%rows"), 1)
        pointers = []
        for i in range(self.tile.rows):
            place = self.w.offset("%rows_at", self.math.minimum(last, i))
            pointers.append(self.b.address(pointer_value("%lhs"), self.arithmetic.total, place))
        return pointers

    def write(self) -> None:
        """Write the loop over the panels."""
        fn, math = self.fn, self.math
        panel_bytes = math.mul(argument("%steps"), self.width * self.bytes)
        with self.body.loop(0, argument("%columns"), self.width) as first:
            panel = math.mul(math.div(first, self.width), panel_bytes)
            b = fn.value(f"getelementptr i8, ptr %panels, i64 {math.value(panel).text}")
            start = math.mul(first, self.arithmetic.result.storage_bytes)
            out = fn.value(f"getelementptr i8, ptr %out, i64 {math.value(start).text}")
            columns = math.minimum(math.sub(argument("%columns"), first), self.width)
            self._write_tile(b, out, math.value(columns))

    def _write_tile(self, b: str, out: str, columns: Value) -> None:
        """Write the loop over k, then the tile: straight into the result, or through a copy."""
        fn, copy = self.fn, self.copy
        sums = self._loop(b)
        full_rows = fn.value(f"icmp eq i64 %rows, {self.tile.rows}")
        full = fn.value(f"icmp eq i64 {columns.text}, {self.width}")
        kept = fn.value("xor i1 %adds, true")
        whole = fn.value(f"and i1 {full_rows}, {full}")
        straight = fn.value(f"and i1 {whole}, {kept}")
        through, after = fn.new_block(), fn.new_block()
        if self.arithmetic.result is self.arithmetic.total:
            target = fn.value(f"select i1 {straight}, ptr {out}, ptr {copy}")
            own_row = self.width * self.bytes
            step = fn.value(f"select i1 {straight}, i64 %row_bytes, i64 {own_row}")
            self._store_tile(sums, target, step)
            fn.branch(straight, after, through)
            fn.start_block(through)
        else:
            narrow = fn.new_block()
            fn.branch(straight, narrow, through)
            fn.start_block(narrow)
            self._store_tile(sums, out, "%row_bytes")
            fn.jump(after)
            fn.start_block(through)
            self._keep_tile(sums, copy)
        fn.declare(f"declare void @{self.edge}({', '.join(EDGE_TYPES)})")
        fn.line(
            f"call void @{self.edge}(ptr {copy}, ptr {out}, i64 {columns.text}, i64 %rows, "
            "i64 %row_bytes, i1 %adds)"
        )
        fn.jump(after)
        fn.start_block(after)

    def _store_tile(self, sums: list[list[str]], target: str, step: str) -> None:
        """Write a whole tile as elements of the result, rows `step` bytes apart."""
        fn, result = self.fn, self.arithmetic.result
        kind = vector_type(result, self.lanes)
        for row in sums:
            for j, total in enumerate(row):
                offset = j * self.lanes * result.storage_bytes
                at = fn.value(f"getelementptr i8, ptr {target}, i64 {offset}")
                value = rounded(self.w, total, self.arithmetic.total, result, self.lanes)
                fn.line(f"store {kind} {value}, ptr {at}, align {result.storage_bytes}")
            target = fn.value(f"getelementptr i8, ptr {target}, i64 {step}")

    def _keep_tile(self, sums: list[list[str]], copy: str) -> None:
        """Write a tile of sums into memory of its own."""
        for i, row in enumerate(sums):
            for j, total in enumerate(row):
                place = self.fn.value(f"getelementptr i8, ptr {copy}, i64 {self._offset(i, j)}")
                self.fn.line(f"store {self.vector} {total}, ptr {place}, align 16")

    def _offset(self, i: int, j: int) -> int:
        return (i * self.width + j * self.lanes) * self.bytes

    # ---- k

    def _loop(self, panel: str) -> list[list[str]]:
        """Run over the steps; return the sums by row."""
        fn, tile, entry = self.fn, self.tile, self.fn.block
        head, after = fn.new_block(), fn.new_block()
        fn.jump(head)
        fn.start_block(head)
        step, a, b = (fn.reserve_value() for _ in range(3))
        rows = (tile.rows + self.is_biased) * self.sets
        sums = [[fn.reserve_value() for _ in range(tile.vectors)] for _ in range(rows)]
        slots = [fn.reserve_line() for _ in range(3 + rows * tile.vectors)]
        offset = self.w.offset("%lhs_steps", Value(S64, step)).text if self.rows_at else ""
        new = list(sums)
        for u in range(self.unroll):
            first = u % self.sets * (rows // self.sets)
            part = slice(first, first + rows // self.sets)
            new[part] = self._step(new[part], a, b, offset, u)
        next_step = fn.value(f"add i64 {step}, {self.unroll}")
        next_a = fn.value(f"getelementptr i8, ptr {a}, i64 {tile.rows * self.bytes}")
        panel_step = self.unroll * self.width * self.bytes
        next_b = fn.value(f"getelementptr i8, ptr {b}, i64 {panel_step}")
        again = fn.value(f"icmp slt i64 {next_step}, %steps")
        fn.branch(again, head, after)
        rows_start = "null" if self.rows_at else "%a"
        phis = [
            ("i64", step, "0", next_step),
            ("ptr", a, rows_start, next_a),
            ("ptr", b, panel, next_b),
        ]
        for before, later in zip(sums, new, strict=True):
            phis += [
                (self.vector, x, "zeroinitializer", y) for x, y in zip(before, later, strict=True)
            ]
        for slot, (kind, name, start, following) in zip(slots, phis, strict=True):
            fn.fill_line(
                slot, f"{name} = phi {kind} [ {start}, %{entry} ], [ {following}, %{head} ]"
            )
        fn.start_block(after)
        if self.sets == 2:
            plus = "fadd" if self.arithmetic.total.is_float else "add"
            new = [
                [fn.value(f"{plus} {self.vector} {x}, {y}") for x, y in zip(even, odd, strict=True)]
                for even, odd in zip(new[: rows // 2], new[rows // 2 :], strict=True)
            ]
        for row in new[:-1] if self.is_biased else ():
            for j, excess in enumerate(new[-1]):
                row[j] = fn.value(f"sub {self.vector} {row[j]}, {excess}")
        return new[: tile.rows]

    def _step(
        self, sums: list[list[str]], a: str, b: str, offset: str, number: int
    ) -> list[list[str]]:
        """Add the products of step `number` of those that are taken together."""
        tile = self.tile
        right = [self._load_panel(b, number * tile.vectors + j) for j in range(tile.vectors)]
        new = []
        for i, totals in enumerate(sums):
            if i == tile.rows:
                left = self._bias()
            elif self.rows_at:
                place = self.fn.value(
                    f"getelementptr {self.unit}, ptr {self.rows_at[i]}, i64 {offset}"
                )
                left = self._broadcast(place, number)
            else:
                left = self._broadcast(a, i)
            new.append(
                [self._multiply(left, y, total) for y, total in zip(right, totals, strict=True)]
            )
        return new

    def _load_panel(self, pointer: str, j: int) -> str:
        place = self.fn.value(f"getelementptr {self.vector}, ptr {pointer}, i64 {j}")
        return self.fn.value(f"load {self.bits}, ptr {place}, align {self.lanes * self.bytes}")

    def _broadcast(self, pointer: str, i: int) -> str:
        fn = self.fn
        place = fn.value(f"getelementptr {self.unit}, ptr {pointer}, i64 {i}")
        unit = fn.value(f"load {self.unit}, ptr {place}, align {self.bytes}")
        first = fn.value(f"insertelement {self.bits} poison, {self.unit} {unit}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        return fn.value(f"shufflevector {self.bits} {first}, {self.bits} poison, {mask}")

    def _bias(self) -> str:
        """Return what the packed units of rows have too much, 128 in every byte."""
        return "<" + ", ".join(["i32 -2139062144"] * self.lanes) + ">"

    def _multiply(self, x: str, y: str, total: str) -> str:
        fn, v = self.fn, self.vector
        if self.arithmetic.operand is BF16:
            halves = f"<{2 * self.lanes} x bfloat>"
            x, y = (fn.value(f"bitcast {self.bits} {z} to {halves}") for z in (x, y))
            name = "@llvm.x86.avx512bf16.dpbf16ps.512"
            fn.declare(f"declare {v} {name}({v}, {halves}, {halves})")
            return fn.value(f"call {v} {name}({v} {total}, {halves} {x}, {halves} {y})")
        if self.arithmetic.operand is S8:
            name = "@llvm.x86.avx512.vpdpbusd.512"
            eighths = f"<{4 * self.lanes} x i8>"
            x, y = (fn.value(f"bitcast {self.bits} {z} to {eighths}") for z in (x, y))
            fn.declare(f"declare {v} {name}({v}, {eighths}, {eighths})")
            return fn.value(f"call {v} {name}({v} {total}, {eighths} {x}, {eighths} {y})")
        if self.arithmetic.total.is_float:
            product = fn.value(f"fmul contract {v} {x}, {y}")
            return fn.value(f"fadd contract {v} {total}, {product}")
        product = fn.value(f"mul {v} {x}, {y}")
        return fn.value(f"add {v} {total}, {product}")
