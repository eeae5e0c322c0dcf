"""topk: blocks sort chunks of a row and keep the first elements of each, until one chunk is left.

If k is most of a chunk, sorted runs are merged instead until a row is one run, and its first
elements are the result. The order is total, with ties broken by position, so the result does not
depend on the chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.sort.rank_merge import RankMerge, chunk_for, store_all
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.order_key import order_key
from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes


@dataclass(frozen=True, slots=True)
class TopkPlan:
    """How rows are split into chunks.

    Attributes:
        sizes: elements of a row before each round; the last round has one chunk.
        chunk: elements that a block sorts.
        merges: launches that merge sorted chunks, if a single round keeps whole rows.
    """

    sizes: tuple[int, ...]
    chunk: int
    k: int
    rows: int
    merges: int = 0

    def chunks(self, number: int) -> int:
        """Chunks of a row in round `number`; the last may be short."""
        return -(-self.sizes[number] // self.chunk)


def _plan_of(root: Instruction) -> TopkPlan:
    """Return how the rows of `root` are split."""
    *outer, size = root.operands[0].array.dims
    count: int = root.attributes.k
    chunk = chunk_for(size, root.operands[0].array.dtype.storage_bytes + S32.storage_bytes)
    sizes = [size]
    if size > chunk and 2 * count > chunk:
        return TopkPlan((size,), chunk, count, prod(outer), (-(-size // chunk) - 1).bit_length())
    while sizes[-1] > chunk:
        whole, rest = divmod(sizes[-1], chunk)
        sizes.append(whole * count + min(rest, count))
    return TopkPlan(tuple(sizes), chunk, count, prod(outer))


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a topk; scratch memory holds the results of two rounds, or of two merges."""
    root = root_of(inst)
    if not root.is_a("topk"):
        return None
    rows = _plan_of(root)
    return GpuPlan(partial(emit, rows), scratch_bytes=2 * sum(_rooms(root, rows)))


def _rooms(root: Instruction, plan: TopkPlan) -> tuple[int, int]:
    """Return the bytes of the values, and of the positions, that a round or a merge keeps."""
    kept = plan.rows * (plan.sizes[0] if plan.merges else max(plan.sizes[1:], default=0))
    value, place = (
        aligned_bytes(kept * dtype.storage_bytes) for dtype in (root.operands[0].array.dtype, S32)
    )
    return value, place


def emit(plan: TopkPlan, w: LaunchWriter) -> None:
    """Write a launch per round, and one per doubling of runs that are merged."""
    if not plan.rows * plan.sizes[0]:
        return
    for number in range(len(plan.sizes)):
        with w.launch((plan.rows * plan.chunks(number), 1, 1), (plan.chunk, 1, 1)) as k:
            _Round(k, plan, number).write()
    for number in range(plan.merges):
        with w.each(plan.rows * plan.sizes[0]) as (k, thread):
            _Round(k, plan, number).merge(thread)


class _Round:
    """One launch: every block sorts a chunk of a row, or every thread places an element."""

    def __init__(self, k: GpuContext, plan: TopkPlan, number: int) -> None:
        self.k, self.plan, self.number = k, plan, number
        self.dtype = k.root.operands[0].array.dtype

    def _kept(self, number: int) -> list[IrArray]:
        """Return the values and the positions before round or merge `number`."""
        values, places = _rooms(self.k.root, self.plan)
        first = number % 2 * (values + places)
        shape = (self.plan.rows, self.plan.sizes[0 if self.plan.merges else number])
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
        kept = plan.chunk if plan.merges else plan.k
        with k.body.when(m.compare("LT", thread, m.minimum(count, kept))):
            values = [array.load(m, (m.add(thread, half * plan.chunk),)) for array in arrays]
            if plan.merges:
                store_all(k, self._kept(0), (row, m.add(first, thread)), values)
            elif chunks == 1:
                store_all(k, k.outputs, (*self._outer(row), thread), values)
            else:
                place = m.add(m.mul(part, plan.k), thread)
                store_all(k, self._kept(self.number + 1), (row, place), values)

    def merge(self, thread: IndexValue) -> None:
        """Place one element in the merge of two runs; the last merge keeps what is wanted."""
        k, m, plan = self.k, self.k.math, self.plan
        size, run = plan.sizes[0], plan.chunk << self.number
        row, position = m.div(thread, size), m.rem(thread, size)
        source, target = self._kept(self.number), self._kept(self.number + 1)

        def store(at: IndexValue, values: Sequence[Value]) -> None:
            if self.number + 1 < plan.merges:
                store_all(k, target, (row, at), values)
                return
            with k.body.when(m.compare("LT", at, plan.k)):
                store_all(k, k.outputs, (*self._outer(row), at), values)

        RankMerge(k, self._less).place(
            position,
            run,
            size,
            run.bit_length(),
            lambda at: [array.load(m, (row, at)) for array in source],
            store,
        )

    def _outer(self, row: IndexValue) -> list[IndexValue]:
        return self.k.math.delinear(row, self.k.root.operands[0].array.dims[:-1])

    def _elements(self, row: IndexValue, position: IndexValue) -> list[Value]:
        """Return the value and the position of an element of this round."""
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


EMITTER = Emitter("topk", plan)
