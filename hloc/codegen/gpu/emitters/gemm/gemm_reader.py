"""Loads of the operands of a gemm and stores of its result, for any layout.

Loads beyond an edge are redirected to a valid address, so that threads do not diverge; such
elements are zero in sums and are not stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.elemental import Frame
from hloc.codegen.elements.reductions import window_step
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import has_epilogue
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Runs, Side
from hloc.codegen.gpu.vector_access import load_vector, store_vector
from hloc.dtypes import S64


class Reader:
    """Reads one side.

    Attributes:
        runs: the direction of the contiguous elements that one call returns, and their number.
    """

    def __init__(self, k: GpuContext, problem: MatrixProblem, side: Side, most: int) -> None:
        self.k, self.p, self.side = k, problem, side
        self.lines = problem.rows if side is problem.left else problem.columns
        self.runs: Runs = problem.runs(side, most)
        self.array = k.plain_array(side.operand)

    def neighbours(
        self, batch: IndexValue, line: IndexValue, depth: IndexValue, edges: tuple[bool, bool]
    ) -> list[Value]:
        """Return elements from (batch, line, depth) on, in their own type; zeros beyond the depth.

        The three are indices in the spaces of the gemm; `edges` says whether the line, and the
        depth, may be beyond the end.
        """
        k, b = self.k, self.k.b
        position, exists = self.locate(batch, line, depth, edges)
        if self.array is None and exists.text != "true":
            return self._computed_if(position, exists)
        result = self.at(position)
        if exists.text == "true":
            return result
        zero = b.const(self.side.dtype, 0)
        return [k.b.select(exists, value, zero) for value in result]

    def locate(
        self, batch: IndexValue, line: IndexValue, depth: IndexValue, edges: tuple[bool, bool]
    ) -> tuple[IndexValue, Value]:
        """Return the position of an element, and whether it exists; a valid position if not."""
        m, conditions = self.k.math, []
        width = self.runs.width
        if edges[0]:
            line = m.minimum(line, self.lines.count - (1 if self.runs.by_depth else width))
        if edges[1]:
            conditions.append(m.compare("LT", depth, self.p.depth.count))
            depth = m.minimum(depth, self.p.depth.count - (width if self.runs.by_depth else 1))
        lines, depths = m.delinear(line, self.lines.sizes), m.delinear(depth, self.p.depth.sizes)
        batches = m.delinear(batch, self.p.batch.sizes)
        position, result = self.locate_at(batches, lines, depths)
        return position, self.k.body.all_of([*conditions, result])

    def locate_at(
        self,
        batches: Sequence[IndexValue],
        lines: Sequence[IndexValue],
        depths: Sequence[IndexValue],
    ) -> tuple[IndexValue, Value]:
        """As `locate`, given an index of every loop that is within its size."""
        m, side = self.k.math, self.side
        conditions: list[Value] = []
        position = m.add(m.linear(batches, side.batch), m.linear(lines, side.line))
        position = m.add(position, m.linear(depths, side.depth))
        for reach in side.reaches:
            i = 0 if reach.line is None else lines[reach.line]
            w = 0 if reach.depth is None else depths[reach.depth]
            inside, at = window_step(self.k.g, reach.window, reach.size, i, w)
            conditions += inside
            position = m.add(position, m.mul(at, reach.stride))
        exists = self.k.body.all_of(conditions)
        if side.reaches and exists.text != "true":
            chosen = self.k.b.select(exists, m.value(position), self.k.b.const(S64, 0))
            position = Value(S64, chosen.text)
        return position, exists

    def at(self, position: IndexValue) -> list[Value]:
        """Return contiguous elements from a position on, which exist."""
        k, width = self.k, self.runs.width
        if self.array is not None:
            return load_vector(k, self.array.pointer, self.array.dtype, position, width)
        shape = self.side.operand.array
        index = list(k.math.delinear(position, shape.dims))
        return [
            k.read(self.side.operand, next_to(k, index, shape.rank - 1, i)) for i in range(width)
        ]

    def _computed_if(self, position: IndexValue, exists: Value) -> list[Value]:
        """Return zeros where no element exists, without running producers."""
        b, dtype, width = self.k.b, self.side.dtype, self.runs.width
        slots = b.allocate(dtype, width)
        for i in range(width):
            b.store(slots, i, b.const(dtype, 0))
        with self.k.body.when(exists):
            for i, value in enumerate(self.at(position)):
                b.store(slots, i, value)
        return [b.load(slots, dtype, i) for i in range(width)]


def next_to(k: GpuContext, index: Sequence[IndexValue], dim: int, steps: int) -> Index:
    """Return the index `steps` further along a dimension."""
    moved = list(index)
    if steps:
        moved[dim] = k.math.add(moved[dim], steps)
    return tuple(moved)


class ResultWriter:
    """Writes the result, or the sums of a part of the depth to scratch memory."""

    def __init__(self, k: GpuContext, problem: MatrixProblem, parts: int = 1) -> None:
        self.k, self.p = k, problem
        self.partial: IrArray | None = None
        p = problem
        if parts > 1:
            dims = (parts, p.batch.count, p.rows.count, p.columns.count)
            self.partial = k.scratch_array(0, p.sums, dims)
        self.has_epilogue = has_epilogue(k.inst)

    @property
    def width(self) -> int:
        """Most adjacent columns in one call of `write`."""
        if self.partial is None:
            return self.p.result_width
        width = max(16 // self.p.sums.storage_bytes, 1)
        while self.p.columns.count % width:
            width //= 2
        return width

    def write(
        self,
        part: IndexValue,
        batch: IndexValue,
        row: IndexValue,
        column: IndexValue,
        values: Sequence[Value],
    ) -> None:
        """Write `width` adjacent columns or a single one, which exist."""
        k, p = self.k, self.p
        if self.partial is not None:
            at = k.math.linear((part, batch, row, column), self.partial.strides)
            store_vector(k, self.partial.pointer, at, values)
            return
        m = k.math
        batches, rows = m.delinear(batch, p.batch.sizes), m.delinear(row, p.rows.sizes)
        self.write_at(batches, rows, m.delinear(column, p.columns.sizes), values)

    def write_at(
        self,
        batches: Sequence[IndexValue],
        rows: Sequence[IndexValue],
        columns: Sequence[IndexValue],
        values: Sequence[Value],
    ) -> None:
        """Write contiguous elements of the result, given an index of every loop."""
        k, m, p = self.k, self.k.math, self.p
        position = m.linear(batches, p.batch_steps)
        position = m.add(position, m.linear(rows, p.row_steps))
        position = m.add(position, m.linear(columns, p.column_steps))
        store_vector(k, k.output.pointer, position, self._finished(position, values))

    def _finished(self, position: IndexValue, values: Sequence[Value]) -> list[Value]:
        """Return the values to store: sums in the type of the result, after the epilogue."""
        k, root = self.k, self.p.root
        result = [k.b.convert(value, root.array.dtype) for value in values]
        if not self.has_epilogue:
            return result
        index = k.math.in_memory(position, root.array)
        fastest = root.array.minor_to_major[0] if root.array.rank else 0
        finished = []
        for i, value in enumerate(result):
            frame = Frame({**k.frame.sources, root: value})
            finished.append(k.g.element(frame, k.root, next_to(k, index, fastest, i)))
        return finished
