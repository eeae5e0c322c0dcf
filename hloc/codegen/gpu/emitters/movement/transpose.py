"""Kernels that read along one dimension and write along another, by tiles in shared memory.

Adjacent threads of a block load adjacent elements of the operand into a tile, and store adjacent
elements of the result from it. Operands in the order of the result are read when the tile is
stored. Lines of a tile are padded by one element to avoid bank conflicts in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.movement.transpose_plan import Dims, TransposeTiles, transpose_tiles
from hloc.codegen.gpu.kernel import BLOCK_THREADS, MAX_BLOCKS_YZ
from hloc.codegen.kernels.emitter import Emitter
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a result that is read along another dimension than it is written."""
    tiles = transpose_tiles(inst)
    return None if tiles is None else GpuPlan(partial(emit, tiles))


def emit(plan: TransposeTiles, w: LaunchWriter) -> None:
    """Emit one launch, a block per tile."""
    exchange = plan.exchange
    across = -(-plan.size(exchange.read) // plan.columns)
    down = -(-plan.size(exchange.written) // plan.rows)
    batches = -(-plan.size(exchange.others) // plan.batch)
    grid = (across * down, min(batches, MAX_BLOCKS_YZ), 1)
    with w.launch(grid, (BLOCK_THREADS, 1, 1)) as k:
        m = k.math
        block = k.block_index("x")
        first = (m.mul(m.div(block, across), plan.rows), m.mul(m.rem(block, across), plan.columns))
        with k.body.loop(k.block_index("y"), batches, grid[1]) as number:
            _Tile(k, plan, (m.mul(number, plan.batch), *first)).move()
            if batches > grid[1]:
                k.barrier()  # before the tile is filled again


class _Tile:
    """One tile: its position, and the arrays in shared memory."""

    def __init__(
        self, k: GpuContext, plan: TransposeTiles, first: tuple[IndexValue, IndexValue, IndexValue]
    ) -> None:
        self.k, self.plan, self.first = k, plan, first
        self.run = plan.size(plan.exchange.run)
        line = plan.columns * self.run + 1
        dims = (plan.batch * plan.rows, line)
        self.arrays = {hero: k.shared_array(hero.array.dtype, dims) for hero in plan.heroes}

    def move(self) -> None:
        """Read the elements, then write them."""
        k, plan = self.k, self.plan
        order = (plan.batch, plan.rows, plan.columns, self.run)
        for number in range(self._steps):
            with self._element(number, order, swapped=False) as (place, index):
                result = {hero: k.g.element(k.frame, hero, index) for hero in plan.heroes}
                for hero, array in self.arrays.items():
                    array.store(k.math, place, result[hero])
        k.barrier()
        outer = k.frame.sources
        order = (plan.batch, plan.columns, plan.rows, self.run)
        for number in range(self._steps):
            with self._element(number, order, swapped=True) as (place, index):
                loaded = {hero: self._load(array, place) for hero, array in self.arrays.items()}
                k.frame.sources = {**outer, **loaded}
                k.output.store(k.math, index, k.g.element(k.frame, k.root, index))
                k.frame.sources = outer

    @property
    def _steps(self) -> int:
        plan = self.plan
        return plan.batch * plan.rows * plan.columns * self.run // BLOCK_THREADS

    def _load(self, array: IrArray, place: Sequence[IndexValue]) -> Value:
        return array.load(self.k.math, tuple(place))

    @contextmanager
    def _element(
        self, number: int, order: Sequence[int], *, swapped: bool
    ) -> Iterator[tuple[tuple[IndexValue, ...], tuple[IndexValue, ...]]]:
        """Yield the index in the tile of element `number` of this thread, and that in the result.

        Args:
            number: of this thread.
            order: sizes of the tile, in the order of threads.
            swapped: columns come before rows in `order`.
        """
        k, plan, exchange = self.k, self.plan, self.plan.exchange
        m = k.math
        batch, second, third, run = self._place(number, order)
        row, column = (third, second) if swapped else (second, third)
        groups = (exchange.others, exchange.written, exchange.read)
        cuts = (plan.batch, plan.rows, plan.columns)
        places = [m.add(f, x) for f, x in zip(self.first, (batch, row, column), strict=True)]
        inside = [
            m.compare("LT", place, plan.size(group))
            for group, cut, place in zip(groups, cuts, places, strict=True)
            if plan.size(group) % cut
        ]
        index: list[IndexValue] = [0] * len(plan.dims)
        for group, place in zip((*groups, exchange.run), (*places, run), strict=True):
            for dim, x in zip(group, self._delinear(group, place), strict=True):
                index[dim] = x
        in_tile = (m.add(m.mul(batch, plan.rows), row), m.add(m.mul(column, self.run), run))
        with k.body.when(k.body.all_of(inside)):
            yield in_tile, tuple(index)

    def _place(self, number: int, order: Sequence[int]) -> list[IndexValue]:
        """Return the index of element `number` of this thread in a tile of sizes `order`.

        If the threads of a block fill whole lines, the first index is computed once, and the others
        are a constant number of lines further.
        """
        m, thread = self.k.math, self.k.thread("x")
        _, lines, size, run = order
        each, rest = divmod(BLOCK_THREADS, size * run)
        if rest or (lines % each and each % lines):
            return m.delinear(m.add(thread, number * BLOCK_THREADS), order)
        batch, line, place, element = m.delinear(thread, order)
        batches, further = divmod(number * each, lines)
        return [m.add(batch, batches), m.add(line, further), place, element]

    def _delinear(self, group: Dims, place: IndexValue) -> Sequence[IndexValue]:
        return self.k.math.delinear(place, [self.plan.dims[d] for d in group]) if group else ()


EMITTER = Emitter("transpose", plan)
