"""The loops around micro-kernels as a routine: gemms of any size by packed panels.

    nest(lhs, rhs, out, scratch, begin, end, numbers, finish, context, round, tiles ...)

`numbers` holds everything that depends on the gemm: the fields of `GemmArguments`, then axes as
`offset_table` reads them, fastest first. Micro-kernel and packing are passed as pointers, so that
gemms of all element types share one routine. `round`, if not null, moves sums that are final from
scratch memory to the result; then `finish`, if not null, is called for these rows.

A block of k of some columns is packed for the second-level cache and multiplied by one panel of
rows after another, packed for the first-level cache. The sums of every block of k are added to the
result. Where all of k is packed at once (`span`), a panel of rows goes through all blocks of k
while its part of the result is in the cache. Rows that lie side by side in memory are packed a
group of panels at a time, which reads whole cache lines of every step of k. Columns that lie in
panels of all of k are read where they are, one panel after the other. Columns of the form `AHEAD`
are packed into one of two blocks while those in the other are multiplied (`packing_ahead`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.gemm import offset_table
from hloc.codegen.cpu.emitters.gemm.bf16_parts import PAIRS
from hloc.codegen.cpu.emitters.gemm.columns_ahead import prefetched_range
from hloc.codegen.cpu.emitters.gemm.gemm_arguments import AXES, FIELDS
from hloc.codegen.cpu.emitters.gemm.gemm_routines import (
    AHEAD,
    ANY,
    DIRECT,
    IN_PLACE,
    LINES,
    PANELS,
)
from hloc.codegen.cpu.emitters.gemm.packed_gemm import ALIGNMENT
from hloc.codegen.cpu.emitters.gemm.packing_ahead import BlockRecord
from hloc.codegen.cpu.emitters.gemm.tile_arithmetic import MATRIX_UNITS
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import PRED, S64
from hloc.lazy_dataclass import dataclass

_ENTRY_BYTES = 8

FINISH_PARAMETERS = ("ptr %context", "i64 %first", "i64 %rows", "i64 %columns")
"""Parameters of the function that is called for rows whose sums are final: the `context` of the
routine, the offset of the first element, and the number of rows and columns."""


@dataclass(frozen=True, slots=True)
class NestForm:
    """The parameters of the text of the loops.

    Attributes:
        rows, columns: how they lie in memory: `IN_PLACE`, `LINES`, `PANELS`, or otherwise.
    """

    rows: str
    columns: str

    @property
    def name(self) -> str:
        """The name of the routine."""
        rows = "direct" if self.rows in IN_PLACE else _form_name(self.rows)
        return f"nest_{rows}_{_form_name(self.columns)}"

    @property
    def is_direct(self) -> bool:
        """True if rows are read in place."""
        return self.rows in IN_PLACE

    @property
    def packs_ahead(self) -> bool:
        """True if the next block of columns is packed while tiles multiply."""
        return self.columns == AHEAD

    @property
    def is_packed(self) -> bool:
        """True if columns are packed already."""
        return self.columns == PANELS


def _form_name(form: str) -> str:
    return form if form in (LINES, PANELS, AHEAD) else "gathered"


def nest_routines(form: NestForm, target: Target) -> tuple[Routines, Routines]:
    """Return the loops of one form, and the routine of tables that they call."""
    return _nest(form, target), offset_table.table_routine(target)


@cache
def _nest(form: NestForm, target: Target) -> Routines:
    pointers = ["tiles", *([] if form.is_packed else ["pack_columns"])]
    pointers += [] if form.is_direct else ["pack_rows"]
    parameters = (
        *(f"ptr %{name}" for name in ("lhs", "rhs", "out", "scratch")),
        "i64 %begin",
        "i64 %end",
        *(f"ptr %{name}" for name in ("numbers", "finish", "context", "round", *pointers)),
    )
    return routine_unit(form.name, parameters, lambda w: _Nest(w, form).write(), target)


class _Nest:
    """Writes the loops."""

    def __init__(self, w: RoutineWriter, form: NestForm) -> None:
        self.w, self.fn, self.body, self.math, self.form = w, w.fn, w.body, w.math, form
        values = [w.offset("%numbers", i) for i in range(len(FIELDS))]
        self.n = dict(zip(FIELDS, values, strict=True))
        self.lists = {
            name: tuple(w.offset("%numbers", len(FIELDS) + 2 * i + j) for j in range(2))
            for i, name in enumerate(AXES)
        }
        self.tables: dict[str, str] = {}
        self.panel = self.panels = self.sums = ""
        self.record, self.share = BlockRecord.new(w), Value(S64, "0")

    def write(self) -> None:
        """Emit the tables, then the loop over gemms."""
        self._fill_tables()
        first, last = self._part("outer", self.n["products"])
        with self.body.loop(first, last) as number:
            lhs, rhs, out = self._places(number)
            n, math = self.n, self.math
            self._product(
                self.math.moved("%lhs", math.mul(lhs, n["lhs_bytes"])),
                self.math.moved("%rhs", math.mul(rhs, n["rhs_bytes"])),
                self.math.moved("%out", math.mul(out, n["result_bytes"])),
                out,
            )
        self.fn.declare(offset_table.DECLARATION)

    def _fill_tables(self) -> None:
        """Emit the tables of offsets of rows, columns and steps of k in the operands."""
        n = self.n
        start = place = self.math.aligned("%scratch", ALIGNMENT)
        sizes = (("row", "rows"), ("column", "columns"), ("left", "depth"), ("right", "depth"))
        for name, size in sizes:
            self.tables[name] = place
            form = {"row": self.form.rows, "column": self.form.columns}.get(name)
            if form not in (LINES, AHEAD):
                first, count = self.lists[f"{name}_axes"]
                axes = self._entry("%numbers", first)
                self.w.b.call_routine(offset_table.NAME, (place, axes), count)
            place = self._entry(place, n[size])
        self.panel, self.panels, self.sums = (
            self.math.moved(start, n[name]) for name in ("panel", "panels", "sums")
        )

    def _places(self, number: IndexValue) -> tuple[Value, ...]:
        """Return the offsets of gemm `number` in lhs, rhs and out, in elements."""
        fn, body = self.fn, self.body
        slots = [fn.allocate("i64") for _ in range(4)]
        rest, *places = slots
        fn.line(f"store i64 {self.math.value(number).text}, ptr {rest}")
        for slot in places:
            fn.line(f"store i64 0, ptr {slot}")
        first, count = self.lists["outer_axes"]
        with body.loop(0, count) as axis:
            at = self._entry("%numbers", self.math.add(first, self.math.mul(axis, 4)))
            size, *steps = (self.w.offset(at, i) for i in range(4))
            left = fn.value(f"load i64, ptr {rest}")
            within = fn.value(f"urem i64 {left}, {size.text}")
            fn.line(f"store i64 {fn.value(f'udiv i64 {left}, {size.text}')}, ptr {rest}")
            for slot, step in zip(places, steps, strict=True):
                moved = fn.value(f"mul i64 {within}, {step.text}")
                before = fn.value(f"load i64, ptr {slot}")
                fn.line(f"store i64 {fn.value(f'add i64 {before}, {moved}')}, ptr {slot}")
        return tuple(Value(S64, fn.value(f"load i64, ptr {slot}")) for slot in places)

    def _part(self, side: str, size: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return the range of a side to compute: this thread's part, or all."""
        n, math = self.n, self.math
        step, rest = n[f"{side}_step"], n[f"{side}_rest"]
        end = math.add(math.mul(argument("%end"), step), rest)
        return math.mul(argument("%begin"), step), math.minimum(size, end)

    def _product(self, lhs: str, rhs: str, out: str, place: Value) -> None:
        """Emit the loops over blocks of columns and of k, and over panels of rows."""
        n, body, math = self.n, self.body, self.math
        first_row, last_row = self._part("row", n["rows"])
        first_column, last_column = self._part("column", n["columns"])
        if self.form.packs_ahead:
            self._pack_first(rhs)
        with (
            body.loop(first_column, last_column, n["block"]) as first,
            body.loop(0, n["depth"], n["span"]) as start,
        ):
            count = math.minimum(n["block"], math.sub(last_column, first))
            end = math.minimum(math.add(start, n["span"]), n["depth"])
            if self.form.packs_ahead:
                self._pack_next(rhs, (first, count), start)
            elif not self.form.is_packed:
                with body.loop(start, end, n["deep"]) as step:
                    self._pack_columns(rhs, first, count, step, start)
            group_size = n["group"] if self.form.rows == LINES else n["height"]
            with body.loop(first_row, last_row, group_size) as group:
                size = math.minimum(group_size, math.sub(last_row, group))
                if self.form.rows == LINES:
                    with body.loop(start, end, n["deep"]) as step:
                        self._pack_rows(lhs, first, (group, size), step)
                rows_end = math.add(group, size)
                with body.loop(group, rows_end, n["height"]) as row:
                    height = math.minimum(n["height"], math.sub(rows_end, row))
                    with body.loop(start, end, n["deep"]) as step:
                        if self.form.rows not in (LINES, *IN_PLACE):
                            self._pack_rows(lhs, first, (row, height), step)
                        arrays = (lhs, rhs, out, place)
                        rows = (group, row, height)
                        self._tiles(arrays, (first, count), rows, (step, start))
            if self.form.packs_ahead:
                self._pack_rest()

    def _steps(self, step: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return the steps of k of the block that begins at `step`, and those of its panels.

        Panels for matrix registers are padded with zeros.
        """
        n, math = self.n, self.math
        steps = math.minimum(n["deep"], math.sub(n["depth"], step))
        return steps, math.mul(self._units(steps), n["multiple"])

    def _units(self, steps: IndexValue) -> Value:
        """Return the number of iterations of the micro-kernel, `multiple` steps each."""
        return self.math.value(self.math.ceiling_div(steps, self.n["multiple"]))

    def _tiles(
        self,
        arrays: tuple[str, str, str, Value],
        columns: tuple[IndexValue, IndexValue],
        rows: tuple[IndexValue, IndexValue, IndexValue],
        block: tuple[IndexValue, IndexValue],
    ) -> None:
        """Multiply some rows of a group by packed columns, over a block of k."""
        n, math, body = self.n, self.math, self.body
        (lhs, rhs, out, place), (first, count), (group, row, height), (step, start) = (
            arrays,
            columns,
            rows,
            block,
        )
        steps, _ = self._steps(step)
        result_row = math.mul(row, n["row_distance"])
        result = math.moved(out, math.mul(math.add(result_row, first), n["result_bytes"]))
        result_row_bytes = math.mul(n["row_distance"], n["result_bytes"])
        rounds = Value(PRED, self.fn.value("icmp ne ptr %round, null"))
        to, row_bytes = self._sums(row, result, result_row_bytes, rounds)
        adds = math.compare("NE", step, 0).text
        ahead: tuple[str, IndexValue, IndexValue] = ("null", 0, 0)
        if self.form.columns in (LINES, PANELS):
            ahead = self._ahead(rhs, columns, row, block)
        if self.form.packs_ahead:
            ahead = (self.record.place, 0, self.share)
        if self.form.is_direct:
            tables = self.tables
            source = [lhs, self._entry(tables["row"], row), self._entry(tables["left"], step)]
        else:
            source = [self._row_panel(group, row, step)]
        numbers = [self._units(steps), row_bytes, height]
        if self.form.is_packed:
            with body.loop(0, count, n["width"]) as column:
                panel = self._panel_in_memory(rhs, math.add(first, column), step)
                tile = math.moved(to, math.mul(column, n["result_bytes"]))
                pointers = [*source, panel, tile]
                here = (self._panel_in_memory(ahead[0], column, 0), *ahead[1:])
                self._tile_row(pointers, [*numbers, n["width"]], adds, here)
        else:
            packed = self._panels_at(step, start)
            self._tile_row([*source, packed, to], [*numbers, count], adds, ahead)
        is_last = math.compare("GE", math.add(step, n["deep"]), n["depth"])
        with body.when(self.w.b.and_(is_last, rounds)):
            self._call("round", [to, result], [count, height, row_bytes, result_row_bytes])
        is_wanted = Value(PRED, self.fn.value("icmp ne ptr %finish, null"))
        with self.body.when(self.w.b.and_(is_last, is_wanted)):
            begin = math.add(math.add(place, result_row), first)
            self._call("finish", ["%context"], [begin, height, count])

    def _sums(
        self, row: IndexValue, result: str, row_bytes: IndexValue, rounds: Value
    ) -> tuple[str, IndexValue]:
        """Return where the tiles from `row` on add their sums, and the row stride there."""
        n, b, math = self.n, self.w.b, self.math
        first_row, _ = self._part("row", n["rows"])
        sums = math.moved(self.sums, math.mul(math.sub(row, first_row), n["kept_sums_row_bytes"]))
        pointer = self.fn.value(f"select i1 {rounds.text}, ptr {sums}, ptr {result}")
        return pointer, b.select(rounds, n["sums_row_bytes"], math.value(row_bytes))

    def _pack_rows(
        self,
        lhs: str,
        first: IndexValue,
        rows: tuple[IndexValue, IndexValue],
        step: IndexValue,
    ) -> None:
        """Pack rows for a block of k, unless they stay from the columns before `first`."""
        math, (row, _) = self.math, rows
        steps, _ = self._steps(step)
        is_first = math.compare("EQ", first, self._part("column", self.n["columns"])[0])
        is_lost = math.compare("EQ", self.n["kept_row_bytes"], 0)
        with self.body.when(self.w.b.or_(is_first, is_lost)):
            to = self._row_panel(row, row, step)
            self._pack("pack_rows", "row", lhs, rows, (step, steps), to)

    def _row_panel(self, group: IndexValue, row: IndexValue, step: IndexValue) -> str:
        """Return where the rows from `row` on are packed, from step `step` of k on.

        Of a group of rows that were packed together, those of a tile are one panel.
        """
        n, math = self.n, self.math
        first_row, _ = self._part("row", n["rows"])
        at = math.mul(math.sub(group, first_row), n["kept_row_bytes"])
        at = math.add(at, math.mul(step, n["packed_step_bytes"]))
        if self.form.rows == LINES:
            _, padded = self._steps(step)
            within = math.mul(math.sub(row, group), math.mul(padded, n["operand_bytes"]))
            at = math.add(at, within)
        return math.moved(self.panel, at)

    def _tile_row(
        self,
        pointers: list[str],
        numbers: list[IndexValue],
        adds: str,
        ahead: tuple[str, IndexValue, IndexValue],
    ) -> None:
        """Call the micro-kernel; `ahead` are its `AHEAD_PARAMETERS`."""
        place, row_bytes, rows = (ahead[0], *(self.math.value(x).text for x in ahead[1:]))
        rest = f", i1 {adds}, ptr {place}, i64 {row_bytes}, i64 {rows}"
        self._call("tiles", pointers, numbers, rest)

    def _ahead(
        self,
        rhs: str,
        columns: tuple[IndexValue, IndexValue],
        row: IndexValue,
        block: tuple[IndexValue, IndexValue],
    ) -> tuple[str, IndexValue, IndexValue]:
        """Return what a row of tiles prefetches: a share of the block that is read next.

        That is the next block of k of these columns, or the first one of the next columns.
        """
        n, math, b = self.n, self.math, self.w.b
        (first, _), (step, start) = columns, block
        (first_row, last_row), (_, last_column) = (
            self._part(side, n[f"{side}s"]) for side in ("row", "column")
        )
        steps, _ = self._steps(step)
        next_step = math.add(step, n["span"])
        is_deepest = math.compare("GE", next_step, n["depth"])
        at = math.minimum(next_step, math.sub(n["depth"], steps))
        at = b.select(is_deepest, math.value(math.sub(step, start)), math.value(at))
        column = b.select(is_deepest, math.value(math.add(first, n["block"])), math.value(first))
        within, share = prefetched_range(
            math,
            math.ceiling_div(math.sub(row, first_row), n["height"]),
            math.ceiling_div(math.sub(last_row, first_row), n["height"]),
            steps,
            n["stretch"],
        )
        is_needed = b.and_(
            math.compare("LT", column, last_column), math.compare("LT", within, steps)
        )
        is_needed = b.and_(is_needed, math.compare("NE", n["ahead_row_bytes"], 0))
        at = math.add(at, within)
        if self.form.is_packed:
            place = self._panel_in_memory(rhs, column, at)
        else:
            offset = math.add(math.mul(at, n["ahead_row_bytes"]), math.mul(column, n["rhs_bytes"]))
            place = math.moved(rhs, offset)
        count = b.select(is_needed, math.value(share), math.value(0))
        return place, n["ahead_row_bytes"], count

    def _pack_first(self, rhs: str) -> None:
        """Pack the first block of columns."""
        n, math = self.n, self.math
        first, last = self._part("column", n["columns"])
        self.record.set_memory(self.panels, math.moved(self.panels, n["block_bytes"]))
        self._begin_block(rhs, (first, math.minimum(n["block"], math.sub(last, first))), 0)
        self._pack_rest()

    def _pack_next(
        self, rhs: str, columns: tuple[IndexValue, IndexValue], start: IndexValue
    ) -> None:
        """Begin the block that is packed while these columns are multiplied.

        That is the next block of k, or the first one of the next columns.
        """
        n, math, b = self.n, self.math, self.w.b
        first, count = columns
        first_row, last_row = self._part("row", n["rows"])
        _, last_column = self._part("column", n["columns"])
        after = math.add(start, n["span"])
        is_deepest = math.compare("GE", after, n["depth"])
        step = b.select(is_deepest, math.value(0), math.value(after))
        column = b.select(is_deepest, math.value(math.add(first, n["block"])), math.value(first))
        left = math.sub(math.maximum(last_column, column), column)
        self.panels = self.record.exchange_memory()
        self._begin_block(rhs, (column, math.minimum(n["block"], left)), step)
        tiles = math.mul(
            math.ceiling_div(math.sub(last_row, first_row), n["height"]),
            math.ceiling_div(count, n["width"]),
        )
        steps, _ = self._steps(start)
        calls = math.mul(math.mul(tiles, self._units(steps)), len(PAIRS))
        self.share = math.value(math.ceiling_div(self.record.load("left"), calls))

    def _begin_block(
        self, rhs: str, columns: tuple[IndexValue, IndexValue], step: IndexValue
    ) -> None:
        """Begin to pack some columns, a block of k from step `step` on."""
        n, math = self.n, self.math
        first, count = columns
        steps, _ = self._steps(step)
        units = math.mul(self._units(steps), MATRIX_UNITS)
        pieces = math.mul(math.ceiling_div(count, n["width"]), units)
        begin = math.moved(rhs, math.mul(first, n["rhs_bytes"]))
        self.record.begin(begin, self._entry(self.tables["right"], step), count, steps, pieces)

    def _pack_rest(self) -> None:
        """Pack what is left of the block."""
        self._call("pack_columns", [self.record.place], [self.record.load("left")])

    def _panels_at(self, step: IndexValue, start: IndexValue) -> str:
        """Return the address of the packed columns of the block of k from `step` on."""
        n, math = self.n, self.math
        place = math.mul(math.sub(step, start), n["block"])
        return math.moved(self.panels, math.mul(place, n["operand_bytes"]))

    def _panel_in_memory(self, rhs: str, column: IndexValue, step: IndexValue) -> str:
        """Return where the panel that begins with `column` has step `step` of k."""
        n, math = self.n, self.math
        rows = math.add(math.mul(column, n["depth"]), math.mul(step, n["width"]))
        return math.moved(rhs, math.mul(rows, n["operand_bytes"]))

    def _pack_columns(
        self,
        rhs: str,
        first: IndexValue,
        count: IndexValue,
        step: IndexValue,
        start: IndexValue,
    ) -> None:
        n, math = self.n, self.math
        steps, padded = self._steps(step)
        panels = self._panels_at(step, start)
        if self.form.columns == LINES:
            self._pack("pack_columns", "column", rhs, (first, count), (step, steps), panels)
            return
        with self.body.loop(0, count, n["width"]) as column:
            to = self.math.moved(panels, math.mul(math.mul(column, padded), n["operand_bytes"]))
            width = math.minimum(n["width"], math.sub(count, column))
            at = math.add(first, column)
            self._pack("pack_columns", "column", rhs, (at, width), (step, steps), to)

    def _pack(
        self,
        name: str,
        side: str,
        operand: str,
        lines: tuple[IndexValue, IndexValue],
        block: tuple[IndexValue, IndexValue],
        to: str,
    ) -> None:
        """Pack a part of the rows or columns: `lines` and `block` are pairs of start and count."""
        (first, count), (step, steps) = lines, block
        steps_table = self.tables["left" if side == "row" else "right"]
        pointers = [self._entry(steps_table, step), to]
        form = self.form.rows if side == "row" else self.form.columns
        if form == LINES:
            size = self.n["lhs_bytes" if side == "row" else "rhs_bytes"]
            pointers = [self.math.moved(operand, self.math.mul(first, size)), *pointers]
        else:
            pointers = [operand, self._entry(self.tables[side], first), *pointers]
        self._call(name, pointers, [count, steps])

    def _call(
        self, name: str, pointers: list[str], numbers: list[IndexValue], rest: str = ""
    ) -> None:
        arguments = [f"ptr {x}" for x in pointers]
        arguments += [f"i64 {self.math.value(x).text}" for x in numbers]
        self.fn.line(f"call void %{name}({', '.join(arguments)}{rest})")

    def _entry(self, pointer: str, number: IndexValue) -> str:
        return self.math.moved(pointer, self.math.mul(number, _ENTRY_BYTES))


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the loops of all forms, and the routines that they call."""
    yield offset_table.table_routine(target)
    for rows, columns in product((DIRECT, LINES, ANY), (LINES, ANY, PANELS)):
        yield _nest(NestForm(rows, columns), target)
    for rows in (LINES, ANY):
        yield _nest(NestForm(rows, AHEAD), target)
