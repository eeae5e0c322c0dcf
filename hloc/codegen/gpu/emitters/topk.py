"""topk: blocks sort chunks of a row and keep the first elements of each, until one chunk is left.

The order is total, ties by place, so it does not matter how rows are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hloc.codegen.emitters.context import root_of
from hloc.codegen.emitters.radix_sort import order_key
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitters.rank_merge import RankMerge, chunk_for, store_all
from hloc.codegen.gpu.kernel import GpuEmitter
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.values import Value
from hloc.dtypes import S32
from hloc.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows are cut.

    Attributes:
        sizes: elements of a row before each round; the last round has one chunk.
        chunk: elements that a block sorts.
    """

    sizes: tuple[int, ...]
    chunk: int
    k: int
    rows: int

    def chunks(self, number: int) -> int:
        """Chunks of a row in round `number`; the last may be short."""
        return -(-self.sizes[number] // self.chunk)


def plan_of(root: Instruction) -> Plan:
    """Return how the rows of `root` are cut."""
    *outer, size = root.operands[0].array.dims
    count: int = root.attributes.k
    chunk = chunk_for(size, root.operands[0].array.dtype.storage_bytes + S32.storage_bytes)
    sizes = [size]
    while sizes[-1] > chunk:
        whole, rest = divmod(sizes[-1], chunk)
        sizes.append(whole * count + min(rest, count))
    return Plan(tuple(sizes), chunk, count, prod(outer))


def can_emit(inst: Instruction) -> bool:
    """True for a topk whose rows are one chunk, or that keeps at most half of a chunk."""
    root = root_of(inst)
    if root.opcode.name != "topk" or not root.operands[0].array.elements:
        return False
    size = root.operands[0].array.dims[-1]
    chunk = chunk_for(size, root.operands[0].array.dtype.storage_bytes + S32.storage_bytes)
    return size <= chunk or bool(2 * root.attributes.k <= chunk)


def scratch_bytes(inst: Instruction) -> int:
    """Return room for the values and places that two rounds keep."""
    root = root_of(inst)
    return sum(2 * size for size in _rooms(root, plan_of(root)))


def _rooms(root: Instruction, plan: Plan) -> tuple[int, int]:
    """Return the bytes of all values, and of all places, that a round keeps."""
    kept = plan.rows * max(plan.sizes[1:], default=0)
    value, place = (
        -(-kept * dtype.storage_bytes // 64) * 64 for dtype in (root.operands[0].array.dtype, S32)
    )
    return value, place


def emit(w: LaunchWriter) -> None:
    """Write a launch per round."""
    plan = plan_of(root_of(w.inst))
    for number in range(len(plan.sizes)):
        with w.launch((plan.rows * plan.chunks(number), 1, 1), (plan.chunk, 1, 1)) as k:
            _Round(k, plan, number).write()


class _Round:
    """One launch: every block sorts a chunk of a row."""

    def __init__(self, k: GpuContext, plan: Plan, number: int) -> None:
        self.k, self.plan, self.number = k, plan, number
        self.dtype = k.root.operands[0].array.dtype

    def _kept(self, number: int) -> list[IrArray]:
        """Return the values and the places that go into round `number`."""
        values, places = _rooms(self.k.root, self.plan)
        first = number % 2 * (values + places)
        shape = (self.plan.rows, self.plan.sizes[number])
        return [
            self.k.scratch_array(first, self.dtype, shape),
            self.k.scratch_array(first + values, S32, shape),
        ]

    def write(self) -> None:
        """Sort a chunk and keep the first elements."""
        k, m, plan = self.k, self.k.math, self.plan
        thread, chunks = k.thread("x"), plan.chunks(self.number)
        row, part = m.div(k.block_index("x"), chunks), m.rem(k.block_index("x"), chunks)
        first = m.mul(part, plan.chunk)
        count = m.minimum(m.sub(plan.sizes[self.number], first), plan.chunk)
        arrays = [k.shared_array(dtype, (2 * plan.chunk,)) for dtype in (self.dtype, S32)]
        with k.body.when(m.compare("LT", thread, count)):
            store_all(k, arrays, (thread,), self._elements(row, m.add(first, thread)))
        k.barrier()
        half = RankMerge(k, self._less).sort_block(arrays, plan.chunk, thread, count)
        with k.body.when(m.compare("LT", thread, m.minimum(count, plan.k))):
            values = [array.load(m, (m.add(thread, half * plan.chunk),)) for array in arrays]
            if chunks == 1:
                store_all(k, k.outputs, (*self._outer(row), thread), values)
            else:
                place = m.add(m.mul(part, plan.k), thread)
                store_all(k, self._kept(self.number + 1), (row, place), values)

    def _outer(self, row: IndexValue) -> list[IndexValue]:
        return self.k.math.delinear(row, self.k.root.operands[0].array.dims[:-1])

    def _elements(self, row: IndexValue, position: IndexValue) -> list[Value]:
        """Return the value and the place of an element of this round."""
        k, m = self.k, self.k.math
        if self.number:
            return [array.load(m, (row, position)) for array in self._kept(self.number)]
        value = k.read(k.root.operands[0], (*self._outer(row), position))
        return [value, k.b.convert(m.value(position), S32)]

    def _less(self, left: Sequence[Value], right: Sequence[Value]) -> Value:
        b = self.k.b
        largest = self.k.root.attributes.largest
        one, other = (order_key(b, x[0], total=True, descending=largest) for x in (left, right))
        earlier = b.and_(b.compare("EQ", one, other), b.compare("LT", left[1], right[1]))
        return b.or_(b.compare("LT", one, other), earlier)


EMITTER = GpuEmitter("topk", can_emit, emit, scratch_bytes)
