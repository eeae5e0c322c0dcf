"""Reductions, with producers fused into their operands; several of one kind may share their loops.

Row reductions (of the fastest dimension) accumulate in registers; column reductions accumulate a
strip in the L1 cache and read the operand in memory order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import Accumulators, is_float_sum
from hloc.codegen.kernels.column_strips import STRIP, column_pieces, shared_strips
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.extremum import extremum_of, reduce_row
from hloc.codegen.kernels.lane_feed import feed_rows
from hloc.codegen.kernels.lanes import lanes_of, mark_final
from hloc.codegen.kernels.reduce_problem import ReduceProblem, reduce_problem
from hloc.codegen.kernels.running_sums import SUM_BLOCK, block_end, running_sum
from hloc.dtypes import F64
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass

_ROWS = 4
"""Rows that are added to the accumulators at a time."""

_MOST_REPEATED = 16
"""Most fused producers of an element that are unrolled over these rows."""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a reduce, or several with the same loops."""
    problem = reduce_problem(inst)
    return None if problem is None else KernelPlan(partial(emit, problem), extent_of(problem))


def extent_of(problem: ReduceProblem) -> int:
    """Return the size of the outermost kept dimension, or the number of pieces of columns."""
    outer, strip = _loops(problem)
    if outer:
        return problem.dims[outer[0]]
    return column_pieces(problem.dims[strip]) if strip is not None else 1


def _loops(problem: ReduceProblem) -> tuple[tuple[int, ...], int | None]:
    """Return the dimensions of the loops around each reduction, and the one in strips."""
    if problem.by_columns:
        outer = tuple(dim for dim in problem.kept[:-1] if problem.dims[dim] != 1)
        return outer, problem.kept[-1]
    return problem.kept, None


def emit(problem: ReduceProblem, k: KernelContext) -> None:
    """Write the loops."""
    if problem.addends == 0:
        _fill(k, problem.roots)
        return
    outer, strip_dim = _loops(problem)
    kernel, dims = _Kernel(k, problem, strip_dim), problem.dims
    if outer:
        with k.body.nest(dims, outer, (k.begin, k.end)) as at:
            kernel.inner(at)
    else:
        kernel.inner([0] * len(dims), is_shared=True)
    mark_final(k)


def _starts(root: Instruction) -> tuple[Instruction, ...]:
    return root.operands[len(root.operands) // 2 :]


def _fill(k: KernelContext, roots: tuple[Instruction, ...]) -> None:
    """Emit reductions of no elements: the results are the initial values."""
    dims, reduced = roots[0].operands[0].array.dims, roots[0].attributes.dimensions
    kept = [dim for dim in range(len(dims)) if dim not in reduced]
    with k.body.nest(dims, kept) as at:
        store_results(k, roots, at, [k.read(start, ()) for r in roots for start in _starts(r)])


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Writes what is inside the loops over kept dimensions."""

    k: KernelContext
    problem: ReduceProblem
    strip: int | None

    def inner(self, at: list[IndexValue], *, is_shared: bool = False) -> None:
        """Emit the loops inside the kept dimensions, whose index is `at`.

        Columns are those of this part of the kernel if threads share them, else all.
        """
        if self.strip is None:
            self._row(at)
            return
        size = self.problem.dims[self.strip]
        if is_shared:
            with shared_strips(self.k, size) as (first, width):
                self._strip(at, first, width)
            return
        m = self.k.math
        with self.k.body.loop(0, size, STRIP) as first:
            is_even = size % STRIP == 0
            self._strip(at, first, STRIP if is_even else m.minimum(m.sub(size, first), STRIP))

    def _row(self, at: list[IndexValue]) -> None:
        k = self.k
        kind = extremum_of(self.problem.roots[0]) if len(self.problem.roots) == 1 else ""
        if kind:
            store_results(k, self.problem.roots, at, reduce_row(k, self.problem.roots[0], at, kind))
            return
        sums = [running_sum(k, root, self.problem.addends) for root in self.problem.roots]

        def element(inner: list[IndexValue]) -> None:
            index = joined(at, inner, self.problem.reduced)
            for total in sums:
                total.add([k.read(operand, index) for operand in total.inputs])

        feed_rows(k, self.problem.dims, self.problem.reduced, sums, element)
        store_results(
            k, self.problem.roots, at, [value for total in sums for value in total.finish()]
        )

    def _strip(self, at: list[IndexValue], first: IndexValue, width: IndexValue) -> None:
        """Reduce some columns from `first` on, at most `STRIP` of them."""
        columns = _Columns(self, at, first, width)
        if self.problem.addends > SUM_BLOCK and any(map(is_float_sum, self.problem.roots)):
            columns.long_sum()
        else:
            columns.reduce()


def store_results(
    k: KernelContext,
    roots: tuple[Instruction, ...],
    at: Sequence[IndexValue],
    values: Sequence[Value],
) -> None:
    """Write one element of every result of the reductions; `at` is an index of their inputs."""
    reduced = roots[0].attributes.dimensions
    index = tuple(at[d] for d in range(len(at)) if d not in reduced)
    if k.root in roots:
        for output, value in zip(k.outputs, values, strict=True):
            output.store(k.math, index, k.b.convert(value, output.dtype))
        return
    done = {
        root: k.b.convert(value, root.array.dtype)
        for root, value in zip(roots, values, strict=True)
    }
    k.frame.sources = {**k.frame.sources, **done}
    results = k.root.operands if k.root.opcode.name == "tuple" else (k.root,)
    elements = [k.read(inst, index) for inst in results]
    for output, value in zip(k.outputs, elements, strict=True):
        output.store(k.math, index, value)


def joined(
    outer: list[IndexValue], inner: list[IndexValue], dims: tuple[int, ...]
) -> tuple[IndexValue, ...]:
    """Return `outer` with the positions of `inner` in `dims`."""
    return tuple(inner[d] if d in dims else outer[d] for d in range(len(outer)))


class _Results(Accumulators):
    """The accumulators of one reduction for a strip of columns."""

    def __init__(
        self, k: KernelContext, root: Instruction, count: int, addends: int, is_long: bool
    ) -> None:
        in_blocks = is_float_sum(root)
        super().__init__(k.g, root, 0 if in_blocks else addends, count)
        self.total = k.b.allocate(F64, count) if is_long and in_blocks else None

    def begin(self, column: IndexValue, values: Sequence[Value]) -> None:
        """Set the results of a column to the initial values."""
        b = self.g.b
        if self.total is not None:
            b.store(self.total, column, b.convert(values[0], F64))
            b.store(self.slots[0], column, b.const(self.dtypes[0], 0))
            return
        for number, value in enumerate(values):
            self.start(number, value, column)

    def end_block(self, column: IndexValue) -> None:
        """Add the block to the total, and begin the next one."""
        if self.total is not None:
            b = self.g.b
            part = b.convert(b.load(self.slots[0], self.dtypes[0], column), F64)
            b.store(self.total, column, b.fadd(b.load(self.total, F64, column), part))
            b.store(self.slots[0], column, b.const(self.dtypes[0], 0))

    def add_rows(self, column: IndexValue, rows: Sequence[Sequence[Value]]) -> None:
        """Combine the elements of one column in some rows, one after another."""
        sums = self.load(column)
        for elements in rows:
            sums = self.combine(sums, self.converted(elements))
        self.store(sums, column)

    def results(self, column: IndexValue) -> list[Value]:
        """Return the results of a column."""
        if self.total is not None:
            return [self.g.b.load(self.total, F64, column)]
        return self.load(column)


class _Columns:
    """A strip of accumulators, one per column, for every result of the reductions."""

    def __init__(
        self, kernel: _Kernel, at: list[IndexValue], first: IndexValue, width: IndexValue
    ) -> None:
        self.k, self.problem = kernel.k, kernel.problem
        self.at, self.first, self.width = at, first, width
        assert kernel.strip is not None
        self.strip = kernel.strip
        self.size = self.problem.dims[self.strip]
        lanes = lanes_of(self.k)
        self.lanes = lanes if lanes is not None and lanes.fit(self.size) else None
        if self.lanes is None:
            self.k.is_final = False

    def reduce(self) -> None:
        """Fold all elements into strips that begin with the initial values."""
        results = self._results(is_long=False)
        self._start(results)
        *outer, last = self.problem.reduced
        with self.k.body.nest(self.problem.dims, outer) as inner:
            count = self.problem.dims[last]
            self._add_rows(results, inner, last, (0, count), count)
        self._finish(results)

    def long_sum(self) -> None:
        """Sum blocks of rows, then the blocks in f64."""
        k, dims = self.k, self.problem.dims
        results = self._results(is_long=True)
        self._start(results)
        *outer, last = self.problem.reduced
        size = dims[last]
        with k.body.nest(dims, outer) as inner, k.body.loop(0, size, SUM_BLOCK) as first:
            end = block_end(k, first, size, SUM_BLOCK)
            count = SUM_BLOCK if size % SUM_BLOCK == 0 else k.math.sub(end, first)
            self._add_rows(results, inner, last, (first, end), count)
            with self._columns() as (slot, _):
                for result in results:
                    result.end_block(slot)
        self._finish(results)

    def _results(self, is_long: bool) -> list[_Results]:
        count = min(STRIP, self.size)
        if self.lanes is not None:
            count = -(-count // self.lanes.count) * self.lanes.count
        addends = self.problem.addends
        return [_Results(self.k, root, count, addends, is_long) for root in self.problem.roots]

    def _start(self, results: list[_Results]) -> None:
        values = [[self.k.read(start, ()) for start in result.starts] for result in results]
        with self._columns() as (slot, _):
            for result, starts in zip(results, values, strict=True):
                result.begin(slot, starts)

    def _add_rows(
        self,
        results: list[_Results],
        outer: list[IndexValue],
        last: int,
        bounds: tuple[IndexValue, IndexValue],
        count: IndexValue,
    ) -> None:
        """Add the `count` rows in `bounds` of `last`, several at a time where that is short."""
        k, (first, end) = self.k, bounds
        several = end
        if self._rows_at_once() > 1:
            rest = k.math.rem(count, _ROWS)
            several = k.math.sub(end, rest)
            with k.body.loop(first, several, _ROWS) as row:
                self._add_row(results, outer, last, [k.math.add(row, i) for i in range(_ROWS)])
            if rest == 0:
                return
            first = several
        with k.body.loop(first, end) as row:
            self._add_row(results, outer, last, [row])

    def _rows_at_once(self) -> int:
        repeated = 1
        if self.k.inst.opcode.name == "fusion":
            repeated = len(post_order_from(x for root in self.problem.roots for x in root.operands))
        return _ROWS if repeated <= _MOST_REPEATED and self.problem.addends >= 4 * _ROWS else 1

    def _add_row(
        self,
        results: list[_Results],
        outer: list[IndexValue],
        last: int,
        rows: Sequence[IndexValue],
    ) -> None:
        k = self.k
        with self._columns() as (slot, column):
            for result in results:
                elements = []
                for row in rows:
                    at = list(outer)
                    at[last] = row
                    index = tuple(self._index(column, at))
                    elements.append([k.read(operand, index) for operand in result.inputs])
                result.add_rows(slot, elements)

    def _finish(self, results: list[_Results]) -> None:
        with self._columns() as (slot, column):
            values = [value for result in results for value in result.results(slot)]
            store_results(self.k, self.problem.roots, self._index(column, self.at), values)

    def _index(self, column: IndexValue, inner: list[IndexValue]) -> list[IndexValue]:
        index = list(joined(self.at, inner, self.problem.reduced))
        index[self.strip] = column
        return index

    @contextmanager
    def _columns(self) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Run the region for all columns; yields the index of the accumulators, and the column.

        Several columns are computed at a time if possible. The last ones may then be computed
        twice, with separate accumulators.
        """
        m, lanes = self.k.math, self.lanes
        if lanes is None:
            with self.k.body.loop(0, self.width) as slot:
                yield slot, m.add(self.first, slot)
            return
        with self.k.body.loop(0, self.width, lanes.count) as slot, lanes.inside():
            column = m.add(self.first, slot)
            if self.size % lanes.count:
                column = m.minimum(column, self.size - lanes.count)
            yield lanes.at(slot), lanes.at(column)


EMITTER = Emitter("reduce", plan)
