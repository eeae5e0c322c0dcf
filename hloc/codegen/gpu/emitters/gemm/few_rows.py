"""Gemms of a few rows with a large matrix (gemv), which are bound by reading the matrix.

If the depth is contiguous in the matrix, a warp has several columns: its lanes run along the depth
and reduce their sums by shuffles. Otherwise a warp has adjacent columns, the warps of a block share
the depth, and their sums are reduced in shared memory. Long depths are split over blocks (split-k).
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.collectives import lane_reduce
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitters.gemm.gemm_plan import MOST_PARTS, PROCESSORS, scratch_bytes
from hloc.codegen.gpu.emitters.gemm.gemm_reader import Reader, ResultWriter
from hloc.codegen.gpu.emitters.gemm.matrix_problem import VECTOR_BYTES, MatrixProblem, Runs
from hloc.codegen.gpu.emitters.gemm.split_k import add, join_parts
from hloc.codegen.gpu.emitters.gemm.tiled_gemm import when_below, write_columns
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.lazy_dataclass import dataclass

MOST_ROWS = 16
_WARPS = 8
_MOST_SUMS = 32
"""Most accumulators of a thread."""

_MOST_SPREAD_ROWS = 2
"""Most rows for which the widest reads of the matrix matter more than those of the rows."""

_FEWEST_RUNS = 4
"""Fewest reads of every lane, or warp, for which splitting the depth further pays."""

_BLOCKS = 4 * PROCESSORS
"""Blocks that saturate the memory of a large GPU."""


@dataclass(frozen=True, slots=True)
class FewRowsPlan:
    """The distribution of columns and depth.

    Attributes:
        by_depth: lanes run along the depth, else along columns.
        width: contiguous elements per load of a thread.
        columns: of one block; `warp_columns`: of one warp or, along columns, of one thread.
        part: depth of one part; `parts`: their number.
    """

    by_depth: bool
    width: int
    columns: int
    warp_columns: int
    part: int
    parts: int

    def blocks(self, p: MatrixProblem) -> int:
        """Blocks of one part."""
        return -(-p.columns.count // self.columns) * p.batch.count


def oriented(p: MatrixProblem) -> MatrixProblem:
    """Return the gemm with its sides swapped if it has few columns."""
    return p if p.rows.count <= p.columns.count else p.swapped()


def suits(p: MatrixProblem) -> bool:
    """True if the lanes of a warp, or its warps, have enough depth to share."""
    p = oriented(p)
    fewest = 2 * WARP_THREADS if _runs(p).by_depth else _FEWEST_RUNS * _WARPS
    return p.depth.count >= fewest


def _runs(p: MatrixProblem) -> Runs:
    """Return the direction of the lanes: the contiguous one, unless that has few columns."""
    runs = p.runs(p.right, VECTOR_BYTES)
    return runs if runs.by_depth or p.columns.count >= WARP_THREADS else Runs(True, 1)


def _width(p: MatrixProblem, runs: Runs) -> int:
    """Return the width of a thread's loads; each lane should have at least two loads."""
    width = runs.width
    if runs.by_depth:
        # Lanes that are far apart in rows of wider numbers read twice as many sectors of those.
        most = VECTOR_BYTES // p.left.read_bytes if p.rows.count > _MOST_SPREAD_ROWS else width
        while width > 1 and (width > most or p.depth.count < 2 * WARP_THREADS * width):
            width //= 2
    else:
        while width > 1 and p.rows.count * width > _MOST_SUMS:
            width //= 2
    return width


def plan_of(p: MatrixProblem) -> FewRowsPlan:
    """Return the distribution of `p`, which is oriented."""
    rows, depth = p.rows.count, p.depth.count
    runs = _runs(p)
    width = _width(p, runs)
    if runs.by_depth:
        each = max(1, 4 // rows)
        columns, step = _WARPS * each, WARP_THREADS * width
    else:
        each, columns, step = width, WARP_THREADS * width, _WARPS
    blocks = -(-p.columns.count // columns) * p.batch.count
    most = depth // (step * _FEWEST_RUNS)
    parts = max(1, min(MOST_PARTS, most, _BLOCKS // max(blocks, 1)))
    part = -(-depth // parts)
    part = -(-part // step) * step
    return FewRowsPlan(runs.by_depth, width, columns, each, part, -(-depth // part))


def scratch_for(p: MatrixProblem) -> int:
    """Return the scratch memory that `emit_few_rows` needs."""
    return scratch_bytes(p, plan_of(oriented(p)).parts)


def emit_few_rows(w: LaunchWriter, p: MatrixProblem) -> None:
    """Write the launches of a product."""
    p = oriented(p)
    plan = plan_of(p)
    with w.launch((plan.blocks(p), plan.parts, 1), (WARP_THREADS, _WARPS, 1)) as k:
        writer = _Writer(k, p, plan)
        if plan.by_depth:
            writer.along_depth()
        else:
            writer.along_columns()
    if plan.parts > 1:
        join_parts(w, p, plan.parts)


class _Writer:
    """Writes the function of one thread."""

    def __init__(self, k: GpuContext, p: MatrixProblem, plan: FewRowsPlan) -> None:
        self.k, self.p, self.plan = k, p, plan
        both = plan.by_depth and p.runs(p.left, plan.width).by_depth
        self.left = Reader(k, p, p.left, plan.width if both else 1)
        self.right = Reader(k, p, p.right, plan.width)
        self.results = ResultWriter(k, p, plan.parts)
        m = k.math
        tiles = -(-p.columns.count // plan.columns)
        self.batch, tile = m.delinear(k.block_index("x"), [p.batch.count, tiles])
        self.first_column = m.mul(tile, plan.columns)
        self.part = k.block_index("y")
        self.first = m.mul(self.part, plan.part)
        self.end: IndexValue = p.depth.count
        if plan.parts > 1:
            self.end = m.minimum(m.add(self.first, plan.part), p.depth.count)
        self.edge = p.columns.count % plan.columns != 0
        self.slots = k.b.allocate(p.sums, p.rows.count * plan.warp_columns)

    def _start(self) -> None:
        for number in range(self.p.rows.count * self.plan.warp_columns):
            self.k.b.store(self.slots, number, self.k.b.const(self.p.sums, 0))

    def _add(self, row: int, column: int, x: Value, y: Value) -> None:
        b, number = self.k.b, row * self.plan.warp_columns + column
        total = b.load(self.slots, self.p.sums, number)
        b.store(self.slots, number, b.multiply_add(x, y, total))

    def _converted(self, values: Sequence[Value]) -> list[Value]:
        return [self.k.b.convert(value, self.p.sums) for value in values]

    # ---- lanes along the depth

    def along_depth(self) -> None:
        """Emit the code for one or a few columns per warp."""
        k, m, plan, p = self.k, self.k.math, self.plan, self.p
        lane, width = k.thread("x"), plan.width
        mine = m.add(self.first_column, m.mul(k.thread("y"), plan.warp_columns))
        columns = [m.add(mine, c) for c in range(plan.warp_columns)]
        self._start()
        first = m.add(self.first, m.mul(lane, width))
        with k.body.loop(first, self.end, WARP_THREADS * width) as depth:
            right = [
                self._converted(
                    self.right.neighbours(self.batch, column, depth, (self.edge, False))
                )
                for column in columns
            ]
            for row in range(p.rows.count):
                left = self._left(row, depth, width)
                for c in range(plan.warp_columns):
                    for x, y in zip(left, right[c], strict=True):
                        self._add(row, c, x, y)
        sums = [
            k.b.load(self.slots, p.sums, number)
            for number in range(p.rows.count * plan.warp_columns)
        ]
        sums = lane_reduce(k, sums, self._join, lane, WARP_THREADS)
        with k.body.when(m.compare("EQ", lane, 0)):
            for number, value in enumerate(sums):
                row, c = divmod(number, plan.warp_columns)
                with when_below(k, columns[c], p.columns.count, plan.columns):
                    self.results.write(self.part, self.batch, row, columns[c], [value])

    def _left(self, row: int, depth: IndexValue, count: int) -> list[Value]:
        """Return `count` elements of a row from `depth` on, by one or more loads."""
        result: list[Value] = []
        for start in range(0, count, self.left.runs.width):
            at = self.k.math.add(depth, start)
            result += self.left.neighbours(self.batch, row, at, (False, False))
        return self._converted(result)

    def _join(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return [add(self.k, x, y) for x, y in zip(left, right, strict=True)]

    # ---- lanes along columns

    def along_columns(self) -> None:
        """Emit the code for adjacent columns per thread; the warps of a block share the depth."""
        k, m, plan, p = self.k, self.k.math, self.plan, self.p
        width = plan.width
        column = m.add(self.first_column, m.mul(k.thread("x"), width))
        self._start()
        with k.body.loop(m.add(self.first, k.thread("y")), self.end, _WARPS) as depth:
            right = self._converted(
                self.right.neighbours(self.batch, column, depth, (self.edge, False))
            )
            for row in range(p.rows.count):
                (x,) = self._left(row, depth, 1)
                for c, y in enumerate(right):
                    self._add(row, c, x, y)
        shared = k.shared_array(p.sums, (_WARPS, width, WARP_THREADS))
        for row in range(p.rows.count):
            sums = [k.b.load(self.slots, p.sums, row * width + c) for c in range(width)]
            for c, value in enumerate(sums):
                shared.store(m, (k.thread("y"), c, k.thread("x")), value)
            k.barrier()
            with k.body.when(m.compare("EQ", k.thread("y"), 0)):
                for warp in range(1, _WARPS):
                    others = [shared.load(m, (warp, c, k.thread("x"))) for c in range(width)]
                    sums = self._join(sums, others)
                self._write(row, column, sums)
            k.barrier()

    def _write(self, row: int, column: IndexValue, values: list[Value]) -> None:
        write_columns(
            self.k,
            values,
            column,
            (self.p.columns.count, self.plan.columns, self.results.width),
            lambda at, some: self.results.write(self.part, self.batch, row, at, some),
        )
