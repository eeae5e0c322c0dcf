"""Loops that accumulate several contiguous elements at a time, one per lane of a vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Lanes as LaneValues
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import Lanes, lanes_of
from hloc.codegen.kernels.running_sums import SUM_BLOCK, BlockSum, RunningSum, block_end, feed
from hloc.dtypes import PRED
from hloc.ir.instruction import Instruction

_COPIES = ((4, 4), (24, 2))
"""Pairs (n, copies): elements of at most n operations use this many copies of accumulators."""

_FUNCTION_OPERATIONS = 16
"""Operations that a function such as exp counts as."""

Element = Callable[[list[IndexValue]], None]


def feed_rows(
    k: KernelContext,
    dims: Sequence[int],
    order: Sequence[int],
    sums: Sequence[RunningSum],
    element: Element,
    before_block: Callable[[IndexValue, IndexValue], None] | None = None,
    also: Sequence[Instruction] = (),
) -> None:
    """Run `element` as `running_sums.feed` does, in lanes where possible.

    `also` are further instructions whose elements `element` computes.
    """
    lanes = lanes_of(k)
    is_plain = all(total.reducer for total in sums)
    size = dims[order[-1]] if order else 0
    fits = lanes is not None and (lanes.fit(size) or lanes.fit_part(size))
    if lanes is None or not is_plain or not fits:
        k.is_final = False
        feed(k, dims, order, sums, element, before_block)
        return
    work = operations_of(k, [*also, *(operand for total in sums for operand in total.inputs)])
    _Rows(k, lanes, dims, order, sums, element, work).feed(before_block)


def operations_of(k: KernelContext, wanted: Sequence[Instruction]) -> int:
    """Estimate the operations for one element of each instruction in `wanted`."""
    seen: set[Instruction] = set()
    waiting, count = list(wanted), 0
    while waiting:
        inst = waiting.pop()
        if inst in seen or inst in k.frame.sources:
            continue
        seen.add(inst)
        if inst.opcode.elemental is not None:
            count += _FUNCTION_OPERATIONS if inst.opcode.transcendental else 1
        waiting += inst.operands
    return count


class _Rows:
    """Rows of whole vectors: several at a time, then one at a time, then the last elements."""

    def __init__(
        self,
        k: KernelContext,
        lanes: Lanes,
        dims: Sequence[int],
        order: Sequence[int],
        sums: Sequence[RunningSum],
        element: Element,
        operations: int,
    ) -> None:
        """Choose how many vectors the inner loop takes at once: more copies for cheap elements.

        Several running sums hide the latency of one; short rows take fewer.
        """
        self.k, self.lanes, self.dims, self.sums = k, lanes, dims, sums
        *self.slow, self.last = order
        self.element = element
        self.size = dims[self.last]
        self.copies = next((copies for most, copies in _COPIES if operations <= most), 1)
        while self.copies > 1 and self.size < self.copies * lanes.count:
            self.copies //= 2
        self.step = self.copies * lanes.count
        self.several = self.size - self.size % self.step

    def feed(self, before_block: Callable[[IndexValue, IndexValue], None] | None) -> None:
        """Write the loops."""
        k = self.k
        blocks = [total for total in self.sums if isinstance(total, BlockSum)]
        others = [total for total in self.sums if not isinstance(total, BlockSum)]
        self._spread(others)
        if self.size < self.lanes.count:
            self._short_rows(blocks)
            for total in others:
                total.gather()
            return
        with k.body.nest(self.dims, self.slow) as at:
            block = SUM_BLOCK if blocks else self.several
            with k.body.loop(0, self.several, block) as first:
                end: IndexValue = k.math.add(first, block)
                if self.several % block:
                    end = k.math.minimum(end, self.several)
                if before_block is not None:
                    before_block(first, end)
                self._start_blocks(blocks)
                stop: IndexValue = k.math.sub(end, first) if self.several % block else block
                with k.body.loop(0, stop, self.step) as offset:
                    position = k.math.add(first, offset)
                    for copy in range(self.copies):
                        self._add(at, k.math.add(position, copy * self.lanes.count), copy)
                self._end_blocks(blocks)
            if self.several < self.size:
                if before_block is not None:
                    before_block(self.several, self.size)
                self._start_blocks(blocks)
                self._add_rest(at)
                self._end_blocks(blocks)
        for total in others:
            total.gather()

    def _short_rows(self, blocks: Sequence[BlockSum]) -> None:
        """Accumulate rows shorter than a vector, one at a time; a block is several rows."""
        k, counted = self.k, range(self.size)
        if not blocks:
            with k.body.nest(self.dims, self.slow) as at, self.lanes.b.first_lanes(self.size):
                self._add(at, 0, 0, counted)
            return
        *outer, row = self.slow
        size = self.dims[row]
        with k.body.nest(self.dims, outer) as at, k.body.loop(0, size, SUM_BLOCK) as first:
            self._start_blocks(blocks)
            with (
                k.body.loop(first, block_end(k, first, size, SUM_BLOCK)) as position,
                self.lanes.b.first_lanes(self.size),
            ):
                index = list(at)
                index[row] = position
                self._add(index, 0, 0, counted)
            self._end_blocks(blocks)

    def _add_rest(self, at: list[IndexValue]) -> None:
        count = self.lanes.count
        whole = self.size - self.size % count
        if self.several < whole:  # else its elements would be emitted and discarded
            with self.k.body.loop(self.several, whole, count) as position:
                self._add(at, position, 0)
        if whole < self.size:
            counted = range(count - (self.size - whole), count)
            self._add(at, self.size - count, 0, counted)

    def _add(
        self, at: list[IndexValue], position: IndexValue, copy: int, counted: range | None = None
    ) -> None:
        """Accumulate one vector at `position`, or only some of its lanes."""
        mask = None
        if counted is not None:
            bits = ["true" if lane in counted else "false" for lane in range(self.lanes.count)]
            text = ", ".join(f"i1 {bit}" for bit in bits)
            mask = LaneValues(PRED, f"<{text}>")
        for total in self.sums:
            assert total.lanes is not None
            total.lanes.copy, total.lanes.counted = copy, mask
        index = list(at)
        index[self.last] = self.lanes.at(position)
        with self.k.body.scope(), self.lanes.inside():
            self.element(index)

    def _spread(self, sums: Sequence[RunningSum]) -> None:
        for total in sums:
            total.spread(self.lanes.b, self.copies)

    def _start_blocks(self, blocks: Sequence[BlockSum]) -> None:
        for block in blocks:
            block.start_block()
        self._spread(blocks)

    def _end_blocks(self, blocks: Sequence[BlockSum]) -> None:
        for block in blocks:
            block.gather()
            block.end_block()
