"""The rows of attention: scores to weights in place, and weighted values to the result.

Each element is computed by the code of the fused instructions; values in memory, or already
computed, replace their instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.attention.attention_gemms import AttentionGemms
from hloc.codegen.cpu.emitters.attention.attention_plan import AttentionPlan
from hloc.codegen.kernels.attention_elements import attention_element
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import lane_loop, lanes_of
from hloc.codegen.kernels.running_sums import RunningSum
from hloc.dtypes import F32, PRED
from hloc.ir.instruction import Instruction
from hloc.opt.fusion.attention_match import reads_no_array

Position = Mapping[int, IndexValue]
"""Index by axis."""

_VANISHING = 110.0
"""A logit that is smaller than the largest one by this much has weight 0 exactly, even in f32."""

_MAXIMUM_COPIES = 4
"""Independent running maxima: the latency of a maximum exceeds the time for a logit."""


class AttentionRows:
    """Emits loops over the rows of a block.

    Attributes:
        lacks_large: slot of a flag: in some row, hidden keys may have weights other than 0. Only
            for causal masks.
    """

    def __init__(self, k: KernelContext, plan: AttentionPlan, products: AttentionGemms) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.lanes = lanes_of(k)
        self.plan, self.attention = plan, plan.attention
        self.scores, self.result = products.memory["scores"], products.memory["result"]
        self.weights, self.weights_dtype = products.weights, products.values.rows_dtype
        dtype = self.attention.maximum.array.dtype
        self.maxima = self.b.allocate(dtype, plan.block_rows)
        self.divisors = self.b.allocate(F32, plan.block_rows)
        self.lacks_large = self.b.allocate(PRED)
        a = self.attention
        weights, logits = (a.numerator, a.total.operands[0]), (a.logits, a.maximum.operands[0])
        self.fills_vectors = reads_no_array(a, weights, (a.logits, a.maximum))
        self.ends_within_vectors = reads_no_array(a, logits, (a.scores,))

    def position(self, row: IndexValue) -> dict[int, IndexValue]:
        """Return the position of a query along its axes."""
        sizes = [self.attention.sizes[axis] for axis in self.plan.queries]
        return dict(zip(self.plan.queries, self.math.delinear(row, sizes), strict=True))

    def start(self, rows: IndexValue) -> None:
        """Set the largest logit of every row to its initial value."""
        initial = self._value(self.attention.maximum.operands[1], {}, {})
        with self.body.loop(0, rows) as row:
            self.b.store(self.maxima, row, initial)

    def compute_logits(
        self,
        batch: dict[int, IndexValue],
        first: IndexValue,
        rows: IndexValue,
        keys: tuple[IndexValue, IndexValue],
    ) -> None:
        """Replace scores by logits, find the largest of each row, and update `lacks_large`."""
        inst, b = self.attention.maximum, self.b
        with self.body.loop(0, rows) as row:
            at = {**batch, **self.position(self.math.add(first, row))}
            largest = RunningSum(self.k, inst)
            largest.sums.start(0, b.load(self.maxima, inst.array.dtype, row))
            self._feed(largest, keys, partial(self._candidate, at, row), _MAXIMUM_COPIES)
            (found,) = largest.finish()
            b.store(self.maxima, row, found)
            if self.plan.mask is not None:
                self._compare(found, self.plan.mask.hidden)

    def _candidate(self, row_at: Position, row: IndexValue, key: IndexValue) -> Value:
        """Replace a score by its logit; return the value for the row's maximum."""
        a, b = self.attention, self.b
        place, at = self._score_place(row, key), {**row_at, a.key: key}
        score = b.convert(b.load(self.scores, F32, place), a.scores.array.dtype)
        logit = self._value(a.logits, at, {a.scores: score})
        b.store(self.scores, place, b.convert(logit, F32))
        return self._value(a.maximum.operands[0], at, {a.logits: logit})

    def _feed(
        self,
        total: RunningSum,
        keys: tuple[IndexValue, IndexValue],
        element: Callable[[IndexValue], Value],
        copies: int = 1,
        *,
        is_whole: bool = False,
    ) -> None:
        """Accumulate the element of every key in a range, by vectors if possible, in `total`."""
        first, stop = keys
        if self.lanes is not None:
            total.spread(self.lanes.b, copies)
            for step in dict.fromkeys((copies, 1)):
                first = self._feed_vectors(total, (first, stop), element, step)
            takes_last = self.fills_vectors and self.ends_within_vectors
            if takes_last and not is_whole:
                self._feed_last(total, (first, stop), element)
            total.gather()
            if takes_last or is_whole:
                return
        if not _is_empty(first, stop):
            with self.body.loop(first, stop) as key:
                total.add([element(key)])

    def _feed_vectors(
        self,
        total: RunningSum,
        keys: tuple[IndexValue, IndexValue],
        element: Callable[[IndexValue], Value],
        step: int,
    ) -> IndexValue:
        """Accumulate `step` vectors of keys at a time; return the first remaining key."""
        assert self.lanes is not None
        assert total.lanes is not None
        math, count = self.math, self.lanes.count
        start, stop = keys
        steps = math.div(math.sub(stop, start), step * count)
        end = math.add(start, math.mul(steps, step * count))
        if _is_empty(start, end):
            return end
        with self.body.loop(start, end, step * count) as first:
            for copy in range(step):
                total.lanes.copy = copy
                with self.body.scope(), self.lanes.inside():
                    total.add([element(self.lanes.at(math.add(first, copy * count)))])
        return end

    def _feed_last(
        self,
        total: RunningSum,
        keys: tuple[IndexValue, IndexValue],
        element: Callable[[IndexValue], Value],
    ) -> None:
        """Accumulate the remaining keys, less than a vector, with the other lanes masked."""
        assert self.lanes is not None
        assert total.lanes is not None
        if _is_empty(*keys):
            return
        with self.body.loop(*keys, self.lanes.count) as first, self.lanes.inside():
            key = self.lanes.at(first)
            total.lanes.copy = 0
            total.lanes.counted = self.math.compare("LT", key, keys[1])
            total.add([element(key)])
        total.lanes.counted = None

    def _compare(self, largest: Value, constant: Instruction) -> None:
        """Set the flag if a logit of `constant` may have a weight other than 0 in a row."""
        b = self.b
        hidden = b.convert(self._value(constant, {}, {}), F32)
        distance = b.fsub(b.convert(largest, F32), hidden)
        is_near = b.xor(b.compare("GT", distance, b.const(F32, _VANISHING)), b.const(PRED, 1))
        b.store(self.lacks_large, 0, b.or_(b.load(self.lacks_large, PRED, 0), is_near))

    def compute_weights(
        self,
        batch: dict[int, IndexValue],
        first: IndexValue,
        rows: IndexValue,
        stop: IndexValue,
    ) -> None:
        """Replace logits by unnormalised weights, and compute the divisor of each row."""
        a, b = self.attention, self.b
        end = self._whole_vectors(stop) if self.fills_vectors else stop
        with self.body.loop(0, rows) as row:
            at = {**batch, **self.position(self.math.add(first, row))}
            with self.body.loop(stop, end) as key:
                b.store(self.scores, self._score_place(row, key), b.const(F32, -math.inf))
            largest = b.load(self.maxima, a.maximum.array.dtype, row)
            total = RunningSum(self.k, a.total, a.keys)
            addend = partial(self._addend, at, row, largest)
            self._feed(total, (0, end), addend, is_whole=self.fills_vectors)
            (sum_,) = total.finish()
            divisor = self._value(a.divisor, at, {a.total: sum_, a.maximum: largest})
            b.store(self.divisors, row, b.convert(divisor, F32))

    def _addend(self, row_at: Position, row: IndexValue, largest: Value, key: IndexValue) -> Value:
        """Store the weight of a key; return the addend of the divisor."""
        a, b = self.attention, self.b
        place, at = self._score_place(row, key), {**row_at, a.key: key}
        logit = b.convert(b.load(self.scores, F32, place), a.logits.array.dtype)
        weight = self._value(a.weights, at, {a.logits: logit, a.maximum: largest})
        numerator = self._value(a.numerator, at, {a.weights: weight})
        b.store(self.weights, place, b.convert(numerator, self.weights_dtype))
        return self._value(a.total.operands[0], at, {a.weights: weight})

    def write(self, batch: dict[int, IndexValue], first: IndexValue, rows: IndexValue) -> None:
        """Divide the sums of weighted values and write them to the result."""
        size, step = self.plan.value.size, self.plan.value.out
        self._divide(rows)
        if step == 1:
            with self.body.loop(0, rows) as row:
                start = self._result_place(batch, first, row)
                with lane_loop(self.k, size) as column:
                    self._write_element(row, column, self.math.add(start, column))
            return
        with self.body.loop(0, size) as column, self.body.loop(0, rows) as row:
            start = self._result_place(batch, first, row)
            self._write_element(row, column, self.math.add(start, self.math.mul(column, step)))

    def _divide(self, rows: IndexValue) -> None:
        """Divide the sums in place; rows are padded to whole vectors."""
        b, lanes = self.b, self.lanes.count if self.lanes else 1
        size = -(-self.plan.value.size // lanes) * lanes
        with self.body.loop(0, rows) as row:
            divisor = b.load(self.divisors, F32, row)
            with lane_loop(self.k, size) as column:
                place = self._sum_place(row, column)
                b.store(self.result, place, b.fdiv(b.load(self.result, F32, place), divisor))

    def _result_place(
        self, batch: Mapping[int, IndexValue], first: IndexValue, row: IndexValue
    ) -> IndexValue:
        """Return the address of the result of a row."""
        at = {**batch, **self.position(self.math.add(first, row))}
        axes = [axis for axis in at if axis in self.plan.result]
        return self.math.linear([at[x] for x in axes], [self.plan.result[x] for x in axes])

    def _sum_place(self, row: IndexValue, column: IndexValue) -> Value:
        return self.math.value(self.math.add(self.math.mul(row, self.plan.result_row), column))

    def _write_element(self, row: IndexValue, column: IndexValue, to: IndexValue) -> None:
        b, out = self.b, self.k.output
        value = b.load(self.result, F32, self._sum_place(row, column))
        b.store(out.pointer, self.math.value(to), b.convert(value, out.dtype))

    def _whole_vectors(self, keys: IndexValue) -> IndexValue:
        """Return the end of the last vector of some keys.

        Logits of -inf after the last key add nothing to a sum, and whole vectors are much faster
        than single keys: 1.9 ms instead of 2.9 for an attention of 48x197x197.
        """
        lanes = self.k.target.vector_bits // F32.bits
        math = self.math
        return math.mul(math.div(math.add(keys, lanes - 1), lanes), lanes)

    def _score_place(self, row: IndexValue, key: IndexValue) -> Value:
        return self.math.value(self.math.add(self.math.mul(row, self.plan.score_row), key))

    def _value(
        self, inst: Instruction, at: Mapping[int, IndexValue], known: dict[Instruction, Value]
    ) -> Value:
        """Return the element of `inst` at a position along the axes."""
        return attention_element(self.k, self.attention, inst, at, known)


def _is_empty(start: IndexValue, stop: IndexValue) -> bool:
    """True if the range from `start` to `stop` is empty at compile time."""
    return isinstance(start, int) and isinstance(stop, int) and start >= stop
