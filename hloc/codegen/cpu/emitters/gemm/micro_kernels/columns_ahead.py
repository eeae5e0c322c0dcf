"""Prefetching the columns that are packed next, while micro-kernels multiply those packed before.

Packing reads each column of the right-hand side once, at the speed of memory, while the units that
multiply wait. So micro-kernels fetch the next block of columns into the second-level cache, some
lines at a time: a prefetch holds one of the few buffers that loads from there need, too.

A row of tiles prefetches a range of steps of k (`prefetched_range`), in every panel those columns
of the next block that have its place.
"""

from __future__ import annotations

from hloc.codegen.builder.index import IndexMath
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.dtypes import DType
from hloc.memory.heap import CACHE_LINE_BYTES

AHEAD_PARAMETERS = ("ptr %ahead", "i64 %ahead_row_bytes", "i64 %ahead_rows")
"""Parameters of micro-kernels: the first element to prefetch, the distance of steps of k in memory,
and how many of them each stretch prefetches."""

STRETCH = 16
"""Units of k that are multiplied between prefetches."""


class ColumnsAhead:
    """Emits the prefetches of a micro-kernel.

    The place is kept in memory: in a register it would be one of too many in the loop over k.
    """

    def __init__(self, w: RoutineWriter, width: int, operand: DType) -> None:
        """Begin.

        Args:
            w: the function.
            width: columns of a panel.
            operand: type of the columns in memory.
        """
        self.w, self.bytes = w, operand.storage_bytes
        self.lines = max(width * self.bytes // CACHE_LINE_BYTES, 1)
        self.place = w.fn.allocate("ptr")

    def start(self, first: IndexValue) -> None:
        """Go to the panel that begins with column `first`."""
        math = self.w.math
        self._store(math.moved("%ahead", math.mul(first, self.bytes)))

    def stretch(self) -> Value:
        """Return the units of k until the next prefetch: all, if there is none."""
        math = self.w.math
        is_idle = math.compare("EQ", argument("%ahead_rows"), 0)
        return self.w.b.select(is_idle, argument("%steps"), math.value(STRETCH))

    def prefetch(self) -> None:
        """Prefetch the next rows."""
        w = self.w
        with w.body.loop(0, argument("%ahead_rows")):
            place = w.fn.value(f"load ptr, ptr {self.place}")
            for line in range(self.lines):
                w.b.prefetch_at(w.math.moved(place, line * CACHE_LINE_BYTES))
            self._store(w.math.moved(place, argument("%ahead_row_bytes")))

    def _store(self, place: str) -> None:
        self.w.fn.line(f"store ptr {place}, ptr {self.place}")


def prefetched_range(
    math: IndexMath, tile: IndexValue, tiles: IndexValue, steps: IndexValue, stretch: IndexValue
) -> tuple[IndexValue, IndexValue]:
    """Return the first step of k that row `tile` of `tiles` prefetches, and how many per stretch.

    All tiles together cover `steps`; the last of them may have nothing left.
    """
    stretches = math.ceiling_div(steps, stretch)
    share = math.ceiling_div(math.ceiling_div(steps, tiles), stretches)
    return math.mul(tile, math.mul(stretches, share)), share
