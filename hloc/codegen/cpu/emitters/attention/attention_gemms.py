"""The two gemms of attention: a block of queries times packed panels of keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.attention.attention_plan import DEPTH_BLOCK, AttentionPlan
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic, lanes
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import (
    ANY,
    DIRECT,
    LINES,
    RUNS,
    filled_columns,
    gemm_routines,
)
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of, tile_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import DIRECT_RUN_COLUMNS, PackedGemm
from hloc.codegen.cpu.emitters.gemm.packing.packing import RUN
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.dtypes import F32, DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES

COLUMN_PANELS = 2
"""Panels of keys that stay in the L1 cache while all rows of a block are multiplied."""


@dataclass(frozen=True, slots=True)
class PanelMemory:
    """Scratch memory of one gemm.

    Attributes:
        offsets, steps: tables of the offsets of columns and steps of k in the operand.
        panel: panel of the rows of one tile.
    """

    offsets: Value
    steps: Value
    panel: Value


class PanelSide:
    """The packed right-hand side of a gemm; rows are contiguous in scratch memory.

    Vector kernels read rows in place; matrix registers need them in panels, too.

    Attributes:
        rows_dtype: type of the elements of rows.
        width: columns of a panel.
        filled: the last panel is filled up to a multiple of this number of columns; what follows in
            its memory is not multiplied.
        height: rows of a tile; the last tile of a block computes further rows that are ignored.
    """

    def __init__(
        self, k: KernelContext, p: PackedGemm, rows_dtype: DType, memory: PanelMemory
    ) -> None:
        """Choose arithmetic, tile and packed form for rows of `rows_dtype`; request the routines.

        Without matrix registers the rows are f32, whatever the type in memory.
        """
        self.k, self.math, self.memory = k, k.math, memory
        (column,) = p.columns
        self.column, self.depth = column, p.depth
        few = replace(column, size=min(column.size, DIRECT_RUN_COLUMNS))
        p = replace(p, columns=(few,), sources=(rows_dtype, p.sources[1]))
        arithmetic = arithmetic_of(p, k.target)
        if not arithmetic.is_matrix:
            p = replace(p, sources=(F32, p.sources[1]))
            arithmetic = arithmetic_of(p, k.target)
        tile = tile_of(p, arithmetic, k.target)
        self.is_matrix, self.multiple = arithmetic.is_matrix, arithmetic.depth_multiple
        self.rows_dtype = arithmetic.operand
        self.bytes = arithmetic.operand.storage_bytes
        self.height, self.width = tile.rows, tile.vectors * lanes(arithmetic, k.target)
        self.filled = filled_columns(arithmetic, tile, k.target)
        self.form = _column_form(p, arithmetic)
        rows_form = RUNS if self.is_matrix else DIRECT
        forms = (rows_form, self.form)
        self.routines = gemm_routines(arithmetic, tile, p.sources, forms, k.target)
        for unit in self.routines.units:
            k.use(unit)

    def fill_tables(self) -> None:
        """Write the tables of the offsets of columns and steps of k in the operand."""
        if self.form != LINES:
            fill_table(self.k, self.memory.offsets, (self.column,), (self.column.rhs,))
        fill_table(self.k, self.memory.steps, self.depth, [axis.rhs for axis in self.depth])

    def padded(self, steps: IndexValue) -> IndexValue:
        """Return the steps of k in panels of `steps`: matrix registers need padding by zeros."""
        if not self.is_matrix:
            return steps
        return self._rounded(steps, self.multiple)

    def _rounded(self, x: IndexValue, multiple: int) -> IndexValue:
        """Return `x` rounded up."""
        math = self.math
        return math.mul(math.div(math.add(x, multiple - 1), multiple), multiple)

    def panel_at(self, columns: IndexValue, steps: IndexValue) -> IndexValue:
        """Return the size in bytes of the panels of some columns and steps of k."""
        return self.math.mul(self.math.mul(columns, self.padded(steps)), self.bytes)

    def pack(self, operand: str, to: str, first_step: IndexValue, steps: IndexValue) -> None:
        """Pack all columns for some steps of k, one panel after the other."""
        math, columns, call = self.math, self.column.size, self.k.b.call_routine
        rows_at = self.math.moved(self.memory.steps.text, math.mul(first_step, 8))
        if self.form == LINES:
            call(self.routines.columns, (operand, rows_at, to), columns, steps)
            return
        with self.k.body.loop(0, columns, self.width) as column:
            offsets = self.math.moved(self.memory.offsets.text, math.mul(column, 8))
            panel = self.math.moved(to, self.panel_at(column, steps))
            count = math.minimum(self.width, math.sub(columns, column))
            call(self.routines.columns, (operand, offsets, rows_at, panel), count, steps)

    def rows(self, first: str, rows_at: Value, steps_at: Value, steps: IndexValue) -> list[str]:
        """Return the rows from `first` on, as many as a tile has, in the form of the routine.

        Args:
            first: the first of the rows.
            rows_at: table of the offsets of rows.
            steps_at: table of the offsets of steps of k in a row.
            steps: of k.
        """
        if not self.is_matrix:
            return [first, rows_at.text, steps_at.text]
        panel = self.memory.panel.text
        pointers = (first, rows_at, steps_at, panel)
        self.k.b.call_routine(self.routines.rows, pointers, self.height, steps)
        return [panel]

    def multiply(
        self,
        rows: list[str],
        panels: str,
        out: str,
        sizes: tuple[IndexValue, int, IndexValue],
        adds: IndexValue = 0,
    ) -> None:
        """Emit the call for a row of whole tiles.

        Args:
            rows: from `rows`.
            panels: of the columns.
            out: first element of the first row.
            sizes: steps of k, row stride of `out` in elements, columns; `out` has room for as many
                as are filled.
            adds: not 0 to accumulate into `out`.
        """
        steps, row, columns = sizes
        units = self.math.div(self.padded(steps), self.multiple)
        flag = f"i1 {self.math.compare('NE', adds, 0).text}"
        nothing_ahead = ("ptr null", 0, 0)
        numbers = (units, 4 * row, self.height, self._rounded(columns, self.filled))
        self.k.b.call_routine(
            self.routines.tiles, (*rows, panels, out), *numbers, flag, *nothing_ahead
        )


def _column_form(p: PackedGemm, arithmetic: Arithmetic) -> str:
    """Return the form of the columns in memory: one axis with a stride."""
    if p.columns[0].rhs == 1:
        return LINES
    run = arithmetic.depth_multiple if arithmetic.is_matrix else RUN * arithmetic.group
    inner = p.depth[-1]
    return RUNS if inner.rhs == 1 and inner.size >= min(run, p.sizes[2]) else ANY


def fill_table(k: KernelContext, table: Value, axes: Sequence[Axis], steps: Sequence[int]) -> None:
    """Write the offsets of all positions along some axes."""
    sizes = [axis.size for axis in axes]
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    with k.body.nest(sizes, list(range(len(sizes)))) as at:
        place = k.math.value(k.math.linear(at, steps))
        k.b.store(table, k.math.linear(at, strides), place)


class AttentionGemms:
    """Both gemms of an attention and their scratch memory.

    Attributes:
        memory: offsets of the parts that `AttentionPlan.layout` lists.
    """

    def __init__(self, k: KernelContext, plan: AttentionPlan) -> None:
        """Lay out the scratch memory, and prepare both right-hand sides.

        Scores are `[query, key]` = queries times keys over the depth, results `[query, value]` =
        probabilities times values over the keys.
        """
        self.k, self.plan, self.math, self.body = k, plan, k.math, k.body
        places, _ = plan.layout()
        # Scratch memory may be in an idle output, which is not aligned.
        scratch = pointer_value(k.math.aligned(k.scratch.text, CACHE_LINE_BYTES))
        self.memory = {name: k.b.offset_pointer(scratch, at) for name, at in places.items()}
        attention, rows = plan.attention, plan.block_rows
        self.keys = self._side(
            "key",
            Axis(rows, attention.depth, 0, plan.score_row),
            plan.key,
            plan.depth,
            (attention.query_operand.array.dtype, attention.key_operand.array.dtype),
        )
        self.values = self._side(
            "value",
            Axis(rows, plan.score_row, 0, plan.result_row),
            replace(plan.value, out=1),
            (Axis(plan.key.size, 1, plan.value_key, 0),),
            (attention.probabilities.array.dtype, attention.values.array.dtype),
        )

    def _side(
        self,
        name: str,
        row: Axis,
        column: Axis,
        depth: tuple[Axis, ...],
        types: tuple[DType, DType],
    ) -> PanelSide:
        product = PackedGemm((), (row,), (column,), depth, False, types, F32)
        offsets, steps = self.memory[f"{name}_offsets"], self.memory[f"{name}_steps"]
        memory = PanelMemory(offsets, steps, self.memory["panel"])
        return PanelSide(self.k, product, types[0], memory)

    @property
    def weights(self) -> Value:
        """The address of the weights: that of the scores if both have one type."""
        return self.memory["weights" if self.values.is_matrix else "scores"]

    def fill_tables(self) -> None:
        """Write all tables of offsets."""
        self.keys.fill_tables()
        self.values.fill_tables()
        plan = self.plan
        for name, size, step in (
            ("numbers", max(plan.key.size, plan.attention.depth), 1),
            ("query_rows", self.keys.height, plan.attention.depth),
            ("score_rows", self.values.height, plan.score_row),
        ):
            fill_table(self.k, self.memory[name], (Axis(size, 0, 0, 0),), (step,))

    def clear_rows(self) -> None:
        """Clear the rows after the last query of a block, which the last tile computes, too.

        They are ignored, but what lies there may be subnormal numbers, which processors multiply a
        hundred times as slowly as others. Matrix registers take them as zeros.
        """
        plan = self.plan
        rows = {"queries": plan.attention.depth, "scores": plan.score_row}
        for side, (name, row) in zip((self.keys, self.values), rows.items(), strict=True):
            for count in sorted({plan.block_rows, plan.attention.rows % plan.block_rows}):
                further = -count % side.height
                if further and not side.is_matrix:
                    at = self.k.b.offset_pointer(self.memory[name], 4 * count * row)
                    self.k.b.clear(at, 4 * further * row)

    def pack(self, keys: str, values: str) -> None:
        """Pack the keys and values of one batch element, values in blocks of the depth."""
        self.keys.pack(keys, self.memory["keys"].text, 0, self.plan.attention.depth)
        with self.body.loop(0, self.plan.key.size, DEPTH_BLOCK) as first:
            count = self._steps(first, self.plan.key.size)
            self.values.pack(values, self._value_panels(first), first, count)

    def _steps(self, first: IndexValue, end: IndexValue) -> IndexValue:
        return self.math.minimum(DEPTH_BLOCK, self.math.sub(end, first))

    def _value_panels(self, first: IndexValue) -> str:
        """Return the address of the panels of the values of key `first` and later ones."""
        width = self.values.width
        columns = -(-self.plan.value.size // width) * width
        offset = self.math.mul(first, columns * self.values.bytes)
        return self.math.moved(self.memory["values"].text, offset)

    def compute_scores(self, rows: IndexValue, start: IndexValue, stop: IndexValue) -> None:
        """Write the scores of the block's first `rows` queries and the keys in [start, stop).

        `start` is the start of a panel of keys; what the last panel is filled with is written, too.
        """
        math, side, plan = self.math, self.keys, self.plan
        depth, height, width = plan.attention.depth, side.height, side.width
        step = plan.key.size if side.is_matrix else COLUMN_PANELS * width
        tables = (self.memory["query_rows"], self.memory["numbers"])
        with self.body.loop(start, stop, step) as first:
            count = math.minimum(step, math.sub(stop, first))
            panels = math.moved(self.memory["keys"].text, side.panel_at(first, depth))
            with self.body.loop(0, rows, height) as row:
                place = math.mul(row, side.bytes * depth)
                query = math.moved(self.memory["queries"].text, place)
                place = math.add(math.mul(row, 4 * plan.score_row), math.mul(first, 4))
                out = math.moved(self.memory["scores"].text, place)
                source = side.rows(query, *tables, depth)
                side.multiply(source, panels, out, (depth, plan.score_row, count))

    def sum_weighted_values(self, rows: IndexValue, stop: IndexValue) -> None:
        """Write the sums of the values of the keys below `stop` times their weights."""
        math, side, plan = self.math, self.values, self.plan
        tables = (self.memory["score_rows"], self.memory["numbers"])
        with (
            self.body.loop(0, stop, DEPTH_BLOCK) as first,
            self.body.loop(0, rows, side.height) as row,
        ):
            packed, steps = self._steps(first, plan.key.size), self._steps(first, stop)
            place = math.add(math.mul(row, plan.score_row), first)
            weights = math.moved(self.weights.text, math.mul(place, side.bytes))
            source = side.rows(weights, *tables, steps)
            with self.body.loop(0, plan.value.size, side.width) as column:
                panel = math.moved(self._value_panels(first), side.panel_at(column, packed))
                place = math.add(math.mul(row, 4 * plan.result_row), math.mul(column, 4))
                out = math.moved(self.memory["result"].text, place)
                count = math.minimum(side.width, math.sub(plan.value.size, column))
                side.multiply(source, panel, out, (steps, plan.result_row, count), first)
