"""Softmax, norms and similar fusions: one kernel; a group of threads keeps a row in registers.

A group is part of a warp, a warp or a block. Each thread has the same elements of the row in every
stage (`opt/fusion/row_plan`), so values that later stages need stay in the thread; only the results
of reductions are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import Accumulators
from hloc.codegen.gpu.collectives import block_reduce, lane_reduce, share
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.reduction.reduce import initial_values
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels import row_region
from hloc.codegen.kernels.emitter import Emitter
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.row_plan import RowPlan, Stage
from hloc.shapes import array_leaves

_MOST_WANTED = 8
"""Elements of a row per thread, unless there are too few threads."""

_MOST_IN_REGISTERS = 32
"""Most elements of a row per thread; with more, the code would be a loop, and the values in local
memory. In softmax of 32,768 elements, a thread uses 60 of its 64 registers."""

_MOST_THREADS = 1024
_LONGEST_ROW = 1 << 16
_VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class Group:
    """The threads that share a row.

    Attributes:
        threads: a power of two.
        width: contiguous elements per load of a thread.
        size: elements of the row.
    """

    threads: int
    width: int
    size: int

    @property
    def each(self) -> int:
        """Most elements of a thread."""
        return -(-self.size // (self.threads * self.width)) * self.width

    @property
    def is_unrolled(self) -> bool:
        return self.each <= _MOST_IN_REGISTERS


def group_of(inst: Instruction, plan: RowPlan) -> Group:
    """Return the group of threads for a row of `inst`."""
    size = plan.rows.size
    arrays = [*inst.operand_arrays, *array_leaves(inst.shape)]
    widest = max(array.dtype.storage_bytes for array in arrays)
    wanted = 1 << max(-(-size // _MOST_WANTED) - 1, 0).bit_length()
    threads = max(min(wanted, _MOST_THREADS), min(WARP_THREADS, 1 << (size - 1).bit_length()))
    width = max(_VECTOR_BYTES // widest, 1)
    while width > 1 and (size % width or size < threads * width):
        width //= 2
    group = Group(threads, width, size)
    return group if group.is_unrolled else Group(threads, 1, size)


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a fusion that can be computed row by row, if rows are not too long."""
    rows = row_region.plan_of(inst)
    if rows is None or not 0 < rows.rows.size <= _LONGEST_ROW:
        return None
    return GpuPlan(partial(emit, rows))


def emit(plan: RowPlan, w: LaunchWriter) -> None:
    """Write one launch; short rows share a block."""
    group = group_of(w.inst, plan)
    per_block = BLOCK_THREADS // group.threads if group.threads <= WARP_THREADS else 1
    blocks = -(-plan.rows.count // per_block)
    with w.launch((blocks, 1, 1), (group.threads, per_block, 1)) as k:
        row = k.math.add(k.math.mul(k.block_index("x"), per_block), k.thread("y"))
        _Row(k, plan, group, row).write()


class _Row(row_region.RowElements):
    """One row: finished values replace their instructions in the frame."""

    k: GpuContext

    def __init__(self, k: GpuContext, plan: RowPlan, group: Group, row: IndexValue) -> None:
        count = plan.rows.count
        whole = count % k.block[1] == 0
        self.is_mine = k.body.all_of([] if whole else [k.math.compare("LT", row, count)])
        # Threads past the last row take part in its shuffles.
        super().__init__(k, plan, k.math.minimum(row, count - 1))
        self.group = group
        k.frame.sources = self.sources
        self.kept: dict[Instruction, Value] = {}

    def write(self) -> None:
        for stage in self.plan.stages:
            for inst in stage.row_values:
                self._compute_once(inst)
            self._stage(stage)
        leads = self.k.body.all_of([self.is_mine, self.k.math.compare("EQ", self.k.thread("x"), 0)])
        values = [(inst, self._row_element(inst)) for inst in self.plan.writes_rows]
        with self.k.body.when(leads):
            for inst, value in values:
                self._store(inst, value, self._row_index(inst))

    def _stage(self, stage: Stage) -> None:
        """Run one stage over this thread's elements, then combine its sums with other threads'."""
        b = self.k.b
        for inst in stage.keeps:
            self.kept[inst] = b.allocate(inst.array.dtype, self.group.each)
        sums = [Accumulators(self.k.g, inst) for inst in stage.reduces]
        for total in sums:
            total.clear()
        earlier = [inst for inst in self.kept if inst not in stage.keeps]
        # Threads beyond the last row do not load its elements, which may be overwritten in place.
        with self.k.body.when(self.is_mine):
            for run in self._runs():
                with self._in_row(run[0][1]):
                    for number, position in run:
                        for inst in earlier:
                            dtype = inst.array.dtype
                            self.sources[inst] = b.load(self.kept[inst], dtype, number)
                        with self.k.body.scope():
                            self._element(stage, sums, number, position)
        for inst in self.kept:
            self.sources.pop(inst, None)
        count = min(self.group.size // self.group.width, self.group.threads)
        for total in sums:
            self._finish(total.inst, self._total(total, count))

    def _runs(self) -> Iterator[list[tuple[IndexValue, IndexValue]]]:
        """Yield number and position of the elements of this thread, a list per load.

        A row has all elements of a list or none, so that one test is enough for a vector load.
        """
        k, m, group = self.k, self.k.math, self.group
        if group.is_unrolled:
            for start in range(0, group.each, group.width):
                chunk = m.add(k.thread("x"), start // group.width * group.threads)
                first = m.mul(chunk, group.width)
                yield [(start + i, m.add(first, i)) for i in range(group.width)]
            return
        yield [(0, k.thread("x"))]
        with k.body.loop(1, group.each) as number:
            yield [(number, m.add(k.thread("x"), m.mul(number, group.threads)))]

    @contextmanager
    def _in_row(self, position: IndexValue) -> Iterator[None]:
        group = self.group
        if group.size % (group.threads * group.width) == 0:
            with self.k.body.scope():
                yield
            return
        with self.k.body.when(self.k.math.compare("LT", position, group.size)):
            yield

    def _element(
        self, stage: Stage, sums: Sequence[Accumulators], number: IndexValue, position: IndexValue
    ) -> None:
        """Compute one element of each; all loads come before the first store."""
        k, plan = self.k, self.plan
        inner = k.math.delinear(position, plan.dims[plan.outer :])
        index = (*self.outer, *inner)
        result = {inst: self._value(inst, index) for inst in (*stage.keeps, *stage.writes)}
        added = [[self._value(operand, index) for operand in total.inputs] for total in sums]
        for inst in stage.keeps:
            k.b.store(self.kept[inst], number, result[inst])
        for inst in stage.writes:
            self._store(inst, result[inst], self._index(inst, index))
        for total, elements in zip(sums, added, strict=True):
            if number == 0:
                total.store(total.converted(elements))
            else:
                total.add(elements)

    def _total(self, total: Accumulators, count: int) -> list[Value]:
        """Return in all threads the results of a row, in their own types."""
        k, threads = self.k, self.group.threads
        if threads > WARP_THREADS:
            values = block_reduce(k, total.load(), total.combine, count)
        else:
            values = lane_reduce(k, total.load(), total.combine, k.thread("x"), count)
        shared = share(k, values, threads)
        result = total.combine(initial_values(k, total), shared)
        return [
            k.b.convert(value, start.array.dtype)
            for value, start in zip(result, total.starts, strict=True)
        ]


EMITTER = Emitter("row-region", plan)
