"""Cumulative sums, products and extrema (scans): every element is read at most twice.

Along the fastest dimension (rows), a group of threads, a warp or a block, scans a tile at a time:
each thread scans its own elements, then the warp by doubling, then the prefixes of earlier warps
are added. Along another dimension (columns), every thread has a column, so that loads coalesce.
Long scans of few rows are split into chunks over many blocks: one launch reduces each chunk, a
second scans the chunk totals, a third scans each chunk from its prefix. Results do not depend on
the order of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import combine, sum_dtype
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.reduction.cumulative_plan import ScanPlan, scan_plan
from hloc.codegen.gpu.emitters.reduction.cumulative_tiles import Tiles
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.scan import ScanElements, scan_problem
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a plain scan; scratch memory holds the total of every chunk, and its prefix."""
    problem = scan_problem(inst)
    if problem is None:
        return None
    scan = scan_plan(problem)
    size = 2 * _room(scan, _dtype(root_of(inst))) if scan.chunks > 1 else 0
    return GpuPlan(partial(emit, scan), scratch_bytes=size)


def _dtype(root: Instruction) -> DType:
    return sum_dtype(root.called[0], root.array.dtype)


def _room(plan: ScanPlan, dtype: DType) -> int:
    return aligned_bytes(plan.problem.rows * plan.chunks * dtype.storage_bytes)


def emit(plan: ScanPlan, w: LaunchWriter) -> None:
    """Emit one launch, or three if scans are split, and one for results of empty scans."""
    rows, empty = plan.problem.rows, plan.problem.form.empty
    if empty:
        with w.each(rows * empty) as (k, thread):
            number, row = k.math.rem(thread, empty), k.math.div(thread, empty)
            scan = _Scan(k, plan)
            scan.store_empty(scan.index(row), number, scan.initial())
    if plan.chunks > 1:
        with _chunks(w, plan, plan.chunks - 1) as (scan, row, chunk):
            scan.fold_chunk(row, chunk)
        with w.each(rows) as (k, row):
            _Scan(k, plan).join_chunks(row)
    with _chunks(w, plan, plan.chunks) as (scan, row, chunk):
        scan.scan_chunk(row, chunk)


@contextmanager
def _chunks(
    w: LaunchWriter, plan: ScanPlan, chunks: int
) -> Iterator[tuple[_Scan, IndexValue, IndexValue]]:
    """Emit a launch whose region runs for the first `chunks` of all rows.

    It runs in one thread if columns are scanned, or in all threads of a group.
    """
    rows = plan.problem.rows
    count = rows * chunks
    if plan.problem.by_columns:
        with w.each(count) as (k, thread):
            yield _Scan(k, plan), k.math.rem(thread, rows), k.math.div(thread, rows)
        return
    per_block = BLOCK_THREADS // plan.threads
    grid = (-(-count // per_block), 1, 1)
    with w.launch(grid, (plan.threads, per_block, 1)) as k:
        number = k.math.add(k.math.mul(k.block_index("x"), per_block), k.thread("y"))
        # Groups are whole warps: all threads of a group beyond the last chunk exit together.
        inside = [k.math.compare("LT", number, count)] if count % per_block else []
        with k.body.when(k.body.all_of(inside)):
            yield _Scan(k, plan), k.math.div(number, chunks), k.math.rem(number, chunks)


class _Scan(ScanElements):
    """The scans of one launch."""

    k: GpuContext

    def __init__(self, k: GpuContext, plan: ScanPlan) -> None:
        super().__init__(k, plan.problem, _dtype(k.root))
        self.plan = plan
        self.totals: IrArray | None = None
        if plan.chunks > 1:
            shape = (plan.chunks, plan.problem.rows)
            self.totals = k.scratch_array(0, self.dtype, shape)
            self.before = k.scratch_array(_room(plan, self.dtype), self.dtype, shape)

    def _joined(self, x: Value, y: Value) -> Value:
        (result,) = combine(self.k.g, self.k.root.called[0], [x], [y])
        return self.k.b.convert(result, self.dtype)

    def index(self, row: IndexValue) -> list[IndexValue]:
        """Return the index of the first element of scan number `row`."""
        p = self.problem
        return self.k.math.along(row, p.dims, p.others)

    def _read(self, row: IndexValue, step: IndexValue) -> Value:
        return self.read(self.index(row), step)

    def _write(self, row: IndexValue, step: IndexValue, value: Value) -> None:
        """Write the result of a step, if the step has one."""
        m, (low, high) = self.k.math, self.problem.results
        inside = [m.compare("GE", step, low)] if low else []
        inside += [m.compare("LT", step, high)] if high < self.problem.size else []
        with self.k.body.when(self.k.body.all_of(inside)):
            self.store(self.index(row), step, value)

    # ---- chunks

    def _ends(self, chunk: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return start and end of a chunk."""
        plan, m = self.plan, self.k.math
        if plan.chunks == 1:
            return 0, self.problem.size
        first = m.mul(chunk, plan.length)
        return first, m.minimum(m.add(first, plan.length), self.problem.size)

    def fold_chunk(self, row: IndexValue, chunk: IndexValue) -> None:
        """Write the reduction of a chunk, which is not the last of its row, to `totals`."""
        assert self.totals is not None
        k, m = self.k, self.k.math
        first, end = self._ends(chunk)
        if not self.problem.by_columns:
            total = self._fold_tiles(row, first, end)
            with k.body.when(m.compare("EQ", k.thread("x"), 0)):
                self.totals.store(m, (chunk, row), total)
            return
        slot = k.b.allocate(self.dtype)
        k.b.store(slot, 0, self._read(row, first))
        with k.body.loop(m.add(first, 1), end) as step:
            value = self._joined(k.b.load(slot, self.dtype, 0), self._read(row, step))
            k.b.store(slot, 0, value)
        self.totals.store(m, (chunk, row), k.b.load(slot, self.dtype, 0))

    def join_chunks(self, row: IndexValue) -> None:
        """Write the prefix of every chunk of a row, with the initial value."""
        assert self.totals is not None
        k, m = self.k, self.k.math
        slot = k.b.allocate(self.dtype)
        k.b.store(slot, 0, self.initial())
        last = self.plan.chunks - 1
        with k.body.loop(0, last) as chunk:
            value = k.b.load(slot, self.dtype, 0)
            self.before.store(m, (chunk, row), value)
            k.b.store(slot, 0, self._joined(value, self.totals.load(m, (chunk, row))))
        self.before.store(m, (last, row), k.b.load(slot, self.dtype, 0))

    def scan_chunk(self, row: IndexValue, chunk: IndexValue) -> None:
        """Write the results of a chunk."""
        k, m = self.k, self.k.math
        first, end = self._ends(chunk)
        start = self.initial() if self.totals is None else self.before.load(m, (chunk, row))
        if not self.problem.by_columns:
            self._scan_tiles(row, first, end, start)
            return
        slot = k.b.allocate(self.dtype)
        k.b.store(slot, 0, start)
        with k.body.loop(first, end) as step:
            value = self._joined(k.b.load(slot, self.dtype, 0), self._read(row, step))
            k.b.store(slot, 0, value)
            self._write(row, step, value)

    # ---- tiles of a group

    def _fold_tiles(self, row: IndexValue, first: IndexValue, end: IndexValue) -> Value:
        """Return in every thread the reduction of whole tiles."""
        k, m = self.k, self.k.math
        slot = k.b.allocate(self.dtype)
        k.b.store(slot, 0, k.b.const(self.dtype, 0))
        tiles = Tiles(k, self.plan, self.dtype, self._joined)
        with k.body.loop(first, end, self.plan.tile) as tile:
            _, _, totals = tiles.scanned(tile, end, lambda step: self._read(row, step))
            total = totals[0]
            for other in totals[1:]:
                total = self._joined(total, other)
            joined = self._joined(k.b.load(slot, self.dtype, 0), total)
            k.b.store(slot, 0, k.b.select(m.compare("EQ", tile, first), total, joined))
        return k.b.load(slot, self.dtype, 0)

    def _scan_tiles(
        self, row: IndexValue, first: IndexValue, end: IndexValue, start: Value
    ) -> None:
        """Write the results from `first` to `end`; `start` is the prefix."""
        k, m, b = self.k, self.k.math, self.k.b
        slot = b.allocate(self.dtype)
        b.store(slot, 0, start)
        tiles = Tiles(k, self.plan, self.dtype, self._joined)
        with k.body.loop(first, end, self.plan.tile) as tile:
            mine, before_lane, totals = tiles.scanned(tile, end, lambda step: self._read(row, step))
            running = before = b.load(slot, self.dtype, 0)
            for number, total in enumerate(totals):
                if number:
                    before = b.select(m.compare("EQ", tiles.warp, number), running, before)
                running = self._joined(running, total)
            b.store(slot, 0, running)
            first_lane = m.compare("EQ", tiles.lane, 0)
            before = b.select(first_lane, before, self._joined(before, before_lane))
            results = [self._joined(before, value) for value in mine]
            kept = b.allocate(self.dtype, len(results))
            for i, value in enumerate(results):
                b.store(kept, i, value)
            tiles.each_element(
                tile,
                end,
                lambda i, step: self._write(row, step, b.load(kept, self.dtype, i)),
            )


EMITTER = Emitter("cumulative", plan)
