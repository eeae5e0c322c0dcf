"""Softmax, norms and similar fusions of short rows: a row in each lane, column after column.

In vectors along the rows, a row of 10 leaves a third of the lanes empty, and its sums end across
lanes. Here every lane has work, sums end in their lanes, and the loop over the columns has the code
of one element instead of that of every vector of several rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.rows import FULL
from hloc.codegen.builder.index import Index, IndexMath, row_major_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.reduction.lane_tiles import rows_to_tile, tile_lanes, tile_to_rows
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import has_masks, lane_count, lanes_of, mark_final
from hloc.codegen.kernels.row_region import Row, RowElements, has_functions, plan_of
from hloc.codegen.kernels.running_sums import running_sum
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, S64
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.row_plan import RowPlan, outer_rank

_FEWEST_LANES = 8
"""Shorter vectors lose little at the end of a row."""

_MOST_ELEMENTS, _MOST_WRITTEN, _MOST_PLAIN = 64, 20, 10
"""Most elements of a row: with functions such as exp and one result per row, with functions and a
result per element, and without functions. Of the last two, rows that fill vectors are left out.

The lanes of an operand or result are a row apart, and are loaded and stored one by one unless
routines move whole rows (`lane_tiles`). Time relative to vectors along the rows, f32, AVX2, without
these routines, by the elements of a row:

                  5     7     8     9    10    12    16    20    24    31    40    64
    logsumexp  0.99  1.03  0.75  0.50  0.54  0.59  0.60  0.54  0.66  0.65  0.61  0.84
    softmax    0.34  0.53  1.05  0.60  0.67  0.81  1.03  0.93  1.15  1.18  0.95  0.99
    layer norm 0.67  0.85  1.19  0.84  0.89  1.10  1.42  1.37  1.57  1.68  1.98  2.02
"""


def plan(inst: Instruction, target: Target, *, in_place: bool) -> RowPlan | None:
    """Return the plan of the rows of a fusion if they are computed this way, else None.

    Args:
        inst: the fusion.
        target: the machine.
        in_place: a result shares the memory of an operand.
    """
    rows = plan_of(inst)
    if rows is None or has_masks(target):
        return None
    if sum(size != 1 for size in rows.dims[: rows.outer]) != 1:
        return None  # lanes would cross a dimension
    lanes, count = lane_count(inst, target), rows.rows.count
    if lanes < _FEWEST_LANES or rows.rows.size > _most_elements(rows, lanes):
        return None
    # The last vector computes rows again, whose operands must not be overwritten.
    return rows if count % lanes == 0 or (count > lanes and not in_place) else None


def _most_elements(plan: RowPlan, lanes: int) -> int:
    """Return the most elements of rows like those of `plan` that are faster side by side."""
    writes = any(stage.writes for stage in plan.stages)
    if not has_functions(plan):
        return 0 if plan.rows.size % lanes == 0 or not writes else _MOST_PLAIN
    if not writes:
        return _MOST_ELEMENTS
    return 0 if plan.rows.size % lanes == 0 else _MOST_WRITTEN


def emit(plan: RowPlan, k: KernelContext, *, by_routines: bool) -> None:
    """Write the loop over vectors of rows.

    Args:
        plan: of the fusion.
        k: its kernel.
        by_routines: routines move rows of f32, which compiles faster; a softmax of 16 rows of 10 in
            a loop takes 1.05 times as long to run.
    """
    lanes = lanes_of(k)
    assert lanes is not None
    lanes.b.reads_apart = lanes.b.writes_apart = True
    with lanes.loop(*lanes.rows_of_part(plan.rows.count), plan.rows.count) as first:
        rows = _Rows(k, plan, first, by_routines=by_routines)
        for number in range(len(plan.stages)):
            rows.write_stage(number)
        rows.write_values()
    mark_final(k)


class _Rows(Row):
    """A vector of rows: values of a row are lanes."""

    def __init__(
        self, k: KernelContext, plan: RowPlan, row: IndexValue, *, by_routines: bool
    ) -> None:
        super().__init__(k, plan, row)
        self.by_routines = by_routines
        self.read: set[Instruction] = set()
        self.kept: set[Instruction] = set()
        self.written: dict[Instruction, IrArray] = {}
        for inst, array in self._operands().items():
            if self._is_moved_whole(inst):
                self.sources[inst] = [self._moved(inst, array)]
            elif len(plan.stages) > 1:
                self.sources[inst] = [self._operand(inst, array)]

    def _operands(self) -> dict[Instruction, IrArray]:
        """Return the operands of which several stages may read each element."""
        return {
            inst: source[0]
            for inst, source in self.sources.items()
            if isinstance(source, list)
            and self.plan.access.get(inst) == FULL
            and inst.array.layout is None
            and outer_rank(inst.array.dims, self.plan.rows) is not None
        }

    def _operand(self, inst: Instruction, array: IrArray) -> IrArray:
        given = array.pointer, array.dtype, array.dims, array.strides
        return _Operand(*given, inst, self._tile(inst), self.read, self.kept)

    def write_stage(self, number: int) -> None:
        """Write the loop of stage `number` over the columns."""
        k, stage = self.k, self.plan.stages[number]
        k.frame = self.frame
        for inst in stage.row_values:
            self._compute_once(inst)
        kept = {inst: self._tile(inst) for inst in stage.keeps}
        sums = [running_sum(k, inst, self.plan.rows.size) for inst in stage.reduces]
        whole = [inst for inst in stage.writes if self._is_moved_whole(inst)]
        self.written = {inst: kept[inst] if inst in kept else self._tile(inst) for inst in whole}
        with k.body.nest(self.plan.dims, self.inner) as at:
            self._element(stage, kept, sums, at)
        self.kept |= self.read
        for inst, tile in self.written.items():
            self._write_rows(inst, tile)
        self._end_stage(kept, stage.reduces, sums)

    def _is_moved_whole(self, inst: Instruction) -> bool:
        """True if a routine moves all columns of an operand or result between rows and a tile."""
        if not self.by_routines or inst.array.dtype is not F32 or inst.array.layout is not None:
            return False
        return self.k.lanes == tile_lanes(self.k.target) <= self.plan.rows.size

    def _moved(self, inst: Instruction, array: IrArray) -> IrArray:
        """Return a tile with all columns of an operand."""
        tile = self._tile(inst)
        self._move(rows_to_tile(self.k.target), self._first(array), tile.pointer)
        return tile

    def _write_rows(self, inst: Instruction, tile: IrArray) -> None:
        """Write all columns of a result."""
        for output, array in zip(self.plan.outputs, self.k.outputs, strict=True):
            if output is inst:
                self._move(tile_to_rows(self.k.target), tile.pointer, self._first(array))

    def _move(self, routine: Routines, source: Value, result: Value) -> None:
        self.k.use(routine)
        self.k.b.call_routine(routine.name, [source, result], self.plan.rows.size)

    def _first(self, array: IrArray) -> Value:
        """Return where the first of the rows begins."""
        m, b = self.k.math, self.k.b
        start = m.value(m.mul(Value(S64, m.value(self.row).text), self.plan.rows.size))
        return pointer_value(b.address(array.pointer, array.dtype, start))

    def _store(self, inst: Instruction, value: Value, index: Index) -> None:
        """Store a result, in its tile if it has one."""
        if inst not in self.written:
            super()._store(inst, value, index)
            return
        assert isinstance(value, Value)
        self.written[inst].store(self.k.math, index, value)

    def _compute_once(self, inst: Instruction) -> None:
        """Compute a value of each row; divisions by vectors gain nothing from a reciprocal."""
        RowElements._compute_once(self, inst)

    def _tile(self, inst: Instruction) -> IrArray:
        """Return stack memory for the columns of a vector of rows."""
        b, dtype, dims = self.k.b, inst.array.dtype, inst.array.dims
        outer = outer_rank(dims, self.plan.rows)
        assert isinstance(b, LaneBuilder)
        assert outer is not None
        strides: Sequence[int] = [0] * outer + row_major_strides(dims[outer:])
        return IrArray(b.lane_slots(dtype, self.plan.rows.size), dtype, dims, tuple(strides))


@dataclass(frozen=True, slots=True, eq=False)
class _Operand(IrArray):
    """An operand whose columns are kept when they are first read: its lanes are far apart.

    Attributes:
        read: the operands that have been read.
        kept: those of which all columns are in their tiles.
    """

    inst: Instruction
    tile: IrArray
    read: set[Instruction]
    kept: set[Instruction]

    def load(self, math: IndexMath, index: Index) -> Value:
        """Return the element at `index` of every lane."""
        if self.inst in self.kept:
            return self.tile.load(math, index)
        value = IrArray.load(self, math, index)
        self.tile.store(math, index, value)
        self.read.add(self.inst)
        return value
