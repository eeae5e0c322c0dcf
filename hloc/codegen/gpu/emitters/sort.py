"""Sorts: runs are merged by rank, every thread placing one element.

The place of an element in the merge of two runs is its place in its own run plus the number of
elements of the other run that come before it, which a binary search finds. Equal elements of the
left run come first, so the sort is stable. Runs up to a block's size grow in shared memory; longer
ones in launches of their own, from one array to another and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from hloc.codegen.emitters.context import array_leaves, root_of
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.kernel import GpuEmitter
from hloc.codegen.index import Index
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.values import Value
from hloc.dtypes import S64
from hloc.ir.instruction import Instruction

LoadFunction: TypeAlias = Callable[[IndexValue], list[Value]]
StoreFunction: TypeAlias = Callable[[IndexValue, Sequence[Value]], None]

_MOST_THREADS = 1024
_SHARED_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class Plan:
    """How a sort is spread over threads.

    Attributes:
        dim: that is sorted, of `size` elements; `rows` is the number of sorts.
        chunk: elements that one block sorts: a power of two.
        merges: launches that join chunks.
    """

    dim: int
    size: int
    rows: int
    chunk: int

    @property
    def chunks(self) -> int:
        """Chunks of a row; the last may be short."""
        return -(-self.size // self.chunk)

    @property
    def merges(self) -> int:
        return (self.chunks - 1).bit_length()


def plan_of(inst: Instruction) -> Plan:
    """Return how the sort at the root of `inst` is spread."""
    root = root_of(inst)
    (dim,) = root.attributes.dimensions
    dims = root.operands[0].array.dims
    element_bytes = sum(operand.array.dtype.storage_bytes for operand in root.operands)
    chunk = 1 << max(dims[dim] - 1, 0).bit_length()
    while chunk > _MOST_THREADS or (chunk > 1 and 2 * chunk * element_bytes > _SHARED_BYTES):
        chunk //= 2
    return Plan(dim, dims[dim], prod(dims) // dims[dim] if dims[dim] else 0, chunk)


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a sort."""
    return root_of(inst).opcode.name == "sort"


def scratch_bytes(inst: Instruction) -> int:
    """Return room for a second copy of all arrays, if chunks are merged."""
    if plan_of(inst).merges == 0:
        return 0
    return sum(_room(shape.size_bytes) for shape in array_leaves(inst.shape))


def _room(size_bytes: int) -> int:
    return -(-size_bytes // 64) * 64


def emit(w: LaunchWriter) -> None:
    """Write a launch that sorts chunks, and one per doubling of the runs."""
    plan = plan_of(w.inst)
    with w.launch((plan.chunks * plan.rows, 1, 1), (plan.chunk, 1, 1)) as k:
        _Sorter(k, plan).chunk()
    for number in range(plan.merges):
        with w.each(plan.rows * plan.size) as (k, thread):
            _Sorter(k, plan).merge(thread, number)


class _Sorter:
    """One launch of a sort."""

    def __init__(self, k: GpuContext, plan: Plan) -> None:
        self.k, self.plan = k, plan
        self.dims = k.root.operands[0].array.dims
        (self.computation,) = k.root.called
        self.rest = [d for d in range(len(self.dims)) if d != plan.dim]

    def _index(self, row: IndexValue, position: IndexValue) -> Index:
        """Return the index of element `position` of sort number `row`."""
        found: list[IndexValue] = [0] * len(self.dims)
        sizes = [self.dims[d] for d in self.rest]
        for dim, at in zip(self.rest, self.k.math.delinear(row, sizes), strict=True):
            found[dim] = at
        found[self.plan.dim] = position
        return tuple(found)

    def _copies(self) -> list[IrArray]:
        """Return the arrays in scratch memory."""
        offset = 0
        copies = []
        for output, shape in zip(self.k.outputs, array_leaves(self.k.inst.shape), strict=True):
            copies.append(self.k.scratch_array(offset, output.dtype, output.dims))
            offset += _room(shape.size_bytes)
        return copies

    def _arrays(self, number: int) -> list[IrArray]:
        """Return the arrays that hold the result of `number` merges; the last are the outputs."""
        last = (self.plan.merges - number) % 2 == 0
        return list(self.k.outputs) if last else self._copies()

    # ---- chunks

    def chunk(self) -> None:
        """Sort one chunk of one row in shared memory."""
        k, m, plan = self.k, self.k.math, self.plan
        thread = k.thread("x")
        row = m.div(k.block_index("x"), plan.chunks)
        first = m.mul(m.rem(k.block_index("x"), plan.chunks), plan.chunk)
        count = m.minimum(m.sub(plan.size, first), plan.chunk)
        inside = m.compare("LT", thread, count)
        index = self._index(row, m.add(first, thread))
        arrays = [
            k.shared_array(operand.array.dtype, (2 * plan.chunk,)) for operand in k.root.operands
        ]
        with k.body.when(inside):
            values = [k.read(operand, index) for operand in k.root.operands]
            for array, value in zip(arrays, values, strict=True):
                array.store(m, (thread,), value)
        k.barrier()
        steps = plan.chunk.bit_length() - 1
        with k.body.loop(0, steps) as step:
            source = m.mul(m.rem(step, 2), plan.chunk)
            target = m.sub(plan.chunk, source)
            run = self._power(step)
            with k.body.when(inside):
                self._place(
                    thread,
                    run,
                    count,
                    m.add(step, 1),
                    lambda at: [a.load(m, (m.add(source, at),)) for a in arrays],
                    lambda at, values: _store(k, arrays, (m.add(target, at),), values),
                )
            k.barrier()
        result = m.add(thread, steps % 2 * plan.chunk)
        with k.body.when(inside):
            values = [array.load(m, (result,)) for array in arrays]
            _store(k, self._arrays(0), index, values)

    def _power(self, exponent: IndexValue) -> IndexValue:
        if isinstance(exponent, int):
            return 1 << exponent
        return self.k.b.shl(Value(S64, "1"), exponent)

    # ---- runs of whole chunks

    def merge(self, thread: IndexValue, number: int) -> None:
        """Place one element in the merge of runs that `number` merges have made."""
        k, m, plan = self.k, self.k.math, self.plan
        row, position = m.div(thread, plan.size), m.rem(thread, plan.size)
        source, target = self._arrays(number), self._arrays(number + 1)
        run = plan.chunk << number
        self._place(
            position,
            run,
            plan.size,
            run.bit_length(),
            lambda at: [array.load(m, self._index(row, at)) for array in source],
            lambda at, values: _store(k, target, self._index(row, at), values),
        )

    # ---- both

    def _place(
        self,
        position: IndexValue,
        run: IndexValue,
        count: IndexValue,
        steps: IndexValue,
        load: LoadFunction,
        store: StoreFunction,
    ) -> None:
        """Move element `position` to its place in the merge of its run and the next or last one.

        Args:
            position: of the element, below `count`.
            run: length of sorted runs, a power of two; the last one may be short.
            count: elements in all.
            steps: of a binary search in a run.
            load: reads all arrays at a place.
            store: writes all arrays at a place.
        """
        k, m = self.k, self.k.math
        mine = load(position)
        pair = self._and_not(position, m.sub(m.mul(run, 2), 1))
        start = self._and_not(position, m.sub(run, 1))
        is_left = m.compare("EQ", pair, start)
        other = self._either(is_left, m.add(start, run), pair)
        low, high = k.b.allocate(S64), k.b.allocate(S64)
        k.b.store(low, 0, m.value(m.minimum(other, count)))
        k.b.store(high, 0, m.value(m.minimum(m.add(other, run), count)))
        with k.body.loop(0, steps):
            first, last = k.b.load(low, S64, 0), k.b.load(high, S64, 0)
            with k.body.when(m.compare("LT", first, last)):
                middle = m.div(m.add(first, last), 2)
                precedes = self._precedes(load(middle), mine, is_left)
                following = m.value(m.add(middle, 1))
                k.b.store(low, 0, k.b.select(precedes, following, first))
                k.b.store(high, 0, k.b.select(precedes, last, m.value(middle)))
        found = k.b.load(low, S64, 0)
        before = m.sub(found, self._either(m.compare("LT", other, count), other, count))
        store(m.add(m.add(pair, m.sub(position, start)), before), mine)

    def _and_not(self, position: IndexValue, bits: IndexValue) -> IndexValue:
        """Return `position` without its low bits."""
        m = self.k.math
        return m.sub(position, self.k.b.and_(m.value(position), m.value(bits)))

    def _either(self, condition: Value, yes: IndexValue, no: IndexValue) -> IndexValue:
        m = self.k.math
        return self.k.b.select(condition, m.value(yes), m.value(no))

    def _precedes(self, others: Sequence[Value], mine: Sequence[Value], is_left: Value) -> Value:
        """Return whether an element of the other run comes before that of this thread.

        Seen from the left run it must be less; seen from the right one, not greater.
        """
        b = self.k.b
        pairs = list(zip(others, mine, strict=True))
        left = [b.select(is_left, other, own) for other, own in pairs]
        right = [b.select(is_left, own, other) for other, own in pairs]
        arguments = [value for pair in zip(left, right, strict=True) for value in pair]
        (less,) = self.k.g.inline(self.computation, arguments)
        return b.xor(less, b.xor(is_left, b.const(less.dtype, True)))


def _store(k: GpuContext, arrays: Sequence[IrArray], index: Index, values: Sequence[Value]) -> None:
    for array, value in zip(arrays, values, strict=True):
        array.store(k.math, index, value)


EMITTER = GpuEmitter("sort", can_emit, emit, scratch_bytes)
