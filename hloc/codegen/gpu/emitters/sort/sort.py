"""Sorts: runs are merged by rank, every thread placing one element.

The position of an element in the merge of two runs is its position in its own run plus the number
of elements of the other run that come before it, which a binary search finds. Equal elements of the
left run come first, so the sort is stable. Runs up to a block's size are merged in shared memory;
longer ones in a launch per doubling, back and forth between two arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.sort.rank_merge import RankMerge, chunk_for, store_all
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes
from hloc.shapes import array_leaves


@dataclass(frozen=True, slots=True)
class SortPlan:
    """Work distribution of a sort.

    Attributes:
        dim: the sorted dimension, of `size` elements; `rows` is the number of sorts.
        chunk: elements that one block sorts: a power of two.
        merges: launches that merge chunks.
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


def _plan_of(root: Instruction) -> SortPlan:
    """Return the work distribution of a sort."""
    (dim,) = root.attributes.dimensions
    dims = root.operands[0].array.dims
    element_bytes = sum(operand.array.dtype.storage_bytes for operand in root.operands)
    chunk = chunk_for(dims[dim], element_bytes)
    return SortPlan(dim, dims[dim], prod(dims) // dims[dim] if dims[dim] else 0, chunk)


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a sort; a second copy of all arrays is in scratch memory if chunks are merged."""
    root = root_of(inst)
    if not root.is_a("sort"):
        return None
    spread = _plan_of(root)
    copies = sum(aligned_bytes(shape.size_bytes) for shape in array_leaves(inst.shape))
    return GpuPlan(partial(emit, spread), scratch_bytes=copies if spread.merges else 0)


def emit(plan: SortPlan, w: LaunchWriter) -> None:
    """Write a launch that sorts chunks, and one per doubling of the runs."""
    with w.launch((plan.chunks * plan.rows, 1, 1), (plan.chunk, 1, 1)) as k:
        _Sorter(k, plan).chunk()
    for number in range(plan.merges):
        with w.each(plan.rows * plan.size) as (k, thread):
            _Sorter(k, plan).merge(thread, number)


class _Sorter:
    """One launch of a sort."""

    def __init__(self, k: GpuContext, plan: SortPlan) -> None:
        self.k, self.plan = k, plan
        self.dims = k.root.operands[0].array.dims
        (self.computation,) = k.root.called
        self.merges = RankMerge(k, self._less)

    def _index(self, row: IndexValue, position: IndexValue) -> Index:
        """Return the index of element `position` of sort number `row`."""
        dim = self.plan.dim
        index = self.k.math.delinear(row, [*self.dims[:dim], *self.dims[dim + 1 :]])
        return (*index[:dim], position, *index[dim:])

    def _copies(self) -> list[IrArray]:
        """Return the arrays in scratch memory."""
        offset = 0
        copies = []
        for output, shape in zip(self.k.outputs, array_leaves(self.k.inst.shape), strict=True):
            copies.append(self.k.scratch_array(offset, output.dtype, output.dims))
            offset += aligned_bytes(shape.size_bytes)
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
        half = self.merges.sort_block(arrays, plan.chunk, thread, count)
        result = m.add(thread, half * plan.chunk)
        with k.body.when(inside):
            values = [array.load(m, (result,)) for array in arrays]
            store_all(k, self._arrays(0), index, values)

    # ---- runs of whole chunks

    def merge(self, thread: IndexValue, number: int) -> None:
        """Place one element in the merge of the runs after `number` merges."""
        k, m, plan = self.k, self.k.math, self.plan
        row, position = m.div(thread, plan.size), m.rem(thread, plan.size)
        source, target = self._arrays(number), self._arrays(number + 1)
        run = plan.chunk << number
        self.merges.place(
            position,
            run,
            plan.size,
            run.bit_length(),
            lambda at: [array.load(m, self._index(row, at)) for array in source],
            lambda at, values: store_all(k, target, self._index(row, at), values),
        )

    def _less(self, left: Sequence[Value], right: Sequence[Value]) -> Value:
        arguments = [value for pair in zip(left, right, strict=True) for value in pair]
        (less,) = self.k.g.inline(self.computation, arguments)
        return less


EMITTER = Emitter("sort", plan)
