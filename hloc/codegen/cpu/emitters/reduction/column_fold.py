"""Routines that reduce columns: contiguous results, over rows with one stride.

    fold_..._columns(from, to, init, batches, batch_stride, columns, runs, run_stride, rows, stride)

Result i of batch b is `init` and all elements `from[b batch_stride + j run_stride + k stride + i]`
with j below `runs` and k below `rows`. There is at least one vector of columns; `..._few_columns`
handles fewer. Long sums of floats are computed in blocks, which are added in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import LaneSlot, Value
from hloc.codegen.cpu.emitters.reduction.fold_routine import (
    COPIES,
    INIT,
    Fold,
    FoldWriter,
    fold_routine,
)
from hloc.codegen.cpu.emitters.routine_writer import argument, named_parameters
from hloc.codegen.kernels.column_strips import STRIP
from hloc.codegen.kernels.running_sums import SUM_BLOCK
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F64

_ROWS = 4
"""Rows that are added to the accumulators at a time."""

_PARAMETERS = (
    *named_parameters("from", "to"),
    INIT,
    *named_parameters(numbers="batches batch_stride columns runs run_stride rows stride"),
)


@cache
def column_routine(fold: Fold, target: Target) -> Routines:
    """Return the function for at least as many columns as a vector has lanes."""
    return fold_routine(fold, "columns", _PARAMETERS, target, lambda r: _Columns(r).write())


@cache
def few_column_routine(fold: Fold, is_long: bool, target: Target) -> Routines:
    """Return the function for fewer columns, on a machine with masked loads.

    `is_long`: sums of more floats than a block has.
    """
    form = "few_long_columns" if is_long else "few_columns"
    return fold_routine(fold, form, _PARAMETERS, target, lambda r: _FewColumns(r).write(is_long))


class _Columns:
    """A strip of columns at a time, with accumulators on the stack."""

    def __init__(self, r: FoldWriter) -> None:
        self.r, self.b, self.body, self.math = r, r.b, r.body, r.math
        fold, room = r.fold, STRIP + r.lanes
        self.sums = self.b.allocate(fold.total, room)
        self.totals = self.b.allocate(F64, room) if fold.is_float_sum else None
        self.columns, self.rows = argument("%columns"), argument("%rows")
        self.runs, self.stride = argument("%runs"), argument("%stride")
        addends = self.math.mul(self.runs, self.rows)
        self.is_long = self.math.compare("GT", addends, SUM_BLOCK)
        self.is_short = self.math.compare("LE", addends, SUM_BLOCK)

    def write(self) -> None:
        """Write the loops over batches and strips."""
        m, columns = self.math, self.columns
        most = m.sub(columns, self.r.lanes)
        with self.body.loop(0, argument("%batches")) as batch:
            source = m.mul(argument("%batch_stride"), batch)
            target = m.mul(columns, batch)
            with self.body.loop(0, columns, STRIP) as begin:
                first = m.minimum(begin, most)
                width = m.minimum(m.sub(columns, first), STRIP)
                self._strip(m.add(source, first), m.add(target, first), width)

    def _strip(self, source: IndexValue, target: IndexValue, width: IndexValue) -> None:
        """Reduce the columns that begin at `source`, and write results to `target`."""
        self._start(width)
        with self.body.loop(0, self.runs) as run:
            start = self.math.add(source, self.math.mul(argument("%run_stride"), run))
            if self.totals is None:
                self._add_rows(start, 0, self.rows, width)
            else:
                self._add_blocks(start, width)
        self._finish(target, width)

    def _over(self, width: IndexValue, region: Callable[[IndexValue, IndexValue], None]) -> None:
        """Emit the region for all vectors; it gets the index of the accumulators, and the column.

        The last vector may overlap the one before in columns, with separate accumulators.
        """
        m, lanes = self.math, self.r.lanes
        whole = m.sub(width, m.rem(width, lanes))
        with self.body.loop(0, whole, lanes) as slot:
            region(slot, slot)
        with self.body.when(m.compare("LT", whole, width)):
            region(whole, m.sub(width, lanes))

    def _start(self, width: IndexValue) -> None:
        """Set the accumulators to the initial value; for long sums, the totals."""
        r, totals = self.r, self.totals
        if totals is None:
            self._set(width, self.sums, r.init)
            return
        with self.body.when(self.is_long):
            self._set(width, totals, self.b.convert(r.init, F64))
            self._set(width, self.sums, self.b.const(r.fold.total, 0))
        with self.body.when(self.is_short):
            self._set(width, self.sums, r.init)

    def _set(self, width: IndexValue, array: Value, value: Value) -> None:
        def region(slot: IndexValue, _: IndexValue) -> None:
            self.b.store(array, self.r.at(slot), self.b.as_lanes(value))

        self._over(width, region)

    def _add_blocks(self, start: IndexValue, width: IndexValue) -> None:
        """Add the rows of a run; for long sums, add each block of rows to the totals."""
        m, b, r = self.math, self.b, self.r

        def end_block(slot: IndexValue, _: IndexValue) -> None:
            assert self.totals is not None
            block = b.convert(b.load(self.sums, r.fold.total, r.at(slot)), F64)
            total = b.fadd(b.load(self.totals, F64, r.at(slot)), block)
            b.store(self.totals, r.at(slot), total)
            b.store(self.sums, r.at(slot), b.as_lanes(b.const(r.fold.total, 0)))

        with self.body.loop(0, self.rows, SUM_BLOCK) as first:
            end = m.minimum(m.add(first, SUM_BLOCK), self.rows)
            self._add_rows(start, first, end, width)
            with self.body.when(self.is_long):
                self._over(width, end_block)

    def _add_rows(
        self, start: IndexValue, first: IndexValue, end: IndexValue, width: IndexValue
    ) -> None:
        m = self.math
        several = m.sub(end, m.rem(m.sub(end, first), _ROWS))
        with self.body.loop(first, several, _ROWS) as row:
            self._add_some(start, [m.add(row, i) for i in range(_ROWS)], width)
        with self.body.loop(several, end) as row:
            self._add_some(start, [row], width)

    def _add_some(self, start: IndexValue, rows: Sequence[IndexValue], width: IndexValue) -> None:
        """Add rows one after the other, column by column."""
        b, r, m = self.b, self.r, self.math
        pointers = [r.pointer_to(m.add(start, m.mul(self.stride, row))) for row in rows]

        def region(slot: IndexValue, column: IndexValue) -> None:
            found = b.load(self.sums, r.fold.total, r.at(slot))
            for pointer in pointers:
                found = r.folded(found, r.load(pointer, column))
            b.store(self.sums, r.at(slot), found)

        self._over(width, region)

    def _finish(self, target: IndexValue, width: IndexValue) -> None:
        """Store the results of a strip of `width` columns from `target` on.

        They are the sums of the only block, or the f64 totals of all blocks; which one is known
        when the routine runs.
        """
        b, r, m = self.b, self.r, self.math

        def written(results: Value, is_total: bool) -> None:
            dtype = F64 if is_total else r.fold.total

            def region(slot: IndexValue, column: IndexValue) -> None:
                found = b.convert(b.load(results, dtype, r.at(slot)), r.fold.total)
                place = r.at(m.add(target, column))
                b.store(pointer_value("%to"), place, r.finished(found))

            self._over(width, region)

        if self.totals is None:
            written(self.sums, is_total=False)
            return
        with self.body.when(self.is_long):
            written(self.totals, is_total=True)
        with self.body.when(self.is_short):
            written(self.sums, is_total=False)


class _FewColumns:
    """All columns in one vector, with accumulators in registers."""

    def __init__(self, r: FoldWriter) -> None:
        self.r, self.b, self.body, self.math = r, r.b, r.body, r.math
        self.columns, self.stride = argument("%columns"), argument("%stride")
        self.mask = r.mask(self.columns)
        self.slots = r.running(COPIES)

    def write(self, is_long: bool) -> None:
        """Write the loops over batches, runs and rows."""
        b, r, m = self.b, self.r, self.math
        rows, total = argument("%rows"), b.lane_slot(F64)
        with self.body.loop(0, argument("%batches")) as batch:
            r.restart(self.slots)
            if is_long:
                b.store(total, 0, b.const(F64, -0.0))
            source = m.mul(argument("%batch_stride"), batch)
            with self.body.loop(0, argument("%runs")) as run:
                start = m.add(source, m.mul(argument("%run_stride"), run))
                if not is_long:
                    self._add_rows(start, 0, rows)
                else:
                    with self.body.loop(0, rows, SUM_BLOCK) as first:
                        end = m.minimum(m.add(first, SUM_BLOCK), rows)
                        self._add_rows(start, first, end)
                        r.add_block(total, self.slots)
            if is_long:
                init = b.as_lanes(b.convert(r.init, F64))
                found = b.convert(b.fadd(init, b.load(total, F64, 0)), r.fold.total)
            else:
                found = r.folded(b.as_lanes(r.init), r.together(self.slots))
            self._store(m.mul(self.columns, batch), found)

    def _add_rows(self, start: IndexValue, first: IndexValue, end: IndexValue) -> None:
        m = self.math
        several = m.sub(end, m.rem(m.sub(end, first), COPIES))
        with self.body.loop(first, several, COPIES) as row:
            for i, slot in enumerate(self.slots):
                self._add_row(start, m.add(row, i), slot)
        with self.body.loop(several, end) as row:
            self._add_row(start, row, self.slots[0])

    def _add_row(self, start: IndexValue, row: IndexValue, slot: LaneSlot) -> None:
        r, m = self.r, self.math
        pointer = r.pointer_to(m.add(start, m.mul(self.stride, row)))
        r.add(slot, r.load_some(pointer, 0, self.mask))

    def _store(self, place: IndexValue, found: Value) -> None:
        self.r.store_some(place, self.r.finished(found), self.mask)
