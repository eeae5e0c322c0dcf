"""The queries of a block of attention, and the tiles of keys that the block processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.attention.attention_parts import finite_flags, part_statistics
from hloc.codegen.gpu.emitters.attention.attention_softmax import OnlineSoftmax
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.dtypes import F32, PRED, S32, S64


class QueryBlock:
    """The block of a launch.

    Attributes:
        head: batch element.
        first_row: of its queries.
        part, first_tile: part of the keys, and first tile of it.
    """

    def __init__(self, k: GpuContext, spread: Spread) -> None:
        self.k, self.spread = k, spread
        m = k.math
        self.head, tile = m.delinear(k.block_index("x"), [spread.heads, spread.row_tiles])
        if spread.skips:  # blocks with most keys start first
            tile = m.sub(spread.row_tiles - 1, tile)
        self.first_row = m.mul(tile, spread.rows)
        self.part = k.block_index("y")
        self.first_tile = m.mul(self.part, spread.part_tiles)

    @contextmanager
    def ranges(self, may_stop: Callable[[Value], Value]) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Run the region for all tiles, from a first one to a last, in one or two ranges.

        If a causal mask hides tiles from the block, the visible ones come first. The others follow
        unless `may_stop`, given the first of them, holds; it is the same in all threads.
        """
        k, b, m, spread = self.k, self.k.b, self.k.math, self.spread
        if not spread.skips:
            stop: IndexValue = spread.key_tiles
            if spread.parts > 1:
                stop = m.minimum(m.add(self.first_tile, spread.part_tiles), stop)
            yield self.first_tile, stop
            return
        start_slot, stop_slot = b.allocate(S64), b.allocate(S64)
        b.store(start_slot, 0, m.value(0))
        b.store(stop_slot, 0, m.value(self._seen_tiles()))
        with k.body.repeat_while() as loop:
            start, end = b.load(start_slot, S64, 0), b.load(stop_slot, S64, 0)
            loop.go_on_if(m.compare("LT", start, end))
            yield start, end
            b.store(start_slot, 0, end)
            with k.body.when(m.compare("LT", end, spread.key_tiles)):
                all_tiles = m.value(spread.key_tiles)
                b.store(stop_slot, 0, b.select(may_stop(end), end, all_tiles))

    def _seen_tiles(self) -> IndexValue:
        """Return the number of tiles visible to some query of the block."""
        m, spread = self.k.math, self.spread
        plan = spread.problem.loops
        assert plan.mask is not None
        rows = spread.problem.scores.rows.count
        last = m.minimum(m.add(self.first_row, spread.rows - 1), rows - 1)
        seen = m.add(m.div(last, spread.inner_rows), plan.mask.reach + 1)
        seen = m.maximum(m.minimum(seen, plan.key.size), 1)
        return m.div(m.add(seen, spread.keys - 1), spread.keys)

    def changes_nothing(
        self, softmax: OnlineSoftmax, first: IndexValue, stride: int, stop: IndexValue
    ) -> Value:
        """Return whether hidden tiles from `stop` on change no row of this thread.

        The thread checks the values of tiles `stop` + `first`, and of every `stride`-th after it.
        """
        k, b, m = self.k, self.k.b, self.k.math
        flags, holds = finite_flags(k, self.spread), b.allocate(PRED)
        rows = [softmax.vanishes(number) for number in range(len(softmax.patch.rows))]
        b.store(holds, 0, k.body.all_of(rows))
        with k.body.loop(m.add(stop, first), self.spread.key_tiles, stride) as tile:
            is_finite = b.compare("NE", flags.load(m, (self.head, tile)), b.const(S32, 0))
            b.store(holds, 0, b.and_(b.load(holds, PRED, 0), is_finite))
        return b.load(holds, PRED, 0)

    def write(
        self, softmax: OnlineSoftmax, write: Callable[[IndexValue, Sequence[Value]], None]
    ) -> None:
        """Write the result, or the sums and statistics of a part of the keys.

        Args:
            softmax: of all keys, finished.
            write: writes all sums to a part, each row times its factor.
        """
        k, b, m, spread = self.k, self.k.b, self.k.math, self.spread
        count = len(softmax.patch.rows)
        maxima, totals = (
            [b.load(slots, F32, number) for number in range(count)]
            for slots in (softmax.maxima, softmax.totals)
        )
        if spread.parts == 1:
            pairs = zip(totals, maxima, strict=True)
            write(self.part, [softmax.inverse(*pair) for pair in pairs])
            return
        write(self.part, [b.const(F32, 1)] * count)
        lane = m.rem(k.thread("x"), softmax.patch.lanes)
        for number, row in enumerate(softmax.patch.rows):
            at_row = m.add(self.first_row, row)
            is_mine = [m.compare("EQ", lane, 0)]
            is_mine.append(m.compare("LT", at_row, spread.problem.scores.rows.count))
            with k.body.when(k.body.all_of(is_mine)):
                for array, result in zip(part_statistics(k, spread), (maxima, totals), strict=True):
                    array.store(m, (self.part, self.head, at_row), result[number])
