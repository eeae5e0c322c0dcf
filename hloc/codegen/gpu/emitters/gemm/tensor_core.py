"""Gemms on tensor cores: a warp computes 64 by 32 or 32 by 32 elements of a block's tile.

Tiles of both operands are copied to shared memory asynchronously, several steps of depth ahead;
operands that are computed, converted or not aligned pass through registers one step ahead. The
accumulators are stored through shared memory, so that stores coalesce.
"""

from __future__ import annotations

from typing import TypeAlias

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitters.gemm.gemm_plan import Tile, TilePlan, plans_of
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.emitters.gemm.slab_writer import SLAB_COLUMNS, SLAB_ELEMENTS, SlabWriter
from hloc.codegen.gpu.emitters.gemm.split_k import join_parts
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import Kind
from hloc.codegen.gpu.emitters.gemm.tensor_core_loader import TileLoader, moved, words_of
from hloc.codegen.gpu.emitters.gemm.tiled_gemm import blocks_at_once, tile_of_block
from hloc.codegen.gpu.helpers import WARP_THREADS

Origin: TypeAlias = tuple[IndexValue, IndexValue, IndexValue]
"""Batch, row and column of the first element of a tile."""

_DEPTH_BYTES = 64
"""Depth of a tile in bytes: two instructions."""

_WARP_COLUMNS = SLAB_COLUMNS
_SHARED_BYTES = 48 << 10
"""Most static shared memory of a block."""

_MOST_STAGES = 4


def tiles_for(kind: Kind) -> tuple[Tile, ...]:
    """Return the tiles, from large to small, with the warps along rows and columns."""
    depth = _DEPTH_BYTES // kind.factors.storage_bytes
    return (
        Tile(128, 128, depth, 2 * WARP_THREADS, 4, 1.0),
        Tile(128, 64, depth, 2 * WARP_THREADS, 2, 0.8),
        Tile(64, 128, depth, WARP_THREADS, 4, 0.8),
        Tile(64, 64, depth, 2 * WARP_THREADS, 2, 0.6),
        Tile(32, 64, depth, WARP_THREADS, 2, 0.35),
    )


def plans_for(p: MatrixProblem, kind: Kind) -> list[TilePlan]:
    """Return the plans of all tiles, the best first."""
    return plans_of(p, tiles_for(kind))


def emit_tensor_core(w: LaunchWriter, p: MatrixProblem, plan: TilePlan, kind: Kind) -> None:
    """Write the launches of a product."""
    grid, block = (plan.blocks, plan.parts, 1), (plan.tile.threads, 1, 1)
    with w.launch(grid, block) as k:
        _Writer(k, p, plan, kind).run()
    if plan.parts > 1:
        join_parts(w, p, plan.parts)


class _Writer:
    """Writes the function of one thread."""

    def __init__(self, k: GpuContext, p: MatrixProblem, plan: TilePlan, kind: Kind) -> None:
        """Choose how many stages fit into shared memory, and a warp's part of the tile."""
        self.k, self.p, self.plan, self.tile, self.kind = k, p, plan, plan.tile, kind
        self.left, self.right = (
            TileLoader(k, p, side, self.tile, kind) for side in (p.left, p.right)
        )
        self.stage_bytes = self.left.stage_bytes + self.right.stage_bytes
        self.stages = min(_MOST_STAGES, _SHARED_BYTES // self.stage_bytes)
        self.shared = k.shared_bytes(self.stages * self.stage_bytes)
        warps = self.tile.row_threads // WARP_THREADS
        self.warp_rows = self.tile.rows // warps
        self.warp = k.math.div(k.thread("x"), WARP_THREADS)
        self.lane = k.math.rem(k.thread("x"), WARP_THREADS)
        row, column = k.math.delinear(self.warp, [warps, self.tile.column_threads])
        self.row, self.column = k.math.mul(row, self.warp_rows), k.math.mul(column, _WARP_COLUMNS)
        self.down, self.across = self.warp_rows // 16, _WARP_COLUMNS // 8
        self.slots = k.b.allocate(kind.sums, self.down * self.across * 4)
        if self.left.is_plain and self.right.is_plain:
            k.min_blocks = blocks_at_once(self.tile)

    def run(self) -> None:
        """Write all of it."""
        k, m, plan, tile = self.k, self.k.math, self.plan, self.tile
        batch, row_tile, column_tile = tile_of_block(k, plan, k.block_index("x"))
        origin = (batch, m.mul(row_tile, tile.rows), m.mul(column_tile, tile.columns))
        part = k.block_index("y")
        first = m.mul(part, plan.steps)
        all_steps = -(-self.p.depth.count // tile.depth)
        steps: IndexValue = plan.steps
        if all_steps % plan.steps:
            steps = m.minimum(plan.steps, m.sub(all_steps, first))
        for number in range(self.down * self.across * 4):
            k.b.store(self.slots, number, k.b.const(self.kind.sums, 0))
        self._multiply_all(origin, first, steps)
        k.call("copy_async.wait.0")
        k.barrier()
        self._write(part, origin)

    def _multiply_all(self, origin: Origin, first: IndexValue, steps: IndexValue) -> None:
        """Write the loop over the depth; tiles are read `stages` - 1 steps ahead."""
        k, m, before = self.k, self.k.math, self.stages - 1
        if self.left.is_copied and self.right.is_copied:
            for number in range(before):
                with k.body.when(m.compare("LT", number, steps)):
                    self._copy(origin, m.add(first, number), number)
                k.call("copy_async.commit")
            with k.body.loop(0, steps) as step:
                self._read_ahead(origin, first, steps, m.add(step, before))
                self._multiply(m.rem(step, self.stages))
            return
        # The code of producers is long: the same loop reads the first tiles, too.
        with k.body.loop(0, m.add(steps, before)) as ahead:
            self._read_ahead(origin, first, steps, ahead)
            with k.body.when(m.compare("GE", ahead, before)):
                self._multiply(m.rem(m.sub(ahead, before), self.stages))
            with k.body.when(m.compare("LT", ahead, steps)):
                self._put(m.rem(ahead, self.stages))

    def _read_ahead(
        self, origin: Origin, first: IndexValue, steps: IndexValue, ahead: IndexValue
    ) -> None:
        """Wait for the tiles of a step, and begin to read those of step `ahead`."""
        k, m = self.k, self.k.math
        k.call(f"copy_async.wait.{self.stages - 2}")
        k.barrier()
        with k.body.when(m.compare("LT", ahead, steps)):
            self._copy(origin, m.add(first, ahead), m.rem(ahead, self.stages))
            self._read(origin, m.add(first, ahead))
        k.call("copy_async.commit")

    # ---- tiles

    def _sides(
        self, origin: Origin, stage: IndexValue
    ) -> list[tuple[TileLoader, IndexValue, Value]]:
        """Return for each side its loader, first line, and address in shared memory."""
        base = moved(self.k, self.shared, self.k.math.mul(stage, self.stage_bytes))
        right = moved(self.k, base, self.left.stage_bytes)
        return [(self.left, origin[1], base), (self.right, origin[2], right)]

    def _copy(self, origin: Origin, step: IndexValue, stage: IndexValue) -> None:
        depth = self.k.math.mul(step, self.tile.depth)
        for loader, line, base in self._sides(origin, stage):
            if loader.is_copied:
                loader.copy(base, origin[0], line, depth)

    def _read(self, origin: Origin, step: IndexValue) -> None:
        depth = self.k.math.mul(step, self.tile.depth)
        for loader, line in ((self.left, origin[1]), (self.right, origin[2])):
            if not loader.is_copied:
                loader.read(origin[0], line, depth)

    def _put(self, stage: IndexValue) -> None:
        for loader, _, base in self._sides((0, 0, 0), stage):
            if not loader.is_copied:
                loader.put(base)

    # ---- arithmetic

    def _multiply(self, stage: IndexValue) -> None:
        """Add the products of one stage to the sums of this warp."""
        k, m, sums = self.k, self.k.math, self.kind.sums
        base = moved(k, self.shared, m.mul(stage, self.stage_bytes))
        right_base = moved(k, base, self.left.stage_bytes)
        result = [k.b.load(self.slots, sums, n) for n in range(self.down * self.across * 4)]
        for step in range(_DEPTH_BYTES // 32):
            left = [
                self.left.fragments(base, m.add(self.row, 16 * i), step) for i in range(self.down)
            ]
            right: list[list[Value]] = []
            for j in range(0, self.across, 2):
                words = self.right.fragments(right_base, m.add(self.column, 8 * j), step)
                right += [words[:2], words[2:]]
            for i in range(self.down):
                for j in range(self.across):
                    at = 4 * (i * self.across + j)
                    products = k.call(self.kind.helper, *left[i], *right[j], *result[at : at + 4])
                    kind = "float" if sums.is_float else "i32"
                    result[at : at + 4] = [
                        Value(sums, word.text) for word in words_of(k, products, kind)
                    ]
        for number, value in enumerate(result):
            k.b.store(self.slots, number, value)

    # ---- the result

    def _write(self, part: IndexValue, origin: Origin) -> None:
        """Write the sums, 16 rows of a warp at a time."""
        k, m, sums = self.k, self.k.math, self.kind.sums
        size = SLAB_ELEMENTS * sums.storage_bytes
        slab = moved(k, self.shared, m.mul(self.warp, size))
        writer = SlabWriter(k, self.p, self.tile, self.plan.parts, slab, self.lane)
        per_piece = 4 * self.across
        for i in range(self.down):
            values = [k.b.load(self.slots, sums, i * per_piece + n) for n in range(per_piece)]
            row = m.add(origin[1], m.add(self.row, 16 * i))
            writer.write((part, origin[0]), row, m.add(origin[2], self.column), values)
