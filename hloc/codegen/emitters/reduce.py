"""Reductions, with producers fused into their inputs.

Rows (the fastest dimension of the input is reduced) keep running results in registers; columns keep
a strip of them in the first-level cache and go through the input in memory order. Sums of floats
are added up in blocks, and the blocks in f64, so that 2**24 addends lose no more than a few do.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hloc.codegen.emitters.context import Emitter, KernelContext, no_scratch, root_of
from hloc.codegen.index import loop_order
from hloc.codegen.loops import IndexValue
from hloc.codegen.reductions import Accumulators, combine, plain_reducer, sum_dtype
from hloc.codegen.values import Value
from hloc.dtypes import F64, DType
from hloc.ir.instruction import Instruction

SUM_BLOCK = 1024
"""Addends that are summed in the type of the result before they go to the f64 total."""

STRIP = 256
"""Columns whose running results are kept together."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The loops of one reduction, slowest first.

    Attributes:
        kept, reduced: dimensions of the input that are larger than 1.
        strip: the fastest dimension, if it is kept.
    """

    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    strip: int | None
    addends: int


def _plan(root: Instruction) -> Plan:
    shape = root.operands[0].array
    dims = set(root.attributes.dimensions)
    order = loop_order(shape)
    kept = [d for d in order if d not in dims]
    reduced = [d for d in order if d in dims]
    addends = prod(shape.dims[d] for d in dims)
    strip = kept.pop() if kept and order[-1] == kept[-1] and reduced else None
    return Plan(tuple(kept), tuple(reduced), strip, addends)


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a reduce."""
    return root_of(inst).opcode.name == "reduce"


def extent(inst: Instruction) -> int:
    """Return the size of the outermost kept dimension, or the number of strips."""
    root = root_of(inst)
    plan, dims = _plan(root), root.operands[0].array.dims
    if plan.kept:
        return dims[plan.kept[0]]
    return -(-dims[plan.strip] // STRIP) if plan.strip is not None else 1


def emit(k: KernelContext) -> None:
    """Write the loops."""
    plan = _plan(k.root)
    dims = k.root.operands[0].array.dims
    if plan.addends == 0:
        _fill(k)
    elif plan.kept:
        with k.body.nest(dims, plan.kept, (k.begin, k.end)) as at:
            _inner(k, plan, at, None)
    elif plan.strip is not None:
        with k.body.loop(k.begin, k.end) as strip:
            _inner(k, plan, [0] * len(dims), strip)
    else:
        _inner(k, plan, [0] * len(dims), None)


def _fill(k: KernelContext) -> None:
    """Nothing is reduced: every result is its initial value."""
    starts = k.root.operands[len(k.outputs) :]
    for start, output in zip(starts, k.outputs, strict=True):
        with k.body.nest(output.dims, range(len(output.dims))) as at:
            output.store(k.math, tuple(at), k.read(start, ()))


def _inner(k: KernelContext, plan: Plan, at: list[IndexValue], strip: IndexValue | None) -> None:
    if plan.strip is None:
        _row(k, plan, at)
        return
    size = k.root.operands[0].array.dims[plan.strip]
    if strip is not None:
        _strip(k, plan, at, k.math.mul(strip, STRIP))
        return
    with k.body.loop(0, size, STRIP) as first:
        _strip(k, plan, at, first)


def _is_float_sum(root: Instruction) -> bool:
    return root.array.dtype.is_float if _plain_sum(root) else False


def _plain_sum(root: Instruction) -> bool:
    return len(root.operands) == 2 and plain_reducer(root.called[0]) == "add"


# ---------------------------------------------------------------- rows


def _row(k: KernelContext, plan: Plan, at: list[IndexValue]) -> None:
    if plan.addends > SUM_BLOCK and _is_float_sum(k.root):
        results = [_long_sum(k, plan, at)]
    else:
        sums = Accumulators(k.g, k.root)
        for number, start in enumerate(sums.starts):
            sums.start(number, k.read(start, ()))
        dims = k.root.operands[0].array.dims
        with k.body.nest(dims, plan.reduced) as inner:
            index = _joined(at, inner, plan.reduced)
            sums.add([k.read(operand, index) for operand in sums.inputs])
        results = sums.finish()
    index = tuple(at[d] for d in range(len(at)) if d not in k.root.attributes.dimensions)
    for output, value in zip(k.outputs, results, strict=True):
        output.store(k.math, index, value)


def _joined(
    outer: list[IndexValue], inner: list[IndexValue], dims: tuple[int, ...]
) -> tuple[IndexValue, ...]:
    return tuple(inner[d] if d in dims else outer[d] for d in range(len(outer)))


def _long_sum(k: KernelContext, plan: Plan, at: list[IndexValue]) -> Value:
    """Return the sum of a row, block by block."""
    b = k.b
    operand, start = k.root.operands
    dtype = sum_dtype(k.root.called[0], k.root.array.dtype)
    total, block = b.allocate(F64), b.allocate(dtype)
    b.store(total, 0, b.convert(k.read(start, ()), F64))
    *outer, last = plan.reduced
    size = operand.array.dims[last]
    with (
        k.body.nest(operand.array.dims, outer) as inner,
        k.body.loop(0, size, SUM_BLOCK) as first,
    ):
        b.store(block, 0, b.const(dtype, 0))
        stop = _block_end(k, first, size, SUM_BLOCK)
        with k.body.loop(first, stop) as position:
            index = list(_joined(at, inner, tuple(outer)))
            index[last] = position
            element = b.convert(k.read(operand, tuple(index)), dtype)
            so_far = b.load(block, dtype, 0)
            b.store(block, 0, combine(k.g, k.root.called[0], [so_far], [element])[0])
        part = b.convert(b.load(block, dtype, 0), F64)
        b.store(total, 0, b.fadd(b.load(total, F64, 0), part))
    return b.convert(b.load(total, F64, 0), k.root.array.dtype)


def _block_end(k: KernelContext, first: IndexValue, size: int, block: int) -> IndexValue:
    end = k.math.add(first, block)
    return end if size % block == 0 else k.math.minimum(end, size)


# ---------------------------------------------------------------- columns


def _strip(k: KernelContext, plan: Plan, at: list[IndexValue], first: IndexValue) -> None:
    """Reduce the columns from `first` on, at most `STRIP` of them."""
    assert plan.strip is not None
    size = k.root.operands[0].array.dims[plan.strip]
    width = size if size <= STRIP else k.math.sub(_block_end(k, first, size, STRIP), first)
    columns = _Columns(k, plan, at, first, width)
    if plan.addends > SUM_BLOCK and _is_float_sum(k.root):
        columns.long_sum()
    else:
        columns.reduce()


class _Columns:
    """A strip of running results, one per column, for every result of the reduction."""

    def __init__(
        self,
        k: KernelContext,
        plan: Plan,
        at: list[IndexValue],
        first: IndexValue,
        width: IndexValue,
    ) -> None:
        self.k, self.plan, self.at, self.first, self.width = k, plan, at, first, width
        self.computation = k.root.called[0]
        count = len(k.outputs)
        self.inputs, self.starts = k.root.operands[:count], k.root.operands[count:]
        self.dtypes = [sum_dtype(self.computation, s.array.dtype) for s in self.starts]
        self.dims = self.inputs[0].array.dims

    def reduce(self) -> None:
        """Fold all elements into strips that begin with the initial values."""
        slots = self._slots(self.dtypes)
        values = [
            self.k.b.convert(self.k.read(start, ()), dtype)
            for start, dtype in zip(self.starts, self.dtypes, strict=True)
        ]
        self._fill(slots, values)
        with self.k.body.nest(self.dims, self.plan.reduced) as inner:
            self._add_row(slots, inner, self.plan.reduced)
        with self.k.body.loop(0, self.width) as column:
            self._finish(column, [
                self.k.b.load(s, d, column)
                for s, d in zip(slots, self.dtypes, strict=True)
            ])  # fmt: skip

    def long_sum(self) -> None:
        """Sum blocks of rows, then the blocks in f64."""
        k, b = self.k, self.k.b
        blocks, totals = self._slots(self.dtypes), self._slots([F64])
        self._fill(totals, [b.convert(k.read(self.starts[0], ()), F64)])
        *outer, last = self.plan.reduced
        size = self.dims[last]
        with k.body.nest(self.dims, outer) as inner, k.body.loop(0, size, SUM_BLOCK) as first:
            self._fill(blocks, [b.const(self.dtypes[0], 0)])
            with k.body.loop(first, _block_end(k, first, size, SUM_BLOCK)) as position:
                at = list(inner)
                at[last] = position
                self._add_row(blocks, at, self.plan.reduced)
            with k.body.loop(0, self.width) as column:
                part = b.convert(b.load(blocks[0], self.dtypes[0], column), F64)
                b.store(totals[0], column, b.fadd(b.load(totals[0], F64, column), part))
        with k.body.loop(0, self.width) as column:
            self._finish(column, [b.load(totals[0], F64, column)])

    def _slots(self, dtypes: list[DType]) -> list[Value]:
        assert self.plan.strip is not None
        count = min(STRIP, self.dims[self.plan.strip])
        return [self.k.b.allocate(dtype, count) for dtype in dtypes]

    def _fill(self, slots: list[Value], values: list[Value]) -> None:
        with self.k.body.loop(0, self.width) as column:
            for slot, value in zip(slots, values, strict=True):
                self.k.b.store(slot, column, value)

    def _add_row(self, slots: list[Value], inner: list[IndexValue], dims: tuple[int, ...]) -> None:
        k, strip = self.k, self.plan.strip
        assert strip is not None
        with k.body.loop(0, self.width) as column:
            index = list(_joined(self.at, inner, dims))
            index[strip] = k.math.add(self.first, column)
            elements = [
                k.b.convert(k.read(operand, tuple(index)), dtype)
                for operand, dtype in zip(self.inputs, self.dtypes, strict=True)
            ]
            sums = [k.b.load(s, d, column) for s, d in zip(slots, self.dtypes, strict=True)]
            new = combine(k.g, self.computation, sums, elements)
            for slot, value in zip(slots, new, strict=True):
                k.b.store(slot, column, value)

    def _finish(self, column: IndexValue, values: list[Value]) -> None:
        k = self.k
        index = list(self.at)
        assert self.plan.strip is not None
        index[self.plan.strip] = k.math.add(self.first, column)
        kept = tuple(index[d] for d in range(len(index)) if d not in k.root.attributes.dimensions)
        for output, value in zip(k.outputs, values, strict=True):
            output.store(k.math, kept, k.b.convert(value, output.dtype))


EMITTER = Emitter("reduce", can_emit, emit, extent, no_scratch)
