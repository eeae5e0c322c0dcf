"""Softmax, norms and the like: one kernel, in which a group of threads keeps a row in registers.

A group is part of a warp, a warp or a block. Each thread has the same elements of the row in every
stage (`opt/fusion/row_plan`), so what later stages need never leaves the thread; only the results
of reductions are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import combine, sum_dtypes
from hloc.codegen.gpu.collectives import block_reduce, lane_reduce, share
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels import row_region
from hloc.codegen.kernels.context import array_leaves
from hloc.codegen.kernels.emitter import Emitter
from hloc.ir.instruction import Instruction
from hloc.opt.fusion.row_plan import RowPlan, Stage

_MOST_WANTED = 8
"""Elements of a row that one thread should have, as long as there are threads."""

_MOST_IN_REGISTERS = 32
"""Elements of a row that one thread may have; with more, code is a loop, and what is kept of them
is in memory. In softmax of 32,768 elements a thread takes 60 of its 64 registers."""

_MOST_THREADS = 1024
_LONGEST_ROW = 1 << 16
_VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class Group:
    """The threads that share a row.

    Attributes:
        threads: a power of two.
        width: neighbouring elements that one thread takes at a time.
        size: elements of the row.
    """

    threads: int
    width: int
    size: int

    @property
    def each(self) -> int:
        """Elements that a thread has at most."""
        return -(-self.size // (self.threads * self.width)) * self.width

    @property
    def is_unrolled(self) -> bool:
        return self.each <= _MOST_IN_REGISTERS


def group_of(inst: Instruction, plan: RowPlan) -> Group:
    """Return how many threads share a row of `inst`."""
    size = plan.rows.size
    arrays = [leaf for i in (*inst.operands, inst) for leaf in array_leaves(i.shape)]
    widest = max(array.dtype.storage_bytes for array in arrays)
    wanted = 1 << max(-(-size // _MOST_WANTED) - 1, 0).bit_length()
    threads = max(min(wanted, _MOST_THREADS), min(WARP_THREADS, 1 << (size - 1).bit_length()))
    width = max(_VECTOR_BYTES // widest, 1)
    while width > 1 and (size % width or size < threads * width):
        width //= 2
    group = Group(threads, width, size)
    return group if group.is_unrolled else Group(threads, 1, size)


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a fusion that can be made row by row, whose rows are not too long."""
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
        super().__init__(k, plan)
        self.group = group
        whole = plan.rows.count % k.block[1] == 0
        self.is_mine = k.body.all_of([] if whole else [k.math.compare("LT", row, plan.rows.count)])
        # Threads past the last row take part in its shuffles.
        self.row = k.math.minimum(row, plan.rows.count - 1)
        self.outer = k.math.delinear(self.row, plan.dims[: plan.outer])
        self.sources = dict(k.frame.sources)
        k.frame.sources = self.sources
        self.kept: dict[Instruction, Value] = {}

    def write(self) -> None:
        for stage in self.plan.stages:
            for inst in stage.row_values:
                if not isinstance(self.sources.get(inst), Value):
                    self.sources[inst] = self._row_element(inst)
            self._stage(stage)
        leads = self.k.body.all_of([self.is_mine, self.k.math.compare("EQ", self.k.thread("x"), 0)])
        values = [(inst, self._row_element(inst)) for inst in self.plan.writes_rows]
        with self.k.body.when(leads):
            for inst, value in values:
                self._store(inst, value, self._row_index(inst))

    def _stage(self, stage: Stage) -> None:
        b = self.k.b
        for inst in stage.keeps:
            self.kept[inst] = b.allocate(inst.array.dtype, self.group.each)
        sums = [_Sum(self.k, inst) for inst in stage.reduces]
        earlier = [inst for inst in self.kept if inst not in stage.keeps]
        # Threads beyond the last row leave its elements alone: they may be overwritten in place.
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
            self._finish(total, count)

    def _runs(self) -> Iterator[list[tuple[IndexValue, IndexValue]]]:
        """Yield number and position of the elements of this thread, neighbours together.

        A row has all of them or none, so that one question is enough and they are read at once.
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
        self, stage: Stage, sums: Sequence[_Sum], number: IndexValue, position: IndexValue
    ) -> None:
        """Make one element of all; what is read is read before anything is written."""
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
            total.add(elements, is_first=number == 0)

    def _finish(self, total: _Sum, count: int) -> None:
        """Replace a reduction by its result in the frame of all threads."""
        k, threads = self.k, self.group.threads
        if threads > WARP_THREADS:
            values = block_reduce(k, total.values(), total.combine, count)
        else:
            values = lane_reduce(k, total.values(), total.combine, k.thread("x"), count)
        values = total.with_start(share(k, values, threads))
        if len(total.inst.operands) == 2:
            self.sources[total.inst] = values[0]
            return
        for user in total.inst.users:
            self.sources[user] = values[user.attributes.index]

    # ---- places

    def _row_element(self, inst: Instruction) -> Value:
        return self.k.g.element(self.k.frame, inst, self._row_index(inst))

    def _row_index(self, inst: Instruction) -> Index:
        outer = self.plan.dims[: self.plan.outer]
        return self.k.math.reshape(tuple(self.outer), outer, inst.array.dims)


class _Sum:
    """The running results of one reduction in one thread."""

    def __init__(self, k: GpuContext, inst: Instruction) -> None:
        self.k, self.inst = k, inst
        count = len(inst.operands) // 2
        self.inputs, self.starts = inst.operands[:count], inst.operands[count:]
        (self.computation,) = inst.called
        self.dtypes = sum_dtypes(self.computation, self.starts)
        self.slots = [k.b.allocate(dtype) for dtype in self.dtypes]
        for slot, dtype in zip(self.slots, self.dtypes, strict=True):
            k.b.store(slot, 0, k.b.const(dtype, 0))

    def add(self, elements: Sequence[Value], *, is_first: bool) -> None:
        b = self.k.b
        new = [b.convert(x, dtype) for x, dtype in zip(elements, self.dtypes, strict=True)]
        values = new if is_first else self.combine(self.values(), new)
        for slot, value in zip(self.slots, values, strict=True):
            b.store(slot, 0, value)

    def values(self) -> list[Value]:
        """Return the current results."""
        return [self.k.b.load(s, d, 0) for s, d in zip(self.slots, self.dtypes, strict=True)]

    def combine(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Combine two lists of results."""
        result = combine(self.k.g, self.computation, left, right)
        return [self.k.b.convert(v, d) for v, d in zip(result, self.dtypes, strict=True)]

    def with_start(self, values: Sequence[Value]) -> list[Value]:
        """Return the results of the row in their own types, combined with the initial values."""
        k = self.k
        starts = [
            k.b.convert(k.read(start, ()), dtype)
            for start, dtype in zip(self.starts, self.dtypes, strict=True)
        ]
        result = self.combine(starts, values)
        return [
            k.b.convert(value, start.array.dtype)
            for value, start in zip(result, self.starts, strict=True)
        ]


EMITTER = Emitter("row-region", plan)
