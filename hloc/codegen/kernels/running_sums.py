"""Accumulators of reductions in registers, and the loops that fill several at once.

Sums of floats are added in blocks, and the blocks in f64, so that the error does not grow with the
number of addends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import (
    Accumulators,
    combine,
    identity_of,
    is_float_sum,
    plain_reducer,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.dtypes import F64
from hloc.ir.instruction import Instruction

SUM_BLOCK = 1024
"""Addends that are summed in the type of the result before they are added to the f64 total."""


class RunningSum:
    """The accumulators of one reduction, which may be variadic."""

    def __init__(self, k: KernelContext, inst: Instruction, addends: int = 0) -> None:
        self.k, self.inst = k, inst
        self.sums = Accumulators(k.g, inst, addends)
        self.reducer = plain_reducer(inst.called[0])
        self.lanes: LaneResults | None = None
        for number, start in enumerate(self.sums.starts):
            self.sums.start(number, k.read(start, ()))

    @property
    def inputs(self) -> Sequence[Instruction]:
        """The arrays that are reduced."""
        return self.sums.inputs

    def add(self, elements: Sequence[Value]) -> None:
        """Combine one element of every input with the results."""
        if self.lanes is not None:
            self.lanes.add(elements[0])
        else:
            self.sums.add(elements)

    def spread(self, b: LaneBuilder, copies: int) -> None:
        """Accumulate per lane from here on, in `copies` independent accumulators."""
        self.lanes = LaneResults(self, b, copies)

    def gather(self) -> None:
        """Combine the accumulators of all lanes with the results from before `spread`."""
        assert self.lanes is not None
        total, self.lanes = self.lanes.total(), None
        self.sums.add([total])

    def finish(self) -> list[Value]:
        """Return the results."""
        return self.sums.finish()


class LaneResults:
    """Accumulators of a plain reducer, one per lane.

    Attributes:
        copy: number of the accumulator in use; consecutive vectors use independent ones.
        counted: mask of the lanes that are accumulated, None for all.
    """

    def __init__(self, running: RunningSum, b: LaneBuilder, copies: int) -> None:
        self.b, self.running, self.copy = b, running, 0
        self.counted: Value | None = None
        (self.dtype,) = running.sums.dtypes
        self.identity = b.const(self.dtype, identity_of(running.reducer, self.dtype))
        self.slots = [b.lane_slot(self.dtype) for _ in range(copies)]
        for slot in self.slots:
            b.store(slot, 0, self.identity)

    def add(self, element: Value) -> None:
        """Combine one element per lane with the results."""
        b, slot = self.b, self.slots[self.copy]
        new = b.convert(element, self.dtype)
        if self.counted is not None:
            new = b.select(self.counted, new, self.identity)
        b.store(slot, 0, self._combined(b.load(slot, self.dtype, 0), new))

    def total(self) -> Value:
        """Return the reduction of all lanes and copies."""
        found = [self.b.load(slot, self.dtype, 0) for slot in self.slots]
        while len(found) > 1:
            found = [self._combined(*found[i : i + 2]) for i in range(0, len(found), 2)]
        return self.b.folded(self.running.reducer, found[0])

    def _combined(self, left: Value, right: Value) -> Value:
        (value,) = combine(self.running.k.g, self.running.sums.computation, [left], [right])
        return value


class BlockSum(RunningSum):
    """A long sum of floats: blocks in its own type, their total in f64."""

    def __init__(self, k: KernelContext, inst: Instruction) -> None:
        super().__init__(k, inst)
        self.total = k.b.allocate(F64)
        k.b.store(self.total, 0, k.b.convert(self.k.read(inst.operands[1], ()), F64))
        (self.slot,), (self.dtype,) = self.sums.slots, self.sums.dtypes

    def start_block(self) -> None:
        """Begin a block at zero."""
        self.k.b.store(self.slot, 0, self.k.b.const(self.dtype, 0))

    def end_block(self) -> None:
        """Add the block to the total."""
        b = self.k.b
        part = b.convert(b.load(self.slot, self.dtype, 0), F64)
        b.store(self.total, 0, b.fadd(b.load(self.total, F64, 0), part))

    def finish(self) -> list[Value]:
        """Return the total."""
        b = self.k.b
        return [b.convert(b.load(self.total, F64, 0), self.inst.array.dtype)]


def running_sum(k: KernelContext, inst: Instruction, addends: int) -> RunningSum:
    """Return the accumulators of a reduction of `addends` elements, at their initial values."""
    if is_float_sum(inst):
        return BlockSum(k, inst) if addends > SUM_BLOCK else RunningSum(k, inst)
    return RunningSum(k, inst, addends)


def feed(
    k: KernelContext,
    dims: Sequence[int],
    order: Sequence[int],
    sums: Sequence[RunningSum],
    element: Callable[[list[IndexValue]], None],
    before_block: Callable[[IndexValue, IndexValue], None] | None = None,
) -> None:
    """Run `element` for every index of the dimensions in `order`, slowest first.

    `element` is called with the index by dimension and adds to `sums`; blocks begin and end here.
    `before_block` is called with the range of the fastest dimension that comes next.
    """
    blocks = [s for s in sums if isinstance(s, BlockSum)]
    if not blocks:
        if before_block is not None:
            before_block(0, dims[order[-1]])
        with k.body.nest(dims, order) as at:
            element(at)
        return
    *slow, last = order
    size = dims[last]
    with ExitStack() as stack:
        at = stack.enter_context(k.body.nest(dims, slow))
        first = stack.enter_context(k.body.loop(0, size, SUM_BLOCK))
        end = block_end(k, first, size, SUM_BLOCK)
        if before_block is not None:
            before_block(first, end)
        for block in blocks:
            block.start_block()
        with k.body.loop(first, end) as position:
            index = list(at)
            index[last] = position
            element(index)
        for block in blocks:
            block.end_block()


def block_end(k: KernelContext, first: IndexValue, size: int, block: int) -> IndexValue:
    """Return the end of the block that begins at `first`."""
    end = k.math.add(first, block)
    return end if size % block == 0 else k.math.minimum(end, size)
