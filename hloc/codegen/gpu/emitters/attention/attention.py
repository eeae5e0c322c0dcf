"""Attention as one kernel: scores, softmax and weighted values, tile of keys by tile of keys.

A block has some queries. It computes their scores with a tile of keys, turns these into weights
relative to the largest logit so far, and adds the weighted values; the scores are never in memory.
Tiles that a causal mask hides from the whole block are skipped if that cannot change the result:
the logits of each row make hidden weights exactly 0, and no value is infinite or NaN. Few queries
and many keys are split along the keys; a second launch combines the parts in order.
"""

from __future__ import annotations

from functools import partial

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.attention.attention_parts import (
    emit_finite_flags,
    emit_joined,
    finite_flags,
    holds_for_all,
    part_statistics,
)
from hloc.codegen.gpu.emitters.attention.attention_problem import (
    AttentionProblem,
    attention_problem,
)
from hloc.codegen.gpu.emitters.attention.attention_scalar import ScalarGemms
from hloc.codegen.gpu.emitters.attention.attention_spread import (
    Spread,
    spread_of,
    suits_tensor_cores,
)
from hloc.codegen.gpu.emitters.attention.attention_tensor_core import TensorCoreGemms
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import has_tensor_cores
from hloc.codegen.kernels.emitter import Emitter
from hloc.dtypes import F32, PRED, S32, S64
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a fusion that is an attention whose rows fit into registers.

    Scratch memory, for parts or flags, is the maximum over all chips.
    """
    problem = attention_problem(inst)
    if problem is None:
        return None
    ways = {False, suits_tensor_cores(problem)}
    scratch_bytes = max(spread_of(problem, by_tensor_cores=way).scratch_bytes for way in ways)
    return GpuPlan(partial(emit, problem), scratch_bytes=scratch_bytes)


def emit(problem: AttentionProblem, w: LaunchWriter) -> None:
    """Emit the launches."""
    by_tensor_cores = has_tensor_cores(w.target) and suits_tensor_cores(problem)
    spread = spread_of(problem, by_tensor_cores=by_tensor_cores)
    if spread.skips:
        emit_finite_flags(w, spread)
    blocks = spread.row_tiles * spread.heads
    with w.launch((blocks, spread.parts, 1), (spread.threads, 1, 1)) as k:
        _Kernel(k, spread).write()
    if spread.parts > 1:
        emit_joined(w, spread)


class _Kernel:
    """Writes the function of one thread."""

    def __init__(self, k: GpuContext, spread: Spread) -> None:
        self.k, self.spread = k, spread
        self.gemms: TensorCoreGemms | ScalarGemms = (
            TensorCoreGemms(k, spread) if spread.by_tensor_cores else ScalarGemms(k, spread)
        )
        self.softmax = self.gemms.softmax
        m = k.math
        self.head, tile = m.delinear(k.block_index("x"), [spread.heads, spread.row_tiles])
        if spread.skips:  # blocks with most keys start first
            tile = m.sub(spread.row_tiles - 1, tile)
        self.first_row = m.mul(tile, spread.rows)

    def write(self) -> None:
        """Emit the function."""
        k, m, spread = self.k, self.k.math, self.spread
        self.gemms.start(self.head, self.first_row)
        self.softmax.start(self.head, self.first_row)
        part = k.block_index("y")
        if spread.skips:
            self._visible_tiles()
        elif spread.parts > 1:
            first = m.mul(part, spread.part_tiles)
            stop = m.minimum(m.add(first, spread.part_tiles), spread.key_tiles)
            self._tiles(first, stop)
        else:
            self._tiles(0, spread.key_tiles)
        self.softmax.finish()
        self._write(part)

    def _tiles(self, first: IndexValue, stop: IndexValue) -> None:
        self.gemms.begin(first, stop)
        with self.k.body.loop(first, stop) as tile:
            self.gemms.make_scores(tile, stop)
            self.softmax.take(tile)
            self.gemms.add_values(tile, stop)

    def _write(self, part: IndexValue) -> None:
        """Write the result, or the sums and statistics of a part of the keys."""
        k, b, m, softmax, spread = self.k, self.k.b, self.k.math, self.softmax, self.spread
        count = len(softmax.patch.rows)
        maxima, totals = (
            [b.load(slots, F32, number) for number in range(count)]
            for slots in (softmax.maxima, softmax.totals)
        )
        if spread.parts == 1:
            pairs = zip(totals, maxima, strict=True)
            self.gemms.write(part, [softmax.inverse(*pair) for pair in pairs])
            return
        self.gemms.write(part, [b.const(F32, 1)] * count)
        lane = m.rem(k.thread("x"), softmax.patch.lanes)
        for number, row in enumerate(softmax.patch.rows):
            at_row = m.add(self.first_row, row)
            is_mine = [m.compare("EQ", lane, 0)]
            is_mine.append(m.compare("LT", at_row, spread.problem.scores.rows.count))
            with k.body.when(k.body.all_of(is_mine)):
                for array, result in zip(part_statistics(k, spread), (maxima, totals), strict=True):
                    array.store(m, (part, self.head, at_row), result[number])

    # ---- causal masks

    def _visible_tiles(self) -> None:
        """Loop over the visible tiles, and over hidden ones if they affect the result."""
        k, b, m, spread = self.k, self.k.b, self.k.math, self.spread
        start_slot, stop_slot = b.allocate(S64), b.allocate(S64)
        b.store(start_slot, 0, m.value(0))
        b.store(stop_slot, 0, m.value(self._seen_tiles()))
        with k.body.repeat_while() as loop:
            start, stop = b.load(start_slot, S64, 0), b.load(stop_slot, S64, 0)
            loop.go_on_if(m.compare("LT", start, stop))
            self._tiles(start, stop)
            b.store(start_slot, 0, stop)
            all_tiles = m.value(spread.key_tiles)
            b.store(stop_slot, 0, b.select(self._may_stop(stop), stop, all_tiles))

    def _seen_tiles(self) -> IndexValue:
        """Return the number of tiles visible to some query of the block."""
        m, spread = self.k.math, self.spread
        plan = spread.problem.loops
        assert plan.mask is not None
        rows = spread.problem.scores.rows.count
        last = m.minimum(m.add(self.first_row, spread.rows - 1), rows - 1)
        seen = m.add(m.div(last, spread.inner_rows), plan.mask.reach + 1)
        seen = m.maximum(m.minimum(seen, plan.key.size), 1)
        return m.div(m.add(seen, spread.keys - 1), spread.keys)

    def _may_stop(self, stop: Value) -> Value:
        """Return whether the tiles from `stop` on would change nothing."""
        k, b, m, softmax = self.k, self.k.b, self.k.math, self.softmax
        flags, holds = finite_flags(k, self.spread), b.allocate(PRED)
        rows = [softmax.vanishes(number) for number in range(len(softmax.patch.rows))]
        b.store(holds, 0, k.body.all_of(rows))
        first = m.add(stop, k.thread("x"))
        with k.body.loop(first, self.spread.key_tiles, self.spread.threads) as tile:
            is_finite = b.compare("NE", flags.load(m, (self.head, tile)), b.const(S32, 0))
            b.store(holds, 0, b.and_(b.load(holds, PRED, 0), is_finite))
        return holds_for_all(k, b.load(holds, PRED, 0))


EMITTER = Emitter("attention", plan)
"""Both gemms of attention and the softmax between them."""
