"""Softmax, norms and similar fusions: row by row, so that a row stays in the cache.

The loops of one row are the stages of `opt/fusion/row_plan`: each computes its reductions, keeps
values for later stages in temporary rows on the stack, and writes finished results. Long sums are
added in blocks, like those of `cpu/emitters/reduction/reduce`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hloc.analysis.rows import FULL
from hloc.codegen.builder.index import Index, row_major_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.elemental import Frame
from hloc.codegen.elements.reductions import plain_reducer
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.extremum import extremum_of, reduce_row
from hloc.codegen.kernels.lane_feed import feed_rows
from hloc.codegen.kernels.lanes import lanes_of, mark_final
from hloc.codegen.kernels.running_sums import RunningSum, running_sum
from hloc.ir.instruction import Instruction
from hloc.memory.heap import CACHE_LINE_BYTES
from hloc.opt.fusion.row_plan import RowPlan, Stage, outer_rank, row_plan

_MANY_ROWS = 64
_TOGETHER, _MOST_VECTORS = 2, 4
"""Number of rows that are computed together, and most vectors of each.

Rows of one vector without functions such as exp fit in the processor's out-of-order window. One row
at a time takes 1.05 to 1.3 times as long as two; four take as long, and compile 1.4 times as long.
"""


def plan_of(inst: Instruction) -> RowPlan | None:
    """Return the row plan of a fusion, None if it has no rows or is a single reduction."""
    if inst.opcode.name != "fusion":
        return None
    (body,) = inst.called
    reduces = sum(member.opcode.name == "reduce" for member in body.instructions)
    if not reduces or (reduces == 1 and body.root.opcode.name == "reduce"):
        return None  # one reduction alone has an emitter of its own
    return row_plan(body)


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a fusion row by row."""
    rows = plan_of(inst)
    return None if rows is None else KernelPlan(partial(_emit, rows), rows.rows.count)


def _emit(plan: RowPlan, k: KernelContext) -> None:
    """Write the loop over rows."""
    m, together = k.math, _rows_together(k, plan)
    lanes = lanes_of(k)
    if lanes is not None:
        lanes.b.reads_apart = True  # `softmax(a + b.T)`: one by one, then the work in vectors
    with k.body.loop(k.begin, k.end, together) as first:
        last = m.sub(k.end, 1) if together > 1 else first
        rows = [
            Row(k, plan, m.minimum(m.add(first, number), last) if number else first)
            for number in range(together)
        ]
        for number in range(len(plan.stages)):
            for row in rows:
                row.write_stage(number)
        for row in rows:
            row.write_values()
    mark_final(k)


def _rows_together(k: KernelContext, plan: RowPlan) -> int:
    """Return how many rows are computed at a time: several if rows are short.

    A row is a dependency chain of sums and functions, and the processor's out-of-order window holds
    little more than a short row. The last rows may be computed twice, so operands must not be
    overwritten.
    """
    lanes = lanes_of(k)
    if lanes is None or plan.rows.count < _MANY_ROWS or any(a is not None for a in k.aliased):
        return 1
    vectors = -(-plan.rows.size // lanes.count)
    if vectors == 1 and not has_functions(plan):
        return 1
    return _TOGETHER if vectors <= _MOST_VECTORS else 1


def has_functions(plan: RowPlan) -> bool:
    """True if a function such as exp is computed for each element of a row."""
    return any(i.opcode.transcendental and how == FULL for i, how in plan.access.items())


class RowElements:
    """Elements of one row of a region, on every target; an `index` is one in `plan.dims`.

    Attributes:
        outer: the index of the row.
        sources: values and arrays that replace finished instructions of the row.
    """

    def __init__(self, k: KernelContext, plan: RowPlan, row: IndexValue) -> None:
        self.k, self.plan = k, plan
        self.sources = dict(k.frame.sources)
        self.outer = k.math.delinear(row, plan.dims[: plan.outer])

    def _compute_once(self, inst: Instruction) -> None:
        """Compute a value that the whole row shares, unless it is known."""
        if not isinstance(self.sources.get(inst), Value):
            self.sources[inst] = self._row_element(inst)

    def _row_element(self, inst: Instruction) -> Value:
        return self.k.g.element(self.k.frame, inst, self._row_index(inst))

    def _row_index(self, inst: Instruction) -> Index:
        outer = self.plan.dims[: self.plan.outer]
        return self.k.math.reshape(tuple(self.outer), outer, inst.array.dims)

    def _finish(self, inst: Instruction, values: Sequence[Value]) -> None:
        """Record `values` as the results of a reduce."""
        if len(inst.operands) == 2:
            self.sources[inst] = values[0]
            return
        for user in inst.users:
            self.sources[user] = values[user.attributes.index]

    def _value(self, inst: Instruction, index: Index) -> Value:
        return self.k.g.element(self.k.frame, inst, self._index(inst, index))

    def _index(self, inst: Instruction, index: Index) -> Index:
        if inst.array.dims == self.plan.dims:
            return index
        return self.k.math.reshape(index, self.plan.dims, inst.array.dims)

    def _store(self, inst: Instruction, value: Value, index: Index) -> None:
        for output, array in zip(self.plan.outputs, self.k.outputs, strict=True):
            if output is inst:
                array.store(self.k.math, index, value)


class Row(RowElements):
    """One row, with a frame of its own."""

    def __init__(self, k: KernelContext, plan: RowPlan, row: IndexValue) -> None:
        super().__init__(k, plan, row)
        self.frame = Frame(self.sources)
        self.inner = [
            d for d in range(plan.outer, len(plan.dims)) if plan.dims[d] != 1
        ]  # fmt: skip
        self.row = row
        self.is_vector = self._is_vector()
        self.streams = self._streams()

    def _is_vector(self) -> bool:
        """True if a row is computed in some lanes of one vector."""
        lanes = lanes_of(self.k)
        if lanes is None or len(self.inner) != 1:
            return False
        reduces = [inst for stage in self.plan.stages for inst in stage.reduces]
        is_plain = all(plain_reducer(inst.called[0]) for inst in reduces)
        return is_plain and lanes.fit_part(self.plan.rows.size)

    def _streams(self) -> list[IrArray]:
        """Return the operands whose next row is prefetched while the second stage computes.

        Empty if that stage writes rows itself, or if the operands fit in the cache.
        """
        plan, k = self.plan, self.k
        if len(plan.stages) < 2 or plan.stages[1].writes or len(self.inner) != 1:
            return []
        streams = [
            source[0]
            for inst, source in k.frame.sources.items()
            if inst.opcode.name == "parameter"
            and plan.access.get(inst) == FULL
            and inst.array.layout is None
            and isinstance(source, list)
        ]
        sizes = (plan.rows.elements * array.dtype.storage_bytes for array in streams)
        return streams if sum(sizes) > k.target.l2_bytes else []

    def _prefetch_next_row(self, first: IndexValue, end: IndexValue) -> None:
        """Prefetch elements from `first` to `end` of the next row of the operands.

        Without it the memory is idle while the processor computes: logsumexp of f32[2048,2048]
        takes 1.20 ms instead of 1.34, softmax 1.92 instead of 2.02. Results are not prefetched:
        softmax would take 2.2 ms.
        """
        k, m = self.k, self.k.math
        start = m.mul(m.add(self.row, 1), self.plan.rows.size)
        for array in self.streams:
            with k.body.loop(first, end, CACHE_LINE_BYTES // array.dtype.storage_bytes) as position:
                k.b.prefetch(array.pointer, array.dtype, m.value(m.add(start, position)))

    def write_stage(self, number: int) -> None:
        """Write the loop of stage `number`."""
        self.k.frame, stage = self.frame, self.plan.stages[number]
        for inst in stage.row_values:
            self._compute_once(inst)
        kept = {inst: self._temporary(inst) for inst in stage.keeps}
        extrema = {inst: kind for inst in stage.reduces if (kind := self._extremum(inst))}
        best = {
            inst: reduce_row(self.k, inst, [*self.outer, 0], kind) for inst, kind in extrema.items()
        }
        size, others = self.plan.rows.size, [i for i in stage.reduces if i not in extrema]
        sums = [running_sum(self.k, inst, size) for inst in others]
        element = partial(self._element, stage, kept, sums)
        prefetch = self._prefetch_next_row if number == 1 and self.streams else None
        if sums or kept or stage.writes:
            written = (*kept, *stage.writes)
            feed_rows(self.k, self.plan.dims, self.inner, sums, element, prefetch, written)
        for inst, values in best.items():
            self._finish(inst, values)
        self._end_stage(kept, others, sums)

    def _end_stage(
        self,
        kept: dict[Instruction, IrArray],
        reduces: Sequence[Instruction],
        sums: Sequence[RunningSum],
    ) -> None:
        """Record what a stage has computed for the next ones."""
        for inst, array in kept.items():
            self.sources[inst] = [array]
        for inst, done in zip(reduces, sums, strict=True):
            self._finish(inst, done.finish())

    def _extremum(self, inst: Instruction) -> str:
        """Return "maximum" or "minimum" for an argmax or argmin of the whole last dimension."""
        is_row = inst.operands[0].array.dims == self.plan.dims
        return extremum_of(inst) if is_row and self.plan.outer == len(self.plan.dims) - 1 else ""

    def write_values(self) -> None:
        """Write the results that have one element per row."""
        self.k.frame = self.frame
        for inst in self.plan.writes_rows:
            self._store(inst, self._row_element(inst), self._row_index(inst))

    # ---- values of the row

    def _compute_once(self, inst: Instruction) -> None:
        super()._compute_once(inst)
        value, size = self.sources[inst], self.plan.rows.size
        if isinstance(self.k.b, LaneBuilder) and size > self.k.lanes and _divides(inst):
            assert isinstance(value, Value)
            self.k.b.expect_divisions(value)

    def _temporary(self, inst: Instruction) -> IrArray:
        """Return an array of which one row is in memory; for an output, that of the output."""
        if inst in self.plan.outputs:
            return self.k.outputs[self.plan.outputs.index(inst)]
        shape = inst.array
        outer = outer_rank(shape.dims, self.plan.rows)
        assert outer is not None
        strides = [0] * outer + row_major_strides(shape.dims[outer:])
        if self.is_vector and isinstance(self.k.b, LaneBuilder):
            pointer: Value = self.k.b.lane_slot(shape.dtype)
        else:
            pointer = self.k.b.allocate(shape.dtype, self.plan.rows.size)
        return IrArray(pointer, shape.dtype, shape.dims, tuple(strides))

    # ---- loops

    def _element(
        self,
        stage: Stage,
        kept: dict[Instruction, IrArray],
        sums: list[RunningSum],
        at: Sequence[IndexValue],
    ) -> None:
        """Compute one element of each; all loads come before the first store."""
        index = (*self.outer, *at[self.plan.outer :])
        values = {inst: self._value(inst, index) for inst in (*kept, *stage.writes)}
        added = [[self._value(operand, index) for operand in total.inputs] for total in sums]
        for inst, array in kept.items():
            if array not in self.k.outputs:
                array.store(self.k.math, self._index(inst, index), values[inst])
        for inst in stage.writes:
            self._store(inst, values[inst], self._index(inst, index))
        for total, elements in zip(sums, added, strict=True):
            total.add(elements)


def _divides(inst: Instruction) -> bool:
    """True if `inst`, a value of its row, is a divisor."""
    if not inst.array.dtype.is_float:
        return False
    waiting = [inst]
    while waiting:
        value = waiting.pop()
        for user in value.users:
            if user.opcode.name == "divide" and user.operands[1] is value:
                return True
            if user.opcode.name in ("broadcast", "reshape", "bitcast"):
                waiting.append(user)
    return False


EMITTER = Emitter("row-region", plan)
