"""Reductions: threads reduce parts, which a warp or a block combines in a tree.

Along the fastest dimension (rows), adjacent threads of a group load adjacent elements and combine
their results by shuffles. Along another dimension (columns), each thread has a column, so that
loads coalesce, too. Long reductions with few results are split over many blocks, and a second
launch combines the parts, so results do not depend on the order of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import Accumulators, sum_dtypes
from hloc.codegen.gpu.collectives import block_reduce, lane_reduce
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.reduction.reduce_plan import ReducePlan, reduce_plan
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.reduce import store_results
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan reductions that share their loops; the results of all parts are in scratch memory."""
    spread = reduce_plan(inst)
    if spread is None or not spread.problem.addends:
        return None
    size = sum(_room(spread, dtype) for root in spread.problem.roots for dtype in _dtypes(root))
    return GpuPlan(partial(emit, spread), scratch_bytes=size if spread.parts > 1 else 0)


def _room(plan: ReducePlan, dtype: DType) -> int:
    return aligned_bytes(plan.parts * plan.rows * dtype.storage_bytes)


def _dtypes(root: Instruction) -> list[DType]:
    starts = root.operands[len(root.operands) // 2 :]
    return sum_dtypes(root.called[0], starts)


def emit(plan: ReducePlan, w: LaunchWriter) -> None:
    """Emit one launch, or two if the reductions are split."""
    if plan.problem.by_columns:
        _columns(w, plan)
    else:
        _rows(w, plan)
    if plan.parts > 1:
        _join(w, plan)


# ---------------------------------------------------------------- the launches


def _rows(w: LaunchWriter, plan: ReducePlan) -> None:
    """Emit the launch with a group of threads per row and part: part of a warp, or a block."""
    group, per_block = plan.threads, plan.rows_per_block
    in_block = group * per_block
    with w.launch((-(-plan.rows // per_block), plan.parts, 1), (in_block, 1, 1)) as k:
        lane, row, safe = _lane_and_row(k, plan, group, per_block)
        reduction = Reduction(k, plan)
        first, end = reduction.part(k.block_index("y"))
        values = reduction.add_up(safe, k.math.add(first, lane), end)
        values = (
            block_reduce(k, values, reduction.combine, plan.busy)
            if group > WARP_THREADS
            else lane_reduce(k, values, reduction.combine, lane, plan.busy)
        )
        with k.body.when(_leads(k, lane, row, plan)):
            reduction.finish(row, k.block_index("y"), values)


def _columns(w: LaunchWriter, plan: ReducePlan) -> None:
    """Emit the launch with a thread per column and some rows, combined in shared memory."""
    blocks = -(-plan.rows // plan.columns)
    with w.launch((blocks, plan.parts, 1), (plan.columns, plan.threads, 1)) as k:
        x, y = k.thread("x"), k.thread("y")
        column = k.math.add(k.math.mul(k.block_index("x"), plan.columns), x)
        reduction = Reduction(k, plan)
        safe = k.math.minimum(column, plan.rows - 1) if plan.rows % plan.columns else column
        first, end = reduction.part(k.block_index("y"))
        values = reduction.add_up(safe, k.math.add(first, y), end)
        if plan.threads > 1:
            slots = [k.shared_array(v.dtype, (plan.threads, plan.columns)) for v in values]
            for slot, value in zip(slots, values, strict=True):
                slot.store(k.math, (y, x), value)
            k.barrier()
        with k.body.when(_leads(k, y, column, plan)):
            for number in range(1, plan.busy):
                others = [slot.load(k.math, (number, x)) for slot in slots]
                values = reduction.combine(values, others)
            reduction.finish(column, k.block_index("y"), values)


def _join(w: LaunchWriter, plan: ReducePlan) -> None:
    """Emit the launch that combines the parts, with a group of threads per row."""
    group = min(WARP_THREADS, 1 << (plan.parts - 1).bit_length())
    per_block = BLOCK_THREADS // group
    with w.launch((-(-plan.rows // per_block), 1, 1)) as k:
        lane, row, safe = _lane_and_row(k, plan, group, per_block)
        reduction = Reduction(k, plan)
        values = reduction.join_parts(safe, lane, group)
        values = lane_reduce(k, values, reduction.combine, lane, min(plan.parts, group))
        with k.body.when(_leads(k, lane, row, plan)):
            reduction.write(row, values)


def _lane_and_row(
    k: GpuContext, plan: ReducePlan, group: int, per_block: int
) -> tuple[IndexValue, IndexValue, IndexValue]:
    """Return the thread's number in its group of `group` threads, its row, and a row that exists.

    All threads of a warp take part in shuffles, so those beyond the end repeat a row.
    """
    thread = k.thread("x")
    row = k.math.add(k.math.mul(k.block_index("x"), per_block), k.math.div(thread, group))
    safe = k.math.minimum(row, plan.rows - 1) if plan.rows % per_block else row
    return k.math.rem(thread, group), row, safe


def _leads(k: GpuContext, number: IndexValue, row: IndexValue, plan: ReducePlan) -> Value:
    """Return whether thread `number` of its group is the one that writes `row`."""
    return k.body.all_of([k.math.compare("EQ", number, 0), k.math.compare("LT", row, plan.rows)])


# ---------------------------------------------------------------- the work of one thread


class Reduction:
    """The reductions of one kernel, in one launch."""

    def __init__(self, k: GpuContext, plan: ReducePlan) -> None:
        self.k, self.plan, self.problem = k, plan, plan.problem
        self.sums = [Accumulators(k.g, root) for root in plan.problem.roots]
        offset = 0
        self.partial: list[IrArray] = []
        if plan.parts > 1:
            for dtype in (dtype for total in self.sums for dtype in total.dtypes):
                self.partial.append(k.scratch_array(offset, dtype, (plan.parts, plan.rows)))
                offset += _room(plan, dtype)

    def part(self, number: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return start and end of part `number` of a reduction, in vectors."""
        plan, math = self.plan, self.k.math
        length, each = self.problem.addends // plan.width, plan.part_length // plan.width
        if plan.parts == 1:
            return 0, length
        first = math.mul(number, each)
        end = math.add(first, each)
        return first, end if length % each == 0 else math.minimum(end, length)

    def index(
        self, row: IndexValue, position: IndexValue, neighbour: int = 0
    ) -> tuple[IndexValue, ...]:
        """Return the index of an element of the vector at `position` of the result `row`."""
        p, width, math = self.problem, self.plan.width, self.k.math
        result = math.along(row, p.dims, p.kept)
        if p.reduced:
            sizes = [p.dims[d] for d in p.reduced]
            sizes[-1] //= width
            for dim, at in zip(p.reduced, math.delinear(position, sizes), strict=True):
                result[dim] = at
            fastest = p.reduced[-1]
            result[fastest] = math.add(math.mul(result[fastest], width), neighbour)
        return tuple(result)

    def add_up(self, row: IndexValue, first: IndexValue, end: IndexValue) -> list[Value]:
        """Return the results of one thread; undefined if it has no elements.

        It reduces the vectors from `first` below `end`, with the stride of all threads. Initial
        values are not included, since they must be added once only.
        """
        k, step = self.k, self.plan.threads

        def element(at: IndexValue, neighbour: int) -> list[Value]:
            index = self.index(row, at, neighbour)
            return [
                k.b.convert(k.read(operand, index), dtype)
                for total in self.sums
                for operand, dtype in zip(total.inputs, total.dtypes, strict=True)
            ]

        def neighbours(at: IndexValue) -> list[Value]:
            return reduce(self.combine, [element(at, i) for i in range(self.plan.width)])

        for total in self.sums:
            total.clear()
        with k.body.when(k.math.compare("LT", first, end)):
            self._keep(neighbours(first))
        with k.body.loop(k.math.add(first, step), end, step) as at:
            present = self._kept()
            self._keep(self.combine(present, neighbours(at)))
        return self._kept()

    def join_parts(self, row: IndexValue, lane: IndexValue, step: int) -> list[Value]:
        """Return the results of parts lane, lane + step ... of a row."""
        k = self.k
        first = k.math.minimum(lane, self.plan.parts - 1)
        self._keep([array.load(k.math, (first, row)) for array in self.partial])
        with k.body.loop(k.math.add(lane, step), self.plan.parts, step) as part:
            present = self._kept()
            others = [array.load(k.math, (part, row)) for array in self.partial]
            self._keep(self.combine(present, others))
        return self._kept()

    def _kept(self) -> list[Value]:
        """Return the accumulators of all reductions."""
        return [value for total in self.sums for value in total.load()]

    def _keep(self, values: Sequence[Value]) -> None:
        for total, own in self._by_reduction(values):
            total.store(own)

    def combine(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Combine the accumulators of all reductions."""
        pairs = zip(self._by_reduction(left), self._by_reduction(right), strict=True)
        return [value for (total, x), (_, y) in pairs for value in total.combine(x, y)]

    def _by_reduction(
        self, values: Sequence[Value]
    ) -> Iterator[tuple[Accumulators, Sequence[Value]]]:
        first = 0
        for total in self.sums:
            last = first + len(total.dtypes)
            yield total, values[first:last]
            first = last

    def finish(self, row: IndexValue, part: IndexValue, values: Sequence[Value]) -> None:
        """Write the results of a row, or of a part of it."""
        if self.plan.parts == 1:
            self.write(row, values)
            return
        for array, value in zip(self.partial, values, strict=True):
            array.store(self.k.math, (part, row), value)

    def write(self, row: IndexValue, values: Sequence[Value]) -> None:
        """Combine with the initial values, compute the epilogue, and store the results."""
        starts = [value for total in self.sums for value in initial_values(self.k, total)]
        at = self.index(row, 0)
        store_results(self.k, self.problem.roots, at, self.combine(starts, values))


def initial_values(k: GpuContext, total: Accumulators) -> list[Value]:
    """Return the initial values of a reduction, in the types of its accumulators."""
    return total.converted([k.read(start, ()) for start in total.starts])


EMITTER = Emitter("reduce", plan)
