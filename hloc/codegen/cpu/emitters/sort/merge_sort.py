"""A stable bottom-up merge sort of one row, for any comparator.

Runs of eight are sorted by insertion, then merged back and forth between two buffers. Positions
stay inside the row even for an inconsistent comparator, such as one without an order of NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.sort.sort_rows import SortRows
from hloc.dtypes import S64

RUN = 8
"""Length of the runs that are sorted by insertion."""

Comparator: TypeAlias = Callable[[Sequence[Value], Sequence[Value]], Value]
"""`less(left, right)` on the elements of all arrays at two positions."""


class MergeSorter:
    """Writes the steps of one row.

    Slots: 0 and 1 are positions in the runs being merged, 2 is the length of the runs.
    """

    def __init__(self, rows: SortRows, less: Comparator) -> None:
        self.rows, self._less = rows, less
        self.b, self.math, self.body, self.size = rows.b, rows.math, rows.body, rows.size
        self.slots = [self.b.allocate(S64) for _ in range(3)]

    def sort(self) -> None:
        """Sort the row in half 0; it ends in the half that `rows.half` names."""
        self._make_runs(self.rows.buffers(0))
        self._merge_runs()

    def _get(self, slot: int) -> Value:
        return self.b.load(self.slots[slot], S64, 0)

    def _set(self, slot: int, value: IndexValue) -> None:
        self.b.store(self.slots[slot], 0, self.math.value(value))

    def _make_runs(self, arrays: Sequence[IrArray]) -> None:
        """Sort every run of `RUN` elements by insertion."""
        m, body = self.math, self.body
        with body.loop(0, self.size, RUN) as first:
            stop = m.minimum(m.add(first, RUN), self.size)
            with body.loop(m.add(first, 1), stop) as i:
                key = self.rows.load(arrays, i)
                self._set(0, i)
                with body.repeat_while() as head:
                    j = self._get(0)
                    head.go_on_if(m.compare("GT", j, first))
                    before = m.sub(j, 1)
                    previous = self.rows.load(arrays, before)
                    head.go_on_if(self._less(key, previous))
                    self.rows.store(arrays, j, previous)
                    self._set(0, before)
                self.rows.store(arrays, self._get(0), key)

    def _merge_runs(self) -> None:
        """Double the length of the runs until one is left."""
        m, rows = self.math, self.rows
        self._set(2, RUN)
        rows.set_half(0)
        with self.body.repeat_while() as head:
            width = self._get(2)
            head.go_on_if(m.compare("LT", width, self.size))
            half = rows.half
            other = m.sub(1, half)
            twice = m.add(width, width)
            self._merge_pass(rows.buffers(half), rows.buffers(other), width, twice)
            self._set(2, twice)
            rows.set_half(other)

    def _merge_pass(
        self,
        source: Sequence[IrArray],
        target: Sequence[IrArray],
        width: IndexValue,
        twice: IndexValue,
    ) -> None:
        """Merge neighbouring runs of `width` from `source` into `target`."""
        m, b, body = self.math, self.b, self.body
        with body.loop(0, self.size, twice) as first:
            middle = m.minimum(m.add(first, width), self.size)
            stop = m.minimum(m.add(first, twice), self.size)
            self._set(0, first)
            self._set(1, middle)
            with body.loop(first, stop) as out:
                i, j = self._get(0), self._get(1)
                left_done = m.compare("GE", i, middle)
                right_done = m.compare("GE", j, stop)
                # An exhausted run compares its last element, which is not taken.
                left = self.rows.load(source, m.minimum(i, m.sub(middle, 1)))
                right = self.rows.load(source, m.minimum(j, m.sub(stop, 1)))
                less = self._less(right, left)
                right_left = b.not_(right_done)
                take_right = b.and_(b.or_(left_done, less), right_left)
                chosen = [b.select(take_right, y, x) for x, y in zip(left, right, strict=True)]
                self.rows.store(target, out, chosen)
                one = b.convert(take_right, S64)
                self._set(1, b.iadd(j, one))
                self._set(0, b.iadd(i, b.isub(b.const(S64, 1), one)))
