"""Gemms of any type: a block computes a tile of the result, each thread a patch.

Both operands go through shared memory, one step of depth ahead of the arithmetic: while one step is
multiplied, the next is loaded into registers. A thread has 4 adjacent rows and columns, and 4 more
half a tile further, so that all its loads from shared memory are 16 bytes wide and adjacent threads
read adjacent addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitters.gemm.double_buffering import double_buffered
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile, TilePlan, plans_of
from hloc.codegen.gpu.emitters.gemm.gemm_reader import Reader, ResultWriter
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, Side
from hloc.codegen.gpu.emitters.gemm.split_k import join_parts
from hloc.codegen.gpu.vector_access import load_vector, store_vector
from hloc.dtypes import DType

TILES = (
    Tile(128, 128, 8, 16, 16, 1.0),
    Tile(64, 64, 8, 8, 16, 0.75),
    Tile(32, 32, 8, 8, 8, 0.45),
)
"""From large to small; a thread reads 4 elements of each side per step."""

_PER_THREAD = 4
_PADDING = 4
"""Padding between the rows of a tile, against bank conflicts of stores along the depth."""


def tiles_for(sums: DType) -> Sequence[Tile]:
    """Return the tiles whose sums fit into registers."""
    wide = sums.storage_bytes // 4
    return TILES if wide <= 1 else TILES[1:] if wide == 2 else TILES[2:]


def plans_for(p: MatrixProblem) -> list[TilePlan]:
    """Return the plans of all tiles, the best first."""
    return plans_of(p, tiles_for(p.sums))


def emit_tiles(w: LaunchWriter, p: MatrixProblem, plan: TilePlan) -> None:
    """Write the launches of a product."""
    grid, block = (plan.blocks, plan.parts, 1), (plan.tile.threads, 1, 1)
    with w.launch(grid, block) as k:
        _TileWriter(k, p, plan).run()
    if plan.parts > 1:
        join_parts(w, p, plan.parts)


def tile_of_block(
    k: GpuContext, plan: TilePlan, block: IndexValue
) -> tuple[IndexValue, IndexValue, IndexValue]:
    """Return batch, row and column of the tile of block `block`.

    Blocks that run concurrently compute several rows of tiles, not one long row, to share loads.
    """
    batch, group, column, row = k.math.delinear(
        block,
        [plan.batches, plan.row_tiles // plan.row_group, plan.column_tiles, plan.row_group],
    )
    return batch, k.math.add(k.math.mul(group, plan.row_group), row), column


def blocks_at_once(tile: Tile) -> int:
    """Return the minimum number of blocks per multiprocessor, 0 if registers matter more.

    It limits a large tile to 128 registers per thread, which suffice for plain loads only.
    """
    return 2 if tile.threads == 256 else 0


class FactorLoader:
    """Loads the tiles of one side into shared memory, as [buffer, depth, line]."""

    def __init__(self, k: GpuContext, p: MatrixProblem, side: Side, tile: Tile) -> None:
        self.k, self.tile = k, tile
        self.lines = tile.rows if side is p.left else tile.columns
        self.reader = Reader(k, p, side, _PER_THREAD)
        self.shared = k.shared_array(p.sums, (2, tile.depth, self.lines + _PADDING))
        self.count = self.lines * tile.depth // tile.threads
        self.slots = k.b.allocate(p.sums, self.count)
        self.dtype = p.sums
        self.edges = (self.reader.lines.count % self.lines != 0, p.depth.count % tile.depth != 0)

    @property
    def is_plain(self) -> bool:
        """True if all loads have addresses linear in their indices and need no long conversion."""
        reader, dtype = self.reader, self.reader.side.dtype
        whole = reader.array is not None and reader.runs.width == _PER_THREAD
        is_long = dtype.is_float and dtype.bits <= 8
        return whole and not is_long and not reader.side.reaches and not any(self.edges)

    def _runs(self) -> list[tuple[IndexValue, IndexValue]]:
        """Return line and depth in the tile of each load of this thread."""
        m, width = self.k.math, self.reader.runs.width
        by_depth = self.reader.runs.by_depth
        sizes = [self.lines, self.tile.depth] if by_depth else [self.tile.depth, self.lines]
        sizes[1] //= width
        result = []
        for number in range(self.count // width):
            run = m.add(self.k.thread("x"), number * self.tile.threads)
            slow, fast = m.delinear(run, sizes)
            fast = m.mul(fast, width)
            result.append((slow, fast) if by_depth else (fast, slow))
        return result

    def read(self, batch: IndexValue, first_line: IndexValue, first_depth: IndexValue) -> None:
        """Read this thread's share of a tile into registers."""
        k, slot = self.k, 0
        for line, depth in self._runs():
            line, depth = k.math.add(first_line, line), k.math.add(first_depth, depth)
            for value in self.reader.neighbours(batch, line, depth, self.edges):
                k.b.store(self.slots, slot, k.b.convert(value, self.dtype))
                slot += 1

    def put(self, buffer: IndexValue) -> None:
        """Write the registers to shared memory."""
        k, width = self.k, self.reader.runs.width
        for number, (line, depth) in enumerate(self._runs()):
            values = [k.b.load(self.slots, self.dtype, number * width + i) for i in range(width)]
            if self.reader.runs.by_depth:
                for i, value in enumerate(values):
                    self.shared.store(k.math, (buffer, k.math.add(depth, i), line), value)
            else:
                at = k.math.linear((buffer, depth, line), self.shared.strides)
                store_vector(k, self.shared.pointer, at, values)


class _TileWriter:
    """Writes the function of one thread."""

    def __init__(self, k: GpuContext, p: MatrixProblem, plan: TilePlan) -> None:
        self.k, self.p, self.plan, self.tile = k, p, plan, plan.tile
        tile = plan.tile
        self.left, self.right = (FactorLoader(k, p, side, tile) for side in (p.left, p.right))
        self.results = ResultWriter(k, p, plan.parts)
        self.vector = max(min(16 // p.sums.storage_bytes, 4), 1)
        row_thread, column_thread = k.math.delinear(
            k.thread("x"), [tile.row_threads, tile.column_threads]
        )
        self.rows = self._mine(row_thread, tile.rows, tile.row_threads)
        self.columns = self._mine(column_thread, tile.columns, tile.column_threads)
        self.slots = k.b.allocate(p.sums, self._patch)
        if self.left.is_plain and self.right.is_plain:
            k.min_blocks = blocks_at_once(tile)

    def _mine(self, thread: IndexValue, size: int, threads: int) -> list[IndexValue]:
        """Return the lines of a tile that belong to a thread, by runs of `vector`."""
        m, runs = self.k.math, size // threads // self.vector
        first = m.mul(thread, self.vector)
        return [m.add(first, run * threads * self.vector) for run in range(runs)]

    @property
    def _patch(self) -> int:
        return len(self.rows) * len(self.columns) * self.vector**2

    def run(self) -> None:
        """Write all of it."""
        k, m, plan, tile = self.k, self.k.math, self.plan, self.tile
        batch, row_tile, column_tile = tile_of_block(k, plan, k.block_index("x"))
        first_row, first_column = m.mul(row_tile, tile.rows), m.mul(column_tile, tile.columns)
        part = k.block_index("y")
        first = m.mul(part, plan.steps)
        all_steps = max(-(-self.p.depth.count // tile.depth), 1)
        steps: IndexValue = plan.steps
        if all_steps % plan.steps:
            steps = m.minimum(plan.steps, m.sub(all_steps, first))
        for number in range(self._patch):
            k.b.store(self.slots, number, k.b.const(self.p.sums, 0))

        def read(step: IndexValue) -> None:
            depth = m.mul(m.add(first, step), tile.depth)
            self.left.read(batch, first_row, depth)
            self.right.read(batch, first_column, depth)

        def put(buffer: IndexValue) -> None:
            self.left.put(buffer)
            self.right.put(buffer)

        double_buffered(k, steps, read, put, lambda _, buffer: self._multiply(buffer))
        self._write(part, batch, first_row, first_column)

    def _multiply(self, buffer: IndexValue) -> None:
        """Add the products of the tiles in a buffer to this thread's sums."""
        k, dtype = self.k, self.p.sums
        sums = [k.b.load(self.slots, dtype, number) for number in range(self._patch)]
        for depth in range(self.tile.depth):
            left = self._lines(self.left.shared, buffer, depth, self.rows)
            right = self._lines(self.right.shared, buffer, depth, self.columns)
            for i, x in enumerate(left):
                for j, y in enumerate(right):
                    at = i * len(right) + j
                    sums[at] = k.b.multiply_add(x, y, sums[at])
        for number, value in enumerate(sums):
            k.b.store(self.slots, number, value)

    def _lines(
        self, shared: IrArray, buffer: IndexValue, depth: int, firsts: Sequence[IndexValue]
    ) -> list[Value]:
        result: list[Value] = []
        for first in firsts:
            at = self.k.math.linear((buffer, depth, first), shared.strides)
            result += load_vector(self.k, shared.pointer, shared.dtype, at, self.vector)
        return result

    def _write(
        self, part: IndexValue, batch: IndexValue, row: IndexValue, column: IndexValue
    ) -> None:
        k, m = self.k, self.k.math
        mine = [m.add(first, i) for first in self.rows for i in range(self.vector)]
        for i, within in enumerate(mine):
            at = m.add(row, within)
            with when_below(k, at, self.p.rows.count, self.tile.rows):
                self._write_row(i, (part, batch, at), column)

    def _write_row(
        self, line: int, origin: tuple[IndexValue, IndexValue, IndexValue], column: IndexValue
    ) -> None:
        """Write the thread's columns of its row `line`, which is at part, batch and row."""
        k, vector, sizes = self.k, self.vector, (self.p.columns.count, self.tile.columns)
        start = line * len(self.columns) * vector
        for first in self.columns:
            values = [k.b.load(self.slots, self.p.sums, start + n) for n in range(vector)]
            start += vector
            write_columns(
                k,
                values,
                k.math.add(column, first),
                (*sizes, self.results.width),
                lambda at, some: self.results.write(*origin, at, some),
            )


def when_below(
    k: GpuContext, at: IndexValue, count: int, tile: int
) -> AbstractContextManager[None]:
    """Return a region that runs if `at` is below `count`, which tiles may overlap."""
    condition = k.body.all_of([k.math.compare("LT", at, count)] if count % tile else [])
    return k.body.when(condition)


def write_columns(
    k: GpuContext,
    values: Sequence[Value],
    first: IndexValue,
    sizes: tuple[int, int, int],
    write: Callable[[IndexValue, Sequence[Value]], None],
) -> None:
    """Store adjacent columns, where they exist, in runs as wide as alignment allows.

    Args:
        k: the function.
        values: of columns `first`, `first` + 1 ...
        first: a multiple of their number.
        sizes: columns of the result, of a tile, and of a run.
        write: called with the first column of a run and its values.
    """
    count, tile, width = sizes
    width = min(width, len(values))
    for i in range(0, len(values), width):
        at = k.math.add(first, i)
        with when_below(k, at, count, tile):
            write(at, values[i : i + width])
