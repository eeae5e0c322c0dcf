"""Online softmax over tiles of keys: the largest logit so far, and sums relative to it.

When a larger logit comes, the sums are rescaled, since exp(x - new) is
exp(x - old) * exp(old - new). Exponentials are exp2, which GPUs have a unit for. Arithmetic is in
f32, whatever the types between the steps are; only what conversions do to logits before the
subtraction is done, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.collectives import shuffle
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.codegen.kernels.attention_elements import attention_element
from hloc.dtypes import F32, PRED
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.attention_match import Attention

_LOG2_E = 1.4426950408889634

_VANISHING = 110.0
"""Distance below the largest logit at which a weight is exactly 0, even in f32."""


@dataclass(frozen=True, slots=True)
class Patch:
    """The elements of a tile of scores, and of the block's result, that a thread has.

    Attributes:
        rows: positions in the tile.
        first_key, keys: position of the first key in the tile, and the distances of all keys to it.
        scores: per row the indices of its slots, one for each key.
        results: per row the indices of its slots in the result.
        lanes: adjacent threads that share the same rows, a power of two.
        lowest_row: no row of any thread of the warp is before it.
    """

    rows: Sequence[IndexValue]
    first_key: IndexValue
    keys: Sequence[int]
    scores: Sequence[Sequence[int]]
    results: Sequence[Sequence[int]]
    lanes: int
    lowest_row: IndexValue = 0


class OnlineSoftmax:
    """Replaces scores in slots by weights, and keeps the statistics of each row.

    Attributes:
        patch: of this thread.
        scores, results: slots of f32; results are the sums of weighted values.
        maxima, totals: slots of the largest logit of each row, and of the sum of its weights, of
            which each lane has a part.
    """

    def __init__(
        self, k: GpuContext, spread: Spread, patch: Patch, scores: Value, results: Value
    ) -> None:
        self.k, self.b, self.spread = k, k.b, spread
        self.attention, self.patch = spread.problem.loops.attention, patch
        self.scores, self.results = scores, results
        count = len(patch.rows)
        self.maxima, self.totals = k.b.allocate(F32, count), k.b.allocate(F32, count)
        self.shrinkage = k.b.allocate(F32, count)
        self.scale = plain_scale(self.attention)
        self.factor = _LOG2_E * (1.0 if self.scale is None else self.scale)
        # A larger factor could overflow the largest logit.
        self.is_one_step = self.scale is not None and self.factor <= 1.0
        self.batch: dict[int, IndexValue] = {}
        self.positions: list[dict[int, IndexValue]] = []
        self.seen_by_all: IndexValue = 0

    def start(self, head: IndexValue, first_row: IndexValue) -> None:
        """Start without keys; rows past the end repeat the last row."""
        b, m, problem = self.b, self.k.math, self.spread.problem
        plan = problem.loops
        sizes = [plan.attention.sizes[axis] for axis in plan.batch]
        self.batch = dict(zip(plan.batch, m.delinear(head, sizes), strict=True))
        count = problem.scores.rows.count
        if plan.mask is not None:
            lowest = m.div(m.add(first_row, self.patch.lowest_row), self.spread.inner_rows)
            self.seen_by_all = m.add(lowest, plan.mask.reach + 1)
        first = self._converted(self.attention.maximum.operands[1], {}, {})
        for number, row in enumerate(self.patch.rows):
            at = m.add(first_row, row)
            if count % self.spread.rows:
                at = m.minimum(at, count - 1)
            queries = m.delinear(at, problem.scores.rows.sizes)
            self.positions.append(dict(zip(plan.queries, queries, strict=True)))
            b.store(self.maxima, number, first)
            b.store(self.totals, number, b.const(F32, 0))
            for slot in self.patch.results[number]:
                b.store(self.results, slot, b.const(F32, 0))

    def take(self, tile: IndexValue) -> None:
        """Replace the scores of a tile of keys by weights; `rescale` must follow."""
        self._make_logits(tile)
        for number in range(len(self.patch.rows)):
            self._weigh(number)

    def rescale(self) -> None:
        """Multiply the results so far, which are relative to earlier largest logits."""
        b = self.b
        for number, slots in enumerate(self.patch.results):
            shrunk = b.load(self.shrinkage, F32, number)
            for slot in slots:
                b.store(self.results, slot, b.fmul(b.load(self.results, F32, slot), shrunk))

    def _make_logits(self, tile: IndexValue) -> None:
        """Replace the scores of all keys by their logits, -inf past the last key."""
        b, m, keys, count = self.b, self.k.math, self.spread.keys, self.attention.keys
        mask = self.spread.problem.loops.mask
        first = m.mul(tile, keys)
        if mask is not None:
            stop = m.add(first, keys)
            with self.k.body.when(m.compare("LE", stop, self.seen_by_all)):
                self._evaluate(first, {mask.compare: b.const(PRED, int(mask.holds))})
            with self.k.body.when(m.compare("GT", stop, self.seen_by_all)):
                self._evaluate(first, {})
        elif self.scale is None:
            self._evaluate(first, {})
        if count % keys:
            lowest = b.const(F32, -math.inf)
            with self.k.body.when(m.compare("GT", first, count - keys)):
                own = m.add(first, self.patch.first_key)
                for c, key in enumerate(self.patch.keys):
                    exists = m.compare("LT", m.add(own, key), count)
                    for slots in self.patch.scores:
                        logit = b.load(self.scores, F32, slots[c])
                        b.store(self.scores, slots[c], b.select(exists, logit, lowest))

    def _evaluate(self, first: IndexValue, known: Mapping[Instruction, Value]) -> None:
        """Replace the scores of the tile from key `first` on by logits, given `known` elements."""
        b, m, a, keys = self.b, self.k.math, self.attention, self.spread.keys
        first = m.add(first, self.patch.first_key)
        for c, key in enumerate(self.patch.keys):
            at_key = m.add(first, key)
            if a.keys % keys:
                at_key = m.minimum(at_key, a.keys - 1)
            for number, slots in enumerate(self.patch.scores):
                at = {**self.batch, **self.positions[number], a.key: at_key}
                score = b.convert(b.load(self.scores, F32, slots[c]), a.scores.array.dtype)
                logit = self._converted(a.logits, at, {**known, a.scores: score})
                b.store(self.scores, slots[c], logit)

    def _weigh(self, number: int) -> None:
        """Replace the logits of one row by weights; rescale the sum of weights so far."""
        b, k, a, slots = self.b, self.k, self.attention, self.patch.scores[number]
        logits = [self._logit(b.load(self.scores, F32, slot)) for slot in slots]
        compared = [self._operand(a.maximum.operands[0], logit) for logit in logits]
        largest = compared[0]
        for logit in compared[1:]:
            largest = self._larger(largest, logit)
        lanes = self.patch.lanes
        while lanes > 1:
            lanes //= 2
            largest = self._larger(largest, shuffle(k, "xor", largest, lanes))
        old = b.load(self.maxima, F32, number)
        new = self._larger(old, largest)
        b.store(self.maxima, number, new)
        reference = self.reference(new)
        shrunk = self.shrunk(old, reference)
        total = b.fmul(b.load(self.totals, F32, number), shrunk)
        for slot, logit in zip(slots, logits, strict=True):
            x = self._operand(a.difference.operands[0], logit)
            weight = self.power(x, reference)
            b.store(self.scores, slot, weight)
            total = b.fadd(total, weight)
        b.store(self.totals, number, total)
        b.store(self.shrinkage, number, shrunk)

    def finish(self) -> None:
        """All-reduce the lanes' sums of weights: each lane gets the sum of its row."""
        b, k = self.b, self.k
        for number in range(len(self.patch.rows)):
            total, lanes = b.load(self.totals, F32, number), self.patch.lanes
            while lanes > 1:
                lanes //= 2
                total = b.fadd(total, shuffle(k, "xor", total, lanes))
            b.store(self.totals, number, total)

    def inverse(self, total: Value, largest: Value) -> Value:
        """Return the final scale factor of a row: the reciprocal of its divisor."""
        b, a = self.b, self.attention
        first = self._converted(a.total.operands[1], {}, {})
        known = {
            a.total: b.convert(b.fadd(first, total), a.total.array.dtype),
            a.maximum: b.convert(largest, a.maximum.array.dtype),
        }
        return b.fdiv(b.const(F32, 1), self._converted(a.divisor, {}, known))

    def vanishes(self, number: int) -> Value:
        """Return whether keys that a causal mask hides have weight exactly 0 in a row."""
        b, mask = self.b, self.spread.problem.loops.mask
        assert mask is not None
        hidden = self._converted(mask.hidden, {}, {})
        distance = b.fsub(b.load(self.maxima, F32, number), hidden)
        return b.compare("GT", distance, b.const(F32, _VANISHING))

    # ---- powers

    def reference(self, largest: Value) -> Value:
        """Return the value that is subtracted from logits: the largest, or 0 if that is -inf.

        As long as all logits are -inf their weights are 0; if they all are, 0 / 0 makes the NaN.
        """
        b, result = self.b, self.subtracted(largest)
        is_lowest = b.compare("EQ", result, b.const(F32, -math.inf))
        return b.select(is_lowest, b.const(F32, 0), result)

    def power(self, x: Value, reference: Value) -> Value:
        """Return exp(x - reference); scales x if it is not scaled yet."""
        b, factor = self.b, self.b.const(F32, self.factor)
        if not self.is_one_step:
            return self._power_of_2(b.fmul(b.fsub(x, reference), factor))
        scaled = b.fneg(b.fmul(reference, factor))
        return self._power_of_2(b.intrinsic("fma", x, factor, scaled))

    def shrunk(self, largest: Value, reference: Value) -> Value:
        """Return the factor that rescales sums relative to an earlier largest logit."""
        b, factor, before = self.b, self.b.const(F32, self.factor), self.subtracted(largest)
        if not self.is_one_step:
            return self.power(before, reference)
        # Both products are rounded, as in the exponents that were relative to them.
        flags, b.float_flags = b.float_flags, ""
        exponent = b.fsub(b.fmul(before, factor), b.fmul(reference, factor))
        b.float_flags = flags
        return self._power_of_2(exponent)

    def _power_of_2(self, x: Value) -> Value:
        value = self.k.call("exp2", x)
        return value

    def _larger(self, x: Value, y: Value) -> Value:
        return self.b.intrinsic("maximum", x, y)

    # ---- the fused instructions

    def _logit(self, x: Value) -> Value:
        """Return a logit from its slot in its own type."""
        return x if self.scale is not None else self.b.convert(x, self.attention.logits.array.dtype)

    def _operand(self, inst: Instruction, logit: Value) -> Value:
        """Return a logit as operand of an instruction of softmax, in f32."""
        if self.scale is not None:
            return logit
        return self._converted(inst, {}, {self.attention.logits: logit})

    def subtracted(self, largest: Value) -> Value:
        """Return the largest logit with the conversions before the subtraction."""
        if self.scale is not None:
            return largest
        a = self.attention
        known = {a.maximum: self.b.convert(largest, a.maximum.array.dtype)}
        return self._converted(a.difference.operands[1], {}, known)

    def _converted(
        self, inst: Instruction, at: Mapping[int, IndexValue], known: Mapping[Instruction, Value]
    ) -> Value:
        value = attention_element(self.k, self.attention, inst, at, known)
        return self.b.convert(value, F32)


def plain_scale(attention: Attention) -> float | None:
    """Return the positive scale of scores if logits are nothing but scaled scores, else None.

    Then softmax scales differences of scores, in one multiplication with the base of its powers.
    """
    a = attention
    steps = (a.scores, a.logits, a.maximum, a.difference, a.maximum.operands[0])
    start = a.maximum.operands[1]
    if a.logits.opcode.name != "multiply" or any(i.array.dtype is not F32 for i in steps):
        return None
    if a.scores not in a.logits.operands or _number(start) != -math.inf:
        return None
    (other,) = [x for x in a.logits.operands if x is not a.scores] or [a.scores]
    while other.opcode.name == "broadcast":
        other = other.operands[0]
    result = _number(other)
    return result if result is not None and 0 < result < math.inf else None


def _number(inst: Instruction) -> float | None:
    if inst.opcode.name != "constant" or not inst.array.is_scalar:
        return None
    return float(np.asarray(inst.attributes.literal.array, np.float64))
