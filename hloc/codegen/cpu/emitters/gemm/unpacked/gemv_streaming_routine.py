"""The routines of gemms of few rows: the right-hand side is streamed once.

    stream(lhs, rhs, out, sums, columns, depth, column_block, lhs_row, lhs_step, rhs_step,
           out_row_bytes)

The sums of a block of columns stay in the cache; every `DEPTH_BLOCK` steps of k they are added to
totals, so that long sums stay accurate. With a small right-hand side, sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_resident import splat, write_resident
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import load_as, prefetch_ahead, store_as
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, DType
from hloc.memory.heap import CACHE_LINE_BYTES

DEPTH_BLOCK = 1024
"""Steps of k that are summed before they are added to the totals."""

_PARAMETERS = named_parameters(
    "lhs rhs",
    "out sums",
    "columns depth column_block lhs_row lhs_step rhs_step out_row_bytes",
)


@cache
def stream_routines(
    rows: int,
    unroll: int,
    has_rest: bool,
    sources: tuple[DType, DType],
    result: DType,
    target: Target,
) -> Routines:
    """Return the function for some number of rows.

    Args:
        rows: of the left-hand side.
        unroll: steps of k per iteration; 0 if accumulators stay in registers.
        has_rest: true if `unroll` does not divide k.
        sources: element types of the operands.
        result: that of the result.
        target: the machine.
    """
    types = "_".join(dtype.name for dtype in (*sources, result))
    rest = "_rest" if unroll and has_rest else ""
    name = f"stream_{types}_{rows}x{unroll}{rest}"

    def write(w: RoutineWriter) -> None:
        if unroll:
            _Stream(w, rows, unroll, sources, result, target).write(has_rest)
        else:
            write_resident(w, rows, sources, result, target)

    return routine_unit(name, _PARAMETERS, write, target)


class _Stream:
    """Writes one routine."""

    def __init__(
        self,
        w: RoutineWriter,
        rows: int,
        unroll: int,
        sources: tuple[DType, DType],
        result: DType,
        target: Target,
    ) -> None:
        self.w, self.fn, self.b, self.body, self.math = w, w.fn, w.b, w.body, w.math
        self.rows, self.unroll, self.sources, self.result = rows, unroll, sources, result
        self.total = F64 if result is F64 else F32
        self.lanes = target.vector_bits // self.total.bits
        self.vector = f"<{self.lanes} x {REPRESENTATIONS[self.total].memory}>"
        self.line = CACHE_LINE_BYTES // self.total.storage_bytes

    def write(self, has_rest: bool) -> None:
        """Emit the loops over blocks of columns and blocks of k."""
        body, math = self.body, self.math
        columns, depth = argument("%columns"), argument("%depth")
        block = argument("%column_block")
        with body.loop(0, columns, block) as first:
            count = math.minimum(block, math.sub(columns, first))
            cells = math.mul(count, self.rows)
            with body.loop(0, depth, self._depth_block()) as start:
                # The first block is summed in the totals, others behind them.
                sums = math.mul(math.minimum(start, 1), cells)
                with body.loop(0, cells, self.lanes) as cell:
                    self._store(math.add(sums, cell), "zeroinitializer")
                stop = math.minimum(depth, math.add(start, self._depth_block()))
                left = math.rem(math.sub(stop, start), self.unroll) if has_rest else 0
                whole = math.sub(stop, left)
                with body.loop(start, whole, self.unroll) as step:
                    self._steps(step, first, count, sums, self.unroll)
                if has_rest:
                    with body.loop(whole, stop) as step:
                        self._steps(step, first, count, sums, 1)
                with body.loop(0, sums, self.lanes) as cell:
                    x, y = self._load(cell), self._load(math.add(sums, cell))
                    self._store(cell, self.fn.value(f"fadd {self.vector} {x}, {y}"))
            self._finish(first, count)

    def _depth_block(self) -> int:
        return DEPTH_BLOCK // self.unroll * self.unroll

    def _load(self, cell: IndexValue) -> str:
        at = self.b.address(pointer_value("%sums"), self.total, self.math.value(cell))
        return self.fn.value(f"load {self.vector}, ptr {at}, align 4")

    def _store(self, cell: IndexValue, value: str) -> None:
        at = self.b.address(pointer_value("%sums"), self.total, self.math.value(cell))
        self.fn.line(f"store {self.vector} {value}, ptr {at}, align 4")

    def _steps(
        self, step: IndexValue, first: IndexValue, count: IndexValue, sums: IndexValue, number: int
    ) -> None:
        """Add some steps of k to all sums, which begin at the cell `sums`."""
        math = self.math
        steps = [math.add(step, u) for u in range(number)]
        xs = [
            [splat(self.w, row, k, self.sources[0], self.total, self.lanes) for k in steps]
            for row in range(self.rows)
        ]
        starts = [math.add(math.mul(k, argument("%rhs_step")), first) for k in steps]
        with self.body.loop(0, count, self.line) as line:
            if self.rows > 1 and number > 1:
                self._prefetch([math.add(start, line) for start in starts])
            columns = [math.add(line, shift) for shift in range(0, self.line, self.lanes)]
            ys = [[self._load_rhs(math.add(start, c)) for c in columns] for start in starts]
            for row in range(self.rows):
                for c, of_column in zip(columns, zip(*ys, strict=True), strict=True):
                    cell = math.add(sums, math.add(math.mul(count, row), c))
                    self._add(cell, xs[row], of_column)

    def _load_rhs(self, place: IndexValue) -> str:
        return load_as(self.w, "%rhs", self.sources[1], self.total, self.lanes, place)

    def _add(self, cell: IndexValue, xs: Sequence[str], ys: Sequence[str]) -> None:
        """Add products to the vector of sums from `cell` on.

        Additions of a line's vectors overlap; where it has one, they are in two chains that do.
        """
        fn, chains = self.fn, 2 if self.lanes == self.line else 1
        sums = [self._load(cell)]
        for u, (x, y) in enumerate(zip(xs, ys, strict=True)):
            product = fn.value(f"fmul contract {self.vector} {x}, {y}")
            if 0 < u < chains:
                sums.append(product)
            else:
                total = sums[u % chains]
                sums[u % chains] = fn.value(f"fadd contract {self.vector} {total}, {product}")
        if len(sums) > 1:
            sums = [fn.value(f"fadd {self.vector} {sums[0]}, {sums[1]}")]
        self._store(cell, sums[0])

    def _prefetch(self, places: list[IndexValue]) -> None:
        """Prefetch the same columns of the next steps into the L2 cache.

        Blocks of columns are short, so hardware prefetching does not find the next row.
        """
        ahead = self.math.mul(argument("%rhs_step"), self.unroll)
        prefetch_ahead(self.w, "%rhs", self.sources[1], places, ahead)

    def _finish(self, first: IndexValue, count: IndexValue) -> None:
        """Write the totals into the result."""
        math = self.math
        with self.body.loop(0, self.rows) as row:
            offset = math.mul(row, argument("%out_row_bytes"))
            out = math.moved("%out", offset)
            with self.body.loop(0, count, self.lanes) as column:
                value = self._load(math.add(math.mul(row, count), column))
                place = math.add(first, column)
                store_as(self.w, out, self.total, self.result, self.lanes, place, value)
