"""Attention: dot, mask, softmax and dot as one kernel, one block of queries at a time.

Keys and values of a batch element are packed into panels once. For each block of queries, all
scores are computed, masked and replaced by weights; the weighted sums of the values are
normalised at the end. Keys that a causal mask hides from a whole block are skipped.
"""

from __future__ import annotations

from functools import partial
from math import prod

from hloc.codegen.builder.index import layout_strides, row_major_strides
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.attention.attention_gemms import AttentionGemms
from hloc.codegen.cpu.emitters.attention.attention_plan import AttentionPlan, attention_plan
from hloc.codegen.cpu.emitters.attention.attention_rows import AttentionRows
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.lanes import lane_loop, lanes_of, mark_final
from hloc.dtypes import F32, PRED, S64
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a fusion that is an attention: a loop over the blocks of queries in all batch elements.

    Scratch memory holds tables, panels and a block of queries, scores and results. Every thread's
    part of the loop packs the panels of a batch element.
    """
    found = attention_plan(inst)
    if found is None:
        return None
    return KernelPlan(
        partial(_emit, found),
        extent=found.heads * found.blocks,
        scratch_bytes=found.layout()[1],
        repeated_bytes=4 * found.key.size * (found.attention.depth + found.value.size),
    )


def _emit(plan: AttentionPlan, k: KernelContext) -> None:
    """Write the loop over blocks of queries."""
    _Kernel(k, plan).write()
    mark_final(k)


class _Kernel:
    """Writes one kernel."""

    def __init__(self, k: KernelContext, plan: AttentionPlan) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.plan, self.attention = plan, plan.attention
        self.products = AttentionGemms(k, plan)
        self.rows = AttentionRows(k, plan, self.products)
        self.may_skip = k.b.allocate(PRED) if plan.mask else None

    def write(self) -> None:
        """Write tables, then one block after the other."""
        k, math, plan = self.k, self.math, self.plan
        self.products.fill_tables()
        self.products.clear_rows()
        with self.body.loop(k.begin, k.end) as part:
            head, block = math.div(part, plan.blocks), math.rem(part, plan.blocks)
            at = dict(zip(plan.batch, self._delinear(head, plan.batch), strict=True))
            is_first = self.b.or_(
                math.compare("EQ", math.value(block), 0),
                math.compare("EQ", math.value(part), k.begin),
            )
            with self.body.when(is_first):
                self._pack(at)
            self._block(at, math.mul(block, plan.block_rows))

    def _delinear(self, position: IndexValue, axes: tuple[int, ...]) -> list[IndexValue]:
        return self.math.delinear(position, [self.attention.sizes[axis] for axis in axes])

    def _pack(self, at: dict[int, IndexValue]) -> None:
        attention, plan = self.attention, self.plan
        keys, values = attention.key_operand, attention.values
        pointers = []
        for operand, strides in ((keys, plan.batch_keys), (values, plan.batch_values)):
            array = self.k.plain_array(operand)
            assert array is not None
            place = self.math.linear([at[a] for a in plan.batch], [strides[a] for a in plan.batch])
            pointers.append(self.b.address(array.pointer, array.dtype, self.math.value(place)))
        self.products.pack(*pointers)
        if self.may_skip is not None:
            self.b.store(self.may_skip, 0, self._are_finite(pointers[1], values))

    def _are_finite(self, pointer: str, values: Instruction) -> Value:
        """Return whether all values of a batch element are finite.

        A weight of 0 times an infinity or NaN is NaN, so otherwise no key may be skipped.
        """
        b, math, plan = self.b, self.math, self.plan
        loops = [(plan.key.size, plan.value_key), (plan.value.size, plan.value.rhs)]
        (outer, outer_step), (inner, step) = loops if plan.value_key != 1 else loops[::-1]
        lanes = lanes_of(self.k) if step == 1 else None
        if lanes is not None and not lanes.fit(inner):
            lanes = None
        total = b.allocate(F32) if lanes is None else lanes.b.lane_slot(F32)
        array, zero = Value(values.array.dtype, pointer), b.const(F32, 0)
        b.store(total, 0, zero)
        vectors = self.body.loop(0, inner) if lanes is None else lanes.loop(0, inner, inner)
        with self.body.loop(0, outer) as i, vectors as j:
            place = math.add(math.mul(i, outer_step), math.mul(j, step))
            x = b.convert(b.load(array, array.dtype, place), F32)
            b.float_flags = "reassoc"
            b.store(total, 0, b.fadd(b.load(total, F32, 0), b.fmul(x, zero)))
            b.float_flags = "contract"
        sum_ = b.load(total, F32, 0)
        if lanes is not None:
            sum_ = lanes.b.folded("add", sum_)
        return b.compare("EQ", sum_, zero)

    def _block(self, batch: dict[int, IndexValue], first: IndexValue) -> None:
        """Write a block of queries from `first` on."""
        plan, math = self.plan, self.math
        count = math.minimum(plan.block_rows, math.sub(self.attention.rows, first))
        self._read_queries(batch, first, count)
        self.rows.start(count)
        stop: IndexValue = plan.key.size
        if plan.mask is None:
            self.products.compute_scores(count, 0, stop)
            self.rows.compute_logits(batch, first, count, (0, stop))
        else:
            stop = self._visible(batch, first, count)
        self.rows.compute_weights(batch, first, count, stop)
        self.products.sum_weighted_values(count, stop)
        self.rows.write(batch, first, count)

    def _read_queries(
        self, batch: dict[int, IndexValue], first: IndexValue, count: IndexValue
    ) -> None:
        """Copy the queries of the block, one row after the other."""
        attention, math = self.attention, self.math
        a, place = attention.scores.attributes, 1 - attention.key_place
        operand, dtype = attention.query_operand, self.products.keys.rows_dtype
        batch_dims = (a.lhs_batch_dims, a.rhs_batch_dims)[place]
        contracted = (a.lhs_contracting_dims, a.rhs_contracting_dims)[place]
        dims = operand.array.dims
        free = [d for d in range(len(dims)) if d not in (*batch_dims, *contracted)]
        own = len(batch_dims) if place == 0 else attention.scores.array.rank - len(free)
        axes = {**dict(zip(batch_dims, range(len(batch_dims)), strict=True))}
        axes |= {d: own + n for n, d in enumerate(free)}
        queries = self.products.memory["queries"]
        sizes = [dims[d] for d in contracted]
        strides = row_major_strides(sizes)
        is_row = layout_strides(operand.array)[contracted[-1]] == 1
        with self.body.loop(0, count) as row:
            at = {**batch, **self.rows.position(math.add(first, row))}
            index = [at.get(axes[d], 0) if d in axes else 0 for d in range(len(dims))]
            slow = self.body.nest(sizes, list(range(len(sizes) - 1)))
            with slow as inner, lane_loop(self.k, sizes[-1], contiguous=is_row) as last:
                inner[-1] = last
                for d, step in zip(contracted, inner, strict=True):
                    index[d] = step
                value = self.b.convert(self.k.read(operand, tuple(index)), dtype)
                to = math.add(math.mul(row, attention.depth), math.linear(inner, strides))
                self.b.store(queries, to, value)

    # ---- causal masks

    def _visible(
        self, batch: dict[int, IndexValue], first: IndexValue, count: IndexValue
    ) -> IndexValue:
        """Compute the logits of the visible keys; return the end of these keys.

        The keys that the mask does not hide from the whole block come first. The others are skipped
        if each row has a logit so large that hidden weights are exactly 0, and values are finite.
        """
        b, math, mask, keys = self.b, self.math, self.plan.mask, self.plan.key.size
        assert mask is not None
        assert self.may_skip is not None
        start_slot, stop_slot = b.allocate(S64), b.allocate(S64)
        b.store(start_slot, 0, math.value(0))
        last = math.sub(math.add(first, count), 1)
        inner = prod(self.attention.sizes[axis] for axis in self.plan.queries[1:])
        width = self.products.keys.width
        seen = math.add(math.div(last, inner), mask.reach + 1)
        seen = math.maximum(math.minimum(seen, keys), 1)
        seen = math.mul(math.div(math.add(seen, width - 1), width), width)
        may_skip = b.load(self.may_skip, PRED, 0)
        all_keys = math.value(keys)
        stop = b.select(may_skip, math.value(math.minimum(seen, keys)), all_keys)
        b.store(stop_slot, 0, stop)
        with self.body.repeat_while() as loop:
            start, stop = b.load(start_slot, S64, 0), b.load(stop_slot, S64, 0)
            loop.go_on_if(math.compare("LT", start, stop))
            self.products.compute_scores(count, start, stop)
            b.store(self.rows.lacks_large, 0, b.const(PRED, 0))
            self.rows.compute_logits(batch, first, count, (start, stop))
            b.store(start_slot, 0, stop)
            goes_on = b.load(self.rows.lacks_large, PRED, 0)
            b.store(stop_slot, 0, b.select(goes_on, all_keys, stop))
        return b.load(stop_slot, S64, 0)


EMITTER = Emitter("attention", plan)
"""Both gemms of attention and the softmax between them."""
