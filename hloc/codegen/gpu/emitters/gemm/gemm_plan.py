"""The tile that a block of threads computes, and the number of parts along the depth.

A cost model decides, the same on every machine: the number of waves on a large GPU times the cost
of a tile. Long gemms of few tiles are split along the depth (split-k); a second launch adds the
parts in a fixed order, so the result is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.gpu_devices import DEFAULT_CHIP, spec_of_chip
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.lazy_dataclass import dataclass

PROCESSORS = spec_of_chip(DEFAULT_CHIP).processors
"""Multiprocessors of the GPU that plans are made for."""

MOST_PARTS = 32
_ROW_GROUPS = (8, 4, 2, 1)
FEWEST_STEPS = 8
"""Fewest tiles of depth per part."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a block.

    Attributes:
        rows, columns, depth: sizes of the tiles of both sides in shared memory.
        row_threads, column_threads: threads of a block along rows and columns.
        speed: relative multiplications per time, 1 for the best tile of single warps.
    """

    rows: int
    columns: int
    depth: int
    row_threads: int
    column_threads: int
    speed: float

    @property
    def threads(self) -> int:
        return self.row_threads * self.column_threads


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The distribution of a gemm over blocks.

    Attributes:
        row_tiles, column_tiles: number of tiles along the result; `batches`: number of batches.
        steps: tiles of depth of each part; the last part may have fewer.
        parts: of the depth.
        processors: that share the blocks.
    """

    tile: Tile
    row_tiles: int
    column_tiles: int
    batches: int
    steps: int
    parts: int
    processors: int

    @property
    def blocks(self) -> int:
        """Blocks of one part."""
        return self.row_tiles * self.column_tiles * self.batches

    @property
    def row_group(self) -> int:
        """Tile rows that adjacent blocks compute, column by column (rasterisation order)."""
        return next(size for size in _ROW_GROUPS if self.row_tiles % size == 0)


def plans_of(
    p: MatrixProblem, tiles: Sequence[Tile], processors: int | None = None
) -> list[TilePlan]:
    """Return a plan per tile, sorted by estimated time (stable).

    Args:
        p: the gemm.
        tiles: to choose from.
        processors: of the GPU, `PROCESSORS` if None.
    """
    count = PROCESSORS if processors is None else processors
    return sorted((_plan(p, tile, count) for tile in tiles), key=estimated_time)


def _plan(p: MatrixProblem, tile: Tile, processors: int) -> TilePlan:
    rows, columns = -(-p.rows.count // tile.rows), -(-p.columns.count // tile.columns)
    steps = max(-(-p.depth.count // tile.depth), 1)
    blocks = rows * columns * p.batch.count
    parts = max(1, min(MOST_PARTS, processors // max(blocks, 1), steps // FEWEST_STEPS))
    each = -(-steps // parts)
    return TilePlan(tile, rows, columns, p.batch.count, each, -(-steps // each), processors)


def estimated_time(plan: TilePlan) -> float:
    """Return the time of a plan, in a unit common to all tiles."""
    tile = plan.tile
    waves = -(-plan.blocks * plan.parts // plan.processors)
    joining = 0.1 * plan.parts if plan.parts > 1 else 0.0
    work = tile.rows * tile.columns * (plan.steps + 4) * tile.depth
    return (waves + joining) * work / tile.speed


def scratch_bytes(p: MatrixProblem, parts: int) -> int:
    """Return the scratch bytes for the sums of all parts, 0 for a single part."""
    if parts == 1:
        return 0
    return parts * p.batch.count * p.rows.count * p.columns.count * p.sums.storage_bytes
