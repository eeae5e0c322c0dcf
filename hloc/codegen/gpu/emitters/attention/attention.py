"""Attention as one kernel: scores, softmax and weighted values, tile of keys by tile of keys.

A block has some queries. It computes their scores with a tile of keys, turns these into weights
relative to the largest logit so far, and adds the weighted values; the scores are never in memory.
Tiles that a causal mask hides from the whole block are skipped if that cannot change the result:
the logits of each row make hidden weights exactly 0, and no value is infinite or NaN. Few queries
and many keys are split along the keys; a second launch combines the parts in order. The gemms run
on threads, on tensor cores, or by warpgroups, by the chip, the types and a model of the time.
"""

from __future__ import annotations

from functools import partial

from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.attention.attention_block import QueryBlock
from hloc.codegen.gpu.emitters.attention.attention_parts import (
    emit_finite_flags,
    emit_joined,
    holds_for_all,
)
from hloc.codegen.gpu.emitters.attention.attention_problem import (
    AttentionProblem,
    attention_problem,
)
from hloc.codegen.gpu.emitters.attention.attention_scalar import ScalarGemms
from hloc.codegen.gpu.emitters.attention.attention_spread import (
    Form,
    Spread,
    spread_of,
    suits_tensor_cores,
)
from hloc.codegen.gpu.emitters.attention.attention_tensor_core import TensorCoreGemms
from hloc.codegen.gpu.emitters.attention.attention_warpgroup import WarpgroupAttention
from hloc.codegen.gpu.emitters.attention.warpgroup_spread import is_faster, warpgroup_spread
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import has_tensor_cores
from hloc.codegen.gpu.emitters.gemm.warpgroup_gemm import has_warpgroups
from hloc.codegen.kernels.emitter import Emitter
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a fusion that is an attention whose rows fit into registers.

    Scratch memory, for parts or flags, is the maximum over all chips.
    """
    problem = attention_problem(inst)
    if problem is None:
        return None
    spreads = [spread_of(problem, Form.SCALAR)]
    if suits_tensor_cores(problem):
        spreads.append(spread_of(problem, Form.TENSOR_CORES))
    by_warpgroups = warpgroup_spread(inst, problem)
    if by_warpgroups is not None:
        spreads.append(by_warpgroups)
    scratch_bytes = max(spread.scratch_bytes for spread in spreads)
    return GpuPlan(partial(emit, problem), scratch_bytes=scratch_bytes)


def emit(problem: AttentionProblem, w: LaunchWriter) -> None:
    """Emit the launches."""
    spread = _spread(problem, w)
    if spread.skips:
        emit_finite_flags(w, spread)
    blocks = spread.row_tiles * spread.heads
    with w.launch((blocks, spread.parts, 1), (spread.threads, 1, 1)) as k:
        if spread.form is Form.WARPGROUPS:
            WarpgroupAttention(k, spread).write()
        else:
            _Kernel(k, spread).write()
    if spread.parts > 1:
        emit_joined(w, spread)


def _spread(problem: AttentionProblem, w: LaunchWriter) -> Spread:
    """Return the work distribution of the fastest form that the chip has."""
    if not (has_tensor_cores(w.target) and suits_tensor_cores(problem)):
        return spread_of(problem, Form.SCALAR)
    spread = spread_of(problem, Form.TENSOR_CORES)
    if has_warpgroups(w.target):
        large = warpgroup_spread(w.inst, problem)
        if large is not None and is_faster(large, spread):
            return large
    return spread


class _Kernel:
    """Writes the function of one thread."""

    def __init__(self, k: GpuContext, spread: Spread) -> None:
        self.k, self.spread = k, spread
        form = TensorCoreGemms if spread.form is Form.TENSOR_CORES else ScalarGemms
        self.gemms: TensorCoreGemms | ScalarGemms = form(k, spread)
        self.softmax = self.gemms.softmax
        self.block = QueryBlock(k, spread)

    def write(self) -> None:
        """Emit the function."""
        block = self.block
        self.gemms.start(block.head, block.first_row)
        self.softmax.start(block.head, block.first_row)
        with block.ranges(self._may_stop) as (first, stop):
            self.gemms.begin(first, stop)
            with self.k.body.loop(first, stop) as tile:
                self.gemms.make_scores(tile, stop)
                self.softmax.take(tile)
                self.softmax.rescale()
                self.gemms.add_values(tile, stop)
        self.softmax.finish()
        block.write(self.softmax, self.gemms.write)

    def _may_stop(self, stop: Value) -> Value:
        """Return whether the tiles from `stop` on would change nothing."""
        thread, threads = self.k.thread("x"), self.spread.threads
        holds = self.block.changes_nothing(self.softmax, thread, threads, stop)
        return holds_for_all(self.k, holds)


EMITTER = Emitter("attention", plan)
"""Both gemms of attention and the softmax between them."""
