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
from hloc.codegen.cpu.emitters.gemm.micro_kernels.packing_ahead import BlockRecord
from hloc.codegen.cpu.emitters.gemm.packed import offset_table
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import (
    AHEAD,
    ANY,
    DIRECT,
    IN_PLACE,
    LINES,
    PANELS,
)
from hloc.codegen.cpu.emitters.gemm.packed.nest_columns import NestColumns, NextBlock
from hloc.codegen.cpu.emitters.gemm.packed.nest_form import NestForm
from hloc.codegen.cpu.emitters.gemm.packed.nest_operands import NestOperands, Pair
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, routine_unit
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import PRED

FINISH_PARAMETERS = ("ptr %context", "i64 %first", "i64 %rows", "i64 %columns")
"""Parameters of the function that is called for rows whose sums are final: the `context` of the
routine, the offset of the first element, and the number of rows and columns."""


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
    return routine_unit(form.name, parameters, lambda w: _write(w, form), target)


def _write(w: RoutineWriter, form: NestForm) -> None:
    """Emit the tables, then the loop over gemms."""
    o = NestOperands(w, form)
    record = BlockRecord.new(w) if form.packs_ahead else None
    o.fill_tables()
    first, last = o.part("outer", o.n["products"])
    with w.body.loop(first, last) as number:
        lhs, rhs, out = o.places(number)
        arrays = (
            w.math.moved("%lhs", w.math.mul(lhs, o.n["lhs_bytes"])),
            w.math.moved("%rhs", w.math.mul(rhs, o.n["rhs_bytes"])),
            w.math.moved("%out", w.math.mul(out, o.n["result_bytes"])),
        )
        _Gemm(o, arrays, out, record).write()
    w.fn.declare(offset_table.DECLARATION)


class _Gemm:
    """Writes the loops of one gemm.

    Attributes:
        lhs, out: pointers to an operand and to the result, which begins at element `place`.
        columns: what is done with columns; `next` packs the next ones, if they are packed ahead.
    """

    def __init__(
        self,
        operands: NestOperands,
        arrays: tuple[str, str, str],
        place: Value,
        record: BlockRecord | None,
    ) -> None:
        self.o, self.n, self.math = operands, operands.n, operands.math
        self.lhs, rhs, self.out = arrays
        self.place = place
        self.columns = NestColumns(operands, rhs)
        self.next = NextBlock(self.columns, record) if record else None

    def write(self) -> None:
        """Emit the loops over blocks of columns and of k."""
        n, math, form, body = self.n, self.math, self.o.form, self.o.body
        rows = self.o.part("row", n["rows"])
        first_column, last_column = self.o.part("column", n["columns"])
        if self.next:
            self.next.pack_first()
        with (
            body.loop(first_column, last_column, n["block"]) as first,
            body.loop(0, n["depth"], n["span"]) as start,
        ):
            columns = first, math.minimum(n["block"], math.sub(last_column, first))
            end = math.minimum(math.add(start, n["span"]), n["depth"])
            if self.next:
                self.next.pack_next(columns, start)
            elif not form.is_packed:
                with body.loop(start, end, n["deep"]) as step:
                    self.columns.pack_block(columns, step, start)
            self._all_rows(rows, columns, (start, end))
            if self.next:
                self.next.pack_rest()

    def _all_rows(self, rows: Pair, columns: Pair, blocks: Pair) -> None:
        """Emit the loops over panels of rows; `rows` and `blocks` of k are starts and ends."""
        n, math, form, body = self.n, self.math, self.o.form, self.o.body
        (first_row, last_row), (start, end) = rows, blocks
        group_size = n["group"] if form.rows == LINES else n["height"]
        with body.loop(first_row, last_row, group_size) as group:
            size = math.minimum(group_size, math.sub(last_row, group))
            if form.rows == LINES:
                with body.loop(start, end, n["deep"]) as step:
                    self._pack_rows(columns[0], (group, size), step)
            rows_end = math.add(group, size)
            with body.loop(group, rows_end, n["height"]) as row:
                height = math.minimum(n["height"], math.sub(rows_end, row))
                with body.loop(start, end, n["deep"]) as step:
                    if form.rows not in (LINES, *IN_PLACE):
                        self._pack_rows(columns[0], (row, height), step)
                    self._tiles(columns, (group, row, height), (step, start))

    def _tiles(
        self,
        columns: Pair,
        rows: tuple[IndexValue, IndexValue, IndexValue],
        block: Pair,
    ) -> None:
        """Multiply some rows of a group by columns, over a block of k; finish sums that are final.

        `rows` are the first row of the group, the first row, and the number of rows; `block` is the
        first step of k, and the first of all that are packed.
        """
        n, math, o = self.n, self.math, self.o
        (first, count), (_, row, height), (step, _) = columns, rows, block
        steps, _ = o.steps(step)
        result_row = math.mul(row, n["row_distance"])
        result = math.moved(self.out, math.mul(math.add(result_row, first), n["result_bytes"]))
        result_row_bytes = math.mul(n["row_distance"], n["result_bytes"])
        rounds = Value(PRED, o.fn.value("icmp ne ptr %round, null"))
        to, row_bytes = self._sums(row, result, result_row_bytes, rounds)
        self._multiply(columns, rows, block, steps, (to, row_bytes))
        is_last = math.compare("GE", math.add(step, n["deep"]), n["depth"])
        with o.body.when(o.w.b.and_(is_last, rounds)):
            o.call("round", [to, result], [count, height, row_bytes, result_row_bytes])
        is_wanted = Value(PRED, o.fn.value("icmp ne ptr %finish, null"))
        with o.body.when(o.w.b.and_(is_last, is_wanted)):
            begin = math.add(math.add(self.place, result_row), first)
            o.call("finish", ["%context"], [begin, height, count])

    def _multiply(
        self,
        columns: Pair,
        rows: tuple[IndexValue, IndexValue, IndexValue],
        block: Pair,
        steps: IndexValue,
        sums: tuple[str, IndexValue],
    ) -> None:
        """Call the micro-kernel for `steps` steps of k; it adds to `sums`, of that row stride."""
        n, math, form = self.n, self.math, self.o.form
        (first, count), (group, row, height), (step, start) = columns, rows, block
        to, row_bytes = sums
        adds = math.compare("NE", step, 0).text
        ahead: tuple[str, IndexValue, IndexValue] = ("null", 0, 0)
        if form.columns in (LINES, PANELS):
            ahead = self.columns.ahead(columns, row, block)
        if self.next:
            ahead = (self.next.record.place, 0, self.next.share)
        source = self._row_source(group, row, step)
        numbers = [self.o.units(steps), row_bytes, height]
        if not form.is_packed:
            packed = self.columns.panels_at(step, start)
            self._tile_row([*source, packed, to], [*numbers, count], adds, ahead)
            return
        with self.o.body.loop(0, count, n["width"]) as column:
            panel = self.columns.panel_in_memory(self.columns.rhs, math.add(first, column), step)
            tile = math.moved(to, math.mul(column, n["result_bytes"]))
            here = (self.columns.panel_in_memory(ahead[0], column, 0), *ahead[1:])
            self._tile_row([*source, panel, tile], [*numbers, n["width"]], adds, here)

    def _row_source(self, group: IndexValue, row: IndexValue, step: IndexValue) -> list[str]:
        """Return the pointers from which the micro-kernel reads rows."""
        if not self.o.form.is_direct:
            return [self._row_panel(group, row, step)]
        tables, entry = self.o.tables, self.o.entry
        return [self.lhs, entry(tables["row"], row), entry(tables["left"], step)]

    def _sums(
        self, row: IndexValue, result: str, row_bytes: IndexValue, rounds: Value
    ) -> tuple[str, IndexValue]:
        """Return where the tiles from `row` on add their sums, and the row stride there."""
        n, b, math = self.n, self.o.w.b, self.math
        first_row, _ = self.o.part("row", n["rows"])
        sums = math.moved(self.o.sums, math.mul(math.sub(row, first_row), n["kept_sums_row_bytes"]))
        pointer = self.o.fn.value(f"select i1 {rounds.text}, ptr {sums}, ptr {result}")
        return pointer, b.select(rounds, n["sums_row_bytes"], math.value(row_bytes))

    def _pack_rows(
        self,
        first: IndexValue,
        rows: Pair,
        step: IndexValue,
    ) -> None:
        """Pack rows for a block of k, unless they stay from the columns before `first`."""
        math, (row, _) = self.math, rows
        steps, _ = self.o.steps(step)
        is_first = math.compare("EQ", first, self.o.part("column", self.n["columns"])[0])
        is_lost = math.compare("EQ", self.n["kept_row_bytes"], 0)
        with self.o.body.when(self.o.w.b.or_(is_first, is_lost)):
            to = self._row_panel(row, row, step)
            self.o.pack("pack_rows", "row", self.lhs, rows, (step, steps), to)

    def _row_panel(self, group: IndexValue, row: IndexValue, step: IndexValue) -> str:
        """Return where the rows from `row` on are packed, from step `step` of k on.

        Of a group of rows that were packed together, those of a tile are one panel.
        """
        n, math = self.n, self.math
        first_row, _ = self.o.part("row", n["rows"])
        at = math.mul(math.sub(group, first_row), n["kept_row_bytes"])
        at = math.add(at, math.mul(step, n["packed_step_bytes"]))
        if self.o.form.rows == LINES:
            _, padded = self.o.steps(step)
            within = math.mul(math.sub(row, group), math.mul(padded, n["operand_bytes"]))
            at = math.add(at, within)
        return math.moved(self.o.panel, at)

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
        self.o.call("tiles", pointers, numbers, rest)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the loops of all forms, and the routines that they call."""
    yield offset_table.table_routine(target)
    for rows, columns in product((DIRECT, LINES, ANY), (LINES, ANY, PANELS)):
        yield _nest(NestForm(rows, columns), target)
    for rows in (LINES, ANY):
        yield _nest(NestForm(rows, AHEAD), target)
