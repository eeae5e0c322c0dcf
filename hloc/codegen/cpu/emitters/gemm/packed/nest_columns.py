"""The columns in the loops around micro-kernels: packing, prefetches, and where panels lie."""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.gemm.micro_kernels.bf16_parts import PAIRS
from hloc.codegen.cpu.emitters.gemm.micro_kernels.columns_ahead import prefetched_range
from hloc.codegen.cpu.emitters.gemm.micro_kernels.packing_ahead import BlockRecord
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import MATRIX_UNITS
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import LINES
from hloc.codegen.cpu.emitters.gemm.packed.nest_operands import NestOperands, Pair
from hloc.dtypes import S64


class NestColumns:
    """Emits what the loops do with the columns of one gemm.

    Columns are pairs of the first one and their number.

    Attributes:
        rhs: the pointer to the right-hand side.
        panels: memory of the block that is multiplied.
    """

    def __init__(self, operands: NestOperands, rhs: str) -> None:
        self.o, self.n, self.math = operands, operands.n, operands.math
        self.rhs, self.panels = rhs, operands.panels

    def pack_block(self, columns: Pair, step: IndexValue, start: IndexValue) -> None:
        """Pack some columns, the block of k from `step` on of those that begin at `start`."""
        n, math, (first, count) = self.n, self.math, columns
        steps, padded = self.o.steps(step)
        panels = self.panels_at(step, start)
        if self.o.form.columns == LINES:
            self.o.pack("pack_columns", "column", self.rhs, columns, (step, steps), panels)
            return
        with self.o.body.loop(0, count, n["width"]) as column:
            to = math.moved(panels, math.mul(math.mul(column, padded), n["operand_bytes"]))
            width = math.minimum(n["width"], math.sub(count, column))
            at = math.add(first, column)
            self.o.pack("pack_columns", "column", self.rhs, (at, width), (step, steps), to)

    def panels_at(self, step: IndexValue, start: IndexValue) -> str:
        """Return the address of the packed columns of the block of k from `step` on."""
        n, math = self.n, self.math
        place = math.mul(math.sub(step, start), n["block"])
        return math.moved(self.panels, math.mul(place, n["operand_bytes"]))

    def panel_in_memory(self, panels: str, column: IndexValue, step: IndexValue) -> str:
        """Return where the panel of `panels` that begins with `column` has step `step` of k."""
        n, math = self.n, self.math
        rows = math.add(math.mul(column, n["depth"]), math.mul(step, n["width"]))
        return math.moved(panels, math.mul(rows, n["operand_bytes"]))

    def ahead(
        self,
        columns: Pair,
        row: IndexValue,
        block: Pair,
    ) -> tuple[str, IndexValue, IndexValue]:
        """Return what a row of tiles prefetches: a share of the block that is read next.

        That is the next block of k of these columns, or the first one of the next columns.
        """
        n, math, b = self.n, self.math, self.o.w.b
        (first, _), (step, start) = columns, block
        (first_row, last_row), (_, last_column) = (
            self.o.part(side, n[f"{side}s"]) for side in ("row", "column")
        )
        steps, _ = self.o.steps(step)
        next_step = math.add(step, n["span"])
        is_deepest = math.compare("GE", next_step, n["depth"])
        at = math.minimum(next_step, math.sub(n["depth"], steps))
        at = b.select(is_deepest, math.value(math.sub(step, start)), math.value(at))
        column = b.select(is_deepest, math.value(math.add(first, n["block"])), math.value(first))
        within, share = prefetched_range(
            math,
            math.ceiling_div(math.sub(row, first_row), n["height"]),
            math.ceiling_div(math.sub(last_row, first_row), n["height"]),
            steps,
            n["stretch"],
        )
        is_needed = b.and_(
            math.compare("LT", column, last_column), math.compare("LT", within, steps)
        )
        is_needed = b.and_(is_needed, math.compare("NE", n["ahead_row_bytes"], 0))
        at = math.add(at, within)
        if self.o.form.is_packed:
            place = self.panel_in_memory(self.rhs, column, at)
        else:
            offset = math.add(math.mul(at, n["ahead_row_bytes"]), math.mul(column, n["rhs_bytes"]))
            place = math.moved(self.rhs, offset)
        count = b.select(is_needed, math.value(share), math.value(0))
        return place, n["ahead_row_bytes"], count


class NextBlock:
    """Emits the packing of the next block of columns, while those of this one are multiplied.

    Attributes:
        columns: of the gemm.
        record: the block that is packed; `share` pieces of it after each pair of parts.
    """

    def __init__(self, columns: NestColumns, record: BlockRecord) -> None:
        self.o, self.n, self.math = columns.o, columns.n, columns.math
        self.columns, self.record, self.share = columns, record, Value(S64, "0")

    def pack_first(self) -> None:
        """Pack the first block of columns."""
        n, math = self.n, self.math
        first, last = self.o.part("column", n["columns"])
        self.record.set_memory(
            self.columns.panels, math.moved(self.columns.panels, n["block_bytes"])
        )
        self._begin_block((first, math.minimum(n["block"], math.sub(last, first))), 0)
        self.pack_rest()

    def pack_next(self, columns: Pair, start: IndexValue) -> None:
        """Begin the block that is packed while these columns are multiplied.

        That is the next block of k, or the first one of the next columns.
        """
        n, math, b = self.n, self.math, self.o.w.b
        first, count = columns
        first_row, last_row = self.o.part("row", n["rows"])
        _, last_column = self.o.part("column", n["columns"])
        after = math.add(start, n["span"])
        is_deepest = math.compare("GE", after, n["depth"])
        step = b.select(is_deepest, math.value(0), math.value(after))
        column = b.select(is_deepest, math.value(math.add(first, n["block"])), math.value(first))
        left = math.sub(math.maximum(last_column, column), column)
        self.columns.panels = self.record.exchange_memory()
        self._begin_block((column, math.minimum(n["block"], left)), step)
        tiles = math.mul(
            math.ceiling_div(math.sub(last_row, first_row), n["height"]),
            math.ceiling_div(count, n["width"]),
        )
        steps, _ = self.o.steps(start)
        calls = math.mul(math.mul(tiles, self.o.units(steps)), len(PAIRS))
        self.share = math.value(math.ceiling_div(self.record.load("left"), calls))

    def pack_rest(self) -> None:
        """Pack what is left of the block."""
        self.o.call("pack_columns", [self.record.place], [self.record.load("left")])

    def _begin_block(self, columns: Pair, step: IndexValue) -> None:
        """Begin to pack some columns, a block of k from step `step` on."""
        n, math = self.n, self.math
        first, count = columns
        steps, _ = self.o.steps(step)
        units = math.mul(self.o.units(steps), MATRIX_UNITS)
        pieces = math.mul(math.ceiling_div(count, n["width"]), units)
        begin = math.moved(self.columns.rhs, math.mul(first, n["rhs_bytes"]))
        self.record.begin(begin, self.o.entry(self.o.tables["right"], step), count, steps, pieces)
