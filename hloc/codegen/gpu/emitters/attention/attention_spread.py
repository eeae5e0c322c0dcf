"""Work distribution of attention: a block has some queries, and all keys or a part of them."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from math import prod

from hloc.codegen.gpu.emitters.attention.attention_problem import AttentionProblem
from hloc.codegen.gpu.emitters.gemm.gemm_plan import MOST_PARTS, PROCESSORS
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import kind_of_factors
from hloc.codegen.gpu.helpers import WARP_THREADS, WARPGROUP_THREADS
from hloc.lazy_dataclass import dataclass

_FEWEST_TILES = 4
"""Minimum key tiles per part."""

_SMALL_DEPTH = 64
_MIDDLE_DEPTH = 128
_WARP_ROWS = 16
_MOST_WARPS = 4

_SCALAR_TILE, _SCALAR_THREADS = 64, 128


class Form(Enum):
    """The units that run the gemms of attention."""

    SCALAR = auto()
    TENSOR_CORES = auto()
    WARPGROUPS = auto()


@dataclass(frozen=True, eq=False, slots=True)
class Spread:
    """Tile sizes, and how blocks share the tiles.

    Attributes:
        rows, keys: queries of a block, and keys of a tile.
        threads: of a block.
        form: units that run the gemms.
        parts: of the keys; a second launch combines their results.
        skips: skip key tiles that a causal mask hides from a whole block.
    """

    problem: AttentionProblem
    rows: int
    keys: int
    threads: int
    form: Form
    parts: int = 1
    skips: bool = False

    @property
    def heads(self) -> int:
        """Batch elements."""
        return self.problem.loops.heads

    @property
    def row_tiles(self) -> int:
        """Blocks that share the queries of a batch element."""
        return -(-self.problem.scores.rows.count // self.rows)

    @property
    def key_tiles(self) -> int:
        """Steps that cover all keys."""
        return -(-self.problem.scores.columns.count // self.keys)

    @property
    def part_tiles(self) -> int:
        """Tiles of keys of a part; the last one may have fewer."""
        return -(-self.key_tiles // self.parts)

    @property
    def statistics(self) -> int:
        """Per-row statistics of all parts: a largest logit each, or a sum."""
        return self.parts * self.heads * self.problem.scores.rows.count

    @property
    def sums(self) -> int:
        """Sums of weighted values that the parts keep."""
        return self.statistics * self.problem.loops.value.size

    @property
    def scratch_bytes(self) -> int:
        """Scratch for the results of parts, or for the finite flag of each tile of values."""
        if self.skips:
            return 4 * self.heads * self.key_tiles
        return 4 * (self.sums + 2 * self.statistics) if self.parts > 1 else 0

    def seen(self, last_row: int) -> int:
        """Return the number of keys that are visible to some query up to `last_row`."""
        plan = self.problem.loops
        assert plan.mask is not None
        return min(last_row // self.inner_rows + plan.mask.reach + 1, plan.key.size)

    @property
    def inner_rows(self) -> int:
        """Queries at each position along the axis of the mask, which is the slowest."""
        plan = self.problem.loops
        return prod(plan.attention.sizes[axis] for axis in plan.queries[1:])


def spread_of(problem: AttentionProblem, form: Form) -> Spread:
    """Return the work distribution of the kernel."""
    spread = _tiles(problem, form)
    blocks = spread.row_tiles * spread.heads
    if problem.loops.mask is not None and spread.seen(spread.rows - 1) + spread.keys <= (
        problem.loops.key.size
    ):
        return replace(spread, skips=True)
    at_once = PROCESSORS if form is Form.WARPGROUPS else 2 * PROCESSORS
    parts = min(MOST_PARTS, at_once // blocks, spread.key_tiles // _FEWEST_TILES)
    if parts <= 1:
        return spread
    each = -(-spread.key_tiles // parts)
    return replace(spread, parts=-(-spread.key_tiles // each))


def _tiles(problem: AttentionProblem, form: Form) -> Spread:
    if form is Form.WARPGROUPS:
        return _warpgroup_tiles(problem)
    return _tensor_tiles(problem) if form is Form.TENSOR_CORES else _scalar_tiles(problem)


def suits_tensor_cores(problem: AttentionProblem) -> bool:
    """True if the factors of both gemms have 16 bits, or are TF32 and not too long."""
    bytes_ = factor_bytes(problem)
    return bytes_ == 2 or (bytes_ == 4 and _longest(problem) <= _MIDDLE_DEPTH)


def factor_bytes(problem: AttentionProblem) -> int:
    """Return the bytes of a tensor core factor, 0 if tensor cores cannot run both gemms."""
    kinds = [kind_of_factors(p) for p in (problem.scores, problem.result)]
    sizes = {kind.factors.storage_bytes if kind else 0 for kind in kinds}
    return sizes.pop() if len(sizes) == 1 else 0


def _longest(problem: AttentionProblem) -> int:
    return max(problem.loops.attention.depth, problem.loops.value.size)


def _tensor_tiles(problem: AttentionProblem) -> Spread:
    """Return tiles of 64 or 128 queries, or all of them; 64 keys, 32 if their depth is large.

    Depth is measured in factors of 16 bits.
    """
    form = Form.TENSOR_CORES
    rows, depth = problem.scores.rows.count, _longest(problem) * factor_bytes(problem) // 2
    keys = 32 if depth > _MIDDLE_DEPTH or problem.loops.key.size <= 32 else 64
    large = _MOST_WARPS * _WARP_ROWS * 2
    fills = -(-rows // large) * problem.loops.heads >= PROCESSORS
    if depth <= _SMALL_DEPTH and fills:
        return Spread(problem, large, keys, _MOST_WARPS * WARP_THREADS, form)
    warps = 1
    while warps < _MOST_WARPS and warps * _WARP_ROWS < rows:
        warps *= 2
    return Spread(problem, warps * _WARP_ROWS, keys, warps * WARP_THREADS, form)


def _scalar_tiles(problem: AttentionProblem) -> Spread:
    """Return tiles of 64 queries and keys; a thread computes 8x4, or 4x4 for long values."""
    threads = _SCALAR_THREADS if problem.loops.value.size <= _SMALL_DEPTH else 2 * _SCALAR_THREADS
    return Spread(problem, _SCALAR_TILE, _SCALAR_TILE, threads, Form.SCALAR)


def _warpgroup_tiles(problem: AttentionProblem) -> Spread:
    """Return tiles of 128 queries; 128 keys, or 64 if there are few or they are long."""
    large = 128
    is_large = problem.loops.key.size > 2 * large and _longest(problem) <= _MIDDLE_DEPTH
    keys = large if is_large else large // 2
    return Spread(problem, 128, keys, 3 * WARPGROUP_THREADS, Form.WARPGROUPS)
