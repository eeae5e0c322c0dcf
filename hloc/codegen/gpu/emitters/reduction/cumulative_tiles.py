"""Scans of tiles within a warp or a block."""

from __future__ import annotations

from collections.abc import Callable

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.collectives import shuffle
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.reduction.cumulative_plan import ScanPlan
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.dtypes import DType


class Tiles:
    """The scan of one tile by all threads of a group together."""

    def __init__(
        self, k: GpuContext, plan: ScanPlan, dtype: DType, joined: Callable[[Value, Value], Value]
    ) -> None:
        self.k, self.plan, self.dtype, self.joined = k, plan, dtype, joined
        self.lane = k.math.rem(k.thread("x"), WARP_THREADS)
        self.warp = k.math.div(k.thread("x"), WARP_THREADS)
        warps = plan.threads // WARP_THREADS
        self.shared = k.shared_array(dtype, (warps,)) if warps > 1 else None
        self.slots = k.b.allocate(dtype, plan.each)
        for i in range(plan.each):
            k.b.store(self.slots, i, k.b.const(dtype, 0))

    def each_element(
        self, tile: IndexValue, end: IndexValue, work: Callable[[int, IndexValue], None]
    ) -> None:
        """Emit `work(number, step)` for the elements of this thread that are below `end`."""
        k, m, each = self.k, self.k.math, self.plan.each
        first = m.add(tile, m.mul(k.thread("x"), each))
        if self.plan.problem.size % self.plan.tile == 0:
            for i in range(each):
                work(i, m.add(first, i))
            return
        whole = m.compare("LE", m.add(first, each), end)
        with k.body.when(whole):
            for i in range(each):
                work(i, m.add(first, i))
        if each == 1:
            return
        with k.body.when(m.compare("GT", m.add(first, each), end)):
            for i in range(each - 1):
                step = m.add(first, i)
                with k.body.when(m.compare("LT", step, end)):
                    work(i, step)

    def scanned(
        self, tile: IndexValue, end: IndexValue, read: Callable[[IndexValue], Value]
    ) -> tuple[list[Value], Value, list[Value]]:
        """Return this thread's scan, the prefix of the earlier lanes, and the totals of all warps.

        The prefix is undefined in the first lane. Elements beyond `end` are undefined, but they
        affect later positions only.
        """
        b, dtype = self.k.b, self.dtype
        self.each_element(tile, end, lambda i, step: b.store(self.slots, i, read(step)))
        mine = [b.load(self.slots, dtype, 0)]
        for i in range(1, self.plan.each):
            mine.append(self.joined(mine[-1], b.load(self.slots, dtype, i)))
        inclusive, offset = mine[-1], 1
        while offset < WARP_THREADS:
            other = shuffle(self.k, "up", inclusive, offset)
            has = self.k.math.compare("GE", self.lane, offset)
            inclusive = b.select(has, self.joined(other, inclusive), inclusive)
            offset *= 2
        return mine, shuffle(self.k, "up", inclusive, 1), self._totals(inclusive)

    def _totals(self, inclusive: Value) -> list[Value]:
        """Return in every thread the last value of each warp."""
        k, m, last = self.k, self.k.math, WARP_THREADS - 1
        if self.shared is None:
            return [shuffle(k, "index", inclusive, last)]
        with k.body.when(m.compare("EQ", self.lane, last)):
            self.shared.store(m, (self.warp,), inclusive)
        k.barrier()
        result = [self.shared.load(m, (number,)) for number in range(self.shared.dims[0])]
        k.barrier()  # before the next tile is stored there
        return result
