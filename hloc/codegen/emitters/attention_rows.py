"""The rows of attention: from scores to weights in place, and from weighted values to the result.

The code of every element is that of the fused instructions; what is in memory or made before takes
the place of its instruction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hloc.codegen.emitters.attention_elements import attention_element
from hloc.codegen.emitters.attention_plan import AttentionPlan
from hloc.codegen.emitters.attention_products import AttentionProducts
from hloc.codegen.emitters.context import KernelContext
from hloc.codegen.loops import IndexValue
from hloc.codegen.reductions import Accumulators
from hloc.codegen.values import Value
from hloc.dtypes import F32, PRED
from hloc.ir.instruction import Instruction
from hloc.opt.fusion.attention_match import is_of_logits_alone

_VANISHING = 110.0
"""How far below the largest logit the weight of another is exactly 0, even in f32."""


class AttentionRows:
    """Writes loops over the rows of a block.

    Attributes:
        lacks_large: slot of a flag: in some row the logit of hidden keys may still count beside the
            largest one. Only for causal masks.
    """

    def __init__(self, k: KernelContext, plan: AttentionPlan, products: AttentionProducts) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.plan, self.attention = plan, plan.attention
        self.scores, self.result = products.memory["scores"], products.memory["result"]
        self.weights, self.weights_dtype = products.weights, products.values.rows_dtype
        dtype = self.attention.maximum.array.dtype
        self.maxima = self.b.allocate(dtype, plan.block_rows)
        self.divisors = self.b.allocate(F32, plan.block_rows)
        self.lacks_large = self.b.allocate(PRED)
        self.fills_vectors = is_of_logits_alone(self.attention)

    def position(self, row: IndexValue) -> dict[int, IndexValue]:
        """Return the position of a query along its axes."""
        sizes = [self.attention.sizes[axis] for axis in self.plan.queries]
        return dict(zip(self.plan.queries, self.math.delinear(row, sizes), strict=True))

    def start(self, rows: IndexValue) -> None:
        """Set the largest logit of every row to its initial value."""
        initial = self._value(self.attention.maximum.operands[1], {}, {})
        with self.body.loop(0, rows) as row:
            self.b.store(self.maxima, row, initial)

    def make_logits(
        self,
        batch: dict[int, IndexValue],
        first: IndexValue,
        rows: IndexValue,
        keys: tuple[IndexValue, IndexValue],
    ) -> None:
        """Turn scores into logits and find the largest of each row; `lacks_large` is kept up."""
        a, b = self.attention, self.b
        with self.body.loop(0, rows) as row:
            at = {**batch, **self.position(self.math.add(first, row))}
            largest = Accumulators(self.k.g, a.maximum)
            largest.start(0, b.load(self.maxima, a.maximum.array.dtype, row))
            with self.body.loop(*keys) as key:
                place = self._score_place(row, key)
                at[a.key] = key
                score = b.convert(b.load(self.scores, F32, place), a.scores.array.dtype)
                logit = self._value(a.logits, at, {a.scores: score})
                b.store(self.scores, place, b.convert(logit, F32))
                largest.add([self._value(a.maximum.operands[0], at, {a.logits: logit})])
            (found,) = largest.finish()
            b.store(self.maxima, row, found)
            if self.plan.mask is not None:
                self._compare(found, self.plan.mask.hidden)

    def _compare(self, largest: Value, constant: Instruction) -> None:
        """Note if a logit of `constant` may still count beside the largest one of a row."""
        b = self.b
        hidden = b.convert(self._value(constant, {}, {}), F32)
        distance = b.fsub(b.convert(largest, F32), hidden)
        is_near = b.xor(b.compare("GT", distance, b.const(F32, _VANISHING)), b.const(PRED, 1))
        b.store(self.lacks_large, 0, b.or_(b.load(self.lacks_large, PRED, 0), is_near))

    def make_weights(
        self,
        batch: dict[int, IndexValue],
        first: IndexValue,
        rows: IndexValue,
        stop: IndexValue,
    ) -> None:
        """Turn logits into weights that are not divided yet, and find the divisor of each row."""
        a, b = self.attention, self.b
        initial = self._value(a.total.operands[1], {}, {})
        end = self._whole_vectors(stop) if self.fills_vectors else stop
        with self.body.loop(0, rows) as row:
            at = {**batch, **self.position(self.math.add(first, row))}
            with self.body.loop(stop, end) as key:
                b.store(self.scores, self._score_place(row, key), b.const(F32, -math.inf))
            largest = b.load(self.maxima, a.maximum.array.dtype, row)
            total = Accumulators(self.k.g, a.total, a.keys)
            total.start(0, initial)
            with self.body.loop(0, end) as key:
                place = self._score_place(row, key)
                at[a.key] = key
                logit = b.convert(b.load(self.scores, F32, place), a.logits.array.dtype)
                weight = self._value(a.weights, at, {a.logits: logit, a.maximum: largest})
                numerator = self._value(a.numerator, at, {a.weights: weight})
                b.store(self.weights, place, b.convert(numerator, self.weights_dtype))
                total.add([self._value(a.total.operands[0], at, {a.weights: weight})])
            at[a.key] = 0
            (sum_,) = total.finish()
            divisor = self._value(a.divisor, at, {a.total: sum_, a.maximum: largest})
            b.store(self.divisors, row, b.convert(divisor, F32))

    def write(self, batch: dict[int, IndexValue], first: IndexValue, rows: IndexValue) -> None:
        """Divide the sums of weighted values and write them to the result."""
        by_columns = self.plan.value.out != 1
        sizes = (self.plan.value.size, rows) if by_columns else (rows, self.plan.value.size)
        with self.body.loop(0, sizes[0]) as i, self.body.loop(0, sizes[1]) as j:
            row, column = (j, i) if by_columns else (i, j)
            self._write_element({**batch, **self.position(self.math.add(first, row))}, row, column)

    def _write_element(
        self, at: Mapping[int, IndexValue], row: IndexValue, column: IndexValue
    ) -> None:
        b, math, plan, out = self.b, self.math, self.plan, self.k.output
        axes = [axis for axis in at if axis in plan.result]
        start = math.linear([at[x] for x in axes], [plan.result[x] for x in axes])
        place = math.value(math.add(math.mul(row, plan.result_row), column))
        value = b.fdiv(b.load(self.result, F32, place), b.load(self.divisors, F32, row))
        to = math.value(math.add(start, math.mul(column, plan.value.out)))
        b.store(out.pointer, to, b.convert(value, out.dtype))

    def _whole_vectors(self, keys: IndexValue) -> IndexValue:
        """Return the end of the last vector of some keys.

        Logits of -inf after the last key add nothing to a sum, and whole vectors are much faster
        than keys one by one: 1.9 ms, not 2.9, for all of 48x197x197.
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
