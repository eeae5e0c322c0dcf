"""Routines that reduce rows: contiguous elements, in any number of runs with one stride.

    fold_..._rows(from, to, init, rows, row_stride, runs, run_stride, length)

Result i is `init` and all elements `from[i row_stride + j run_stride + k]` with j below `runs` and
k below `length`. `..._long_rows` adds floats in blocks, and the blocks in f64.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from hloc.codegen.elements.reductions import identity_of
from hloc.codegen.kernels.running_sums import SUM_BLOCK
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F64

SHORT_BYTES = 1024
"""Longest row for which several rows at a time are faster. The stride of longer ones may be a power
of two, for which their lines map to the same cache sets."""

_NEAR_ROWS = 4

_PARAMETERS = (
    *named_parameters("from", "to"),
    INIT,
    *named_parameters(numbers="rows row_stride runs run_stride length"),
)


@cache
def row_routine(fold: Fold, target: Target) -> Routines:
    """Return the function for rows of at most one block, if they are sums of floats."""
    return fold_routine(fold, "rows", _PARAMETERS, target, lambda r: _Rows(r).write())


@cache
def short_row_routine(fold: Fold, target: Target) -> Routines:
    """Return the same for rows so short that the work per row dominates.

    There are at least `FoldWriter.group` rows, which are reduced at a time.
    """
    return fold_routine(fold, "short_rows", _PARAMETERS, target, lambda r: _Rows(r).write_short())


@cache
def long_row_routine(fold: Fold, target: Target) -> Routines:
    """Return the function for long sums of floats."""
    return fold_routine(fold, "long_rows", _PARAMETERS, target, lambda r: _Rows(r).write_long())


class _Rows:
    """Writes the loops."""

    def __init__(self, r: FoldWriter) -> None:
        self.r, self.b, self.body, self.math = r, r.b, r.body, r.math
        self.step = COPIES * r.lanes
        self.rows, self.runs = argument("%rows"), argument("%runs")
        self.row_stride, self.run_stride = argument("%row_stride"), argument("%run_stride")
        self.length = length = argument("%length")
        self.several = self.math.sub(length, self.math.rem(length, self.step))
        self.rest = self.math.rem(length, r.lanes)
        self.whole = self.math.sub(length, self.rest)
        self.has_rest = self.math.compare("GT", self.rest, 0)
        self.mask = r.mask(self.rest) if r.has_masks else None
        # Without masked loads, a partial vector is loaded through memory.
        self.padded = None if r.has_masks else self.b.allocate(r.fold.source, r.lanes)

    def write(self) -> None:
        """Emit the loop over single rows."""
        r, b = self.r, self.b
        slots = r.running(COPIES)
        with self.body.loop(0, self.rows) as row:
            r.restart(slots)
            with self.body.loop(0, self.runs) as run:
                start = self._start(row, run)
                self._add_vectors(slots, start, 0, self.several)
                self._add_rest(slots, start)
            found = r.folded(r.init, b.folded(r.fold.name, r.together(slots)))
            b.store(pointer_value("%to"), row, r.finished(found))

    def write_short(self) -> None:
        """Emit the loop over several rows at a time, each with an accumulator in a register."""
        r, b, m = self.r, self.b, self.math
        slots = r.running(r.group)
        with self.body.loop(0, self.rows, r.group) as begin:
            first = m.minimum(begin, m.sub(self.rows, r.group))
            r.restart(slots)
            with self.body.loop(0, self.runs) as run:
                start = self._start(first, run)
                with self.body.loop(0, self.whole, r.lanes) as position:
                    for slot, row in zip(slots, self._row_pointers(start, position), strict=True):
                        r.add(slot, r.load(row, 0))
                with self.body.when(self.has_rest):
                    rests = self._row_pointers(start, self.whole)
                    for slot, row in zip(slots, rests, strict=True):
                        r.add(slot, self._rest(row))
            vectors = [r.narrowed(b.load(slot, r.fold.total, 0)) for slot in slots]
            with r.b.with_lanes(r.group):
                folded = r.folded(b.as_lanes(r.init), r.each_folded(vectors))
                b.store(pointer_value("%to"), r.at(first), r.finished(folded))

    def _row_pointers(self, start: Value, position: IndexValue) -> list[Value]:
        """Return the addresses of an element of some rows; every fourth one is computed anew.

        Small multiples of the stride are part of the addressing mode.
        """
        r, b, m = self.r, self.b, self.math
        found = []
        for number in range(r.group):
            if number % _NEAR_ROWS == 0:
                distance = m.mul(self.row_stride, number)
                base = b.moved(start, r.fold.source, m.value(m.add(position, distance)))
            near = m.mul(self.row_stride, number % _NEAR_ROWS)
            found.append(pointer_value(b.address(base, r.fold.source, near)))
        return found

    def write_long(self) -> None:
        """Sum blocks of every row lane by lane; their totals per lane are in f64."""
        r, b, m = self.r, self.b, self.math
        slots, total = r.running(COPIES), b.lane_slot(F64)
        with self.body.loop(0, self.rows) as row:
            b.store(total, 0, b.const(F64, -0.0))
            with self.body.loop(0, self.runs) as run:
                start = self._start(row, run)
                with self.body.loop(0, self.several, SUM_BLOCK) as first:
                    end = m.minimum(m.add(first, SUM_BLOCK), self.several)
                    self._add_vectors(slots, start, first, end)
                    r.add_block(total, slots)
                with self.body.when(m.compare("LT", self.several, self.length)):
                    self._add_rest(slots, start)
                    r.add_block(total, slots)
            found = b.fadd(b.convert(r.init, F64), b.folded("add", b.load(total, F64, 0)))
            b.store(pointer_value("%to"), row, r.finished(b.convert(found, r.fold.total)))

    def _start(self, row: IndexValue, run: IndexValue) -> Value:
        """Return the address of a run of elements."""
        m = self.math
        rows = m.mul(self.row_stride, row)
        return self.r.pointer_to(m.add(rows, m.mul(self.run_stride, run)))

    def _add_vectors(
        self, slots: Sequence[LaneSlot], start: Value, first: IndexValue, end: IndexValue
    ) -> None:
        """Accumulate the elements from `first` to `end`, a vector for each copy."""
        with self.body.loop(first, end, self.step) as position:
            for number, slot in enumerate(slots):
                place = self.math.add(position, number * self.r.lanes)
                self.r.add(slot, self.r.load(start, place))

    def _add_rest(self, slots: Sequence[LaneSlot], start: Value) -> None:
        """Accumulate the remaining elements, fewer than a vector for each copy."""
        r = self.r
        with self.body.loop(self.several, self.whole, r.lanes) as position:
            r.add(slots[0], r.load(start, position))
        with self.body.when(self.has_rest):
            at = pointer_value(self.b.address(start, r.fold.source, self.math.value(self.whole)))
            r.add(slots[1], self._rest(at))

    def _rest(self, start: Value) -> Value:
        """Return a partial vector of the last elements."""
        r, b, m = self.r, self.b, self.math
        if self.mask is not None:
            return r.load_some(start, 0, self.mask)
        assert self.padded is not None
        neutral = b.const(r.fold.source, identity_of(r.fold.name, r.fold.source))
        b.store(self.padded, r.at(0), b.as_lanes(neutral))
        with self.body.loop(0, self.rest) as number:
            place = m.value(number)
            b.store(self.padded, place, b.load(start, r.fold.source, place))
        return r.load(self.padded, 0)
