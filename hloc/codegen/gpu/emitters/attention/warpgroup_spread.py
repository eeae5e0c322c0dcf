"""Decides which attentions run by warpgroups: layouts, sizes, and a model of the time."""

from __future__ import annotations

from hloc.analysis.gpu_devices import spec_of_chip
from hloc.codegen.gpu.emitters.attention.attention_problem import AttentionProblem, along_one_axis
from hloc.codegen.gpu.emitters.attention.attention_ring import ring_sizes
from hloc.codegen.gpu.emitters.attention.attention_spread import Form, Spread, spread_of
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import kind_of_factors
from hloc.codegen.gpu.emitters.gemm.warpgroup_kinds import HALF_KINDS
from hloc.codegen.gpu.emitters.gemm.warpgroup_tiles import can_be_tile, can_be_tiles
from hloc.ir.instruction import Instruction

_PROCESSORS = spec_of_chip("sm_90").processors
"""Multiprocessors of the first GPU that has warpgroups."""

_SPEEDS = {Form.TENSOR_CORES: 1.0, Form.WARPGROUPS: 1.6}
"""Relative multiplications per time of a multiprocessor, as of the tiles of gemms."""

_STARTING_TILES = 1
"""The time before the first product and after the last, in tiles of keys."""


def warpgroup_spread(inst: Instruction, problem: AttentionProblem) -> Spread | None:
    """Return the work distribution by warpgroups, None if they do not support `problem`."""
    own = along_one_axis(inst, problem)
    scores, result = own.scores, own.result
    kinds = [kind_of_factors(p) for p in (scores, result)]
    sides = (scores.left, scores.right, result.right)
    types = {side.dtype for side in sides} | {kind.factors if kind else None for kind in kinds}
    are_halves = len(types) == 1 and types <= {*HALF_KINDS}
    if not are_halves or not can_be_tiles(scores) or not can_be_tile(result, result.right):
        return None
    spread = spread_of(own, Form.WARPGROUPS)
    return spread if ring_sizes(spread).stages else None


def is_faster(spread: Spread, other: Spread) -> bool:
    """True if the cost model prefers `spread` to `other`."""
    return estimated_time(spread) < estimated_time(other)


def estimated_time(spread: Spread) -> float:
    """Return the time of all blocks, in a unit common to tensor cores and warpgroups."""
    waves = -(-spread.row_tiles * spread.heads * spread.parts // _PROCESSORS)
    scores = spread.rows * (spread.part_tiles + _STARTING_TILES) * spread.keys
    return waves * scores / _SPEEDS[spread.form]
