"""Exchanges and reductions among threads, for values of any element type.

The number of participating lanes is known when code is generated; lanes beyond it hold values that
are never used. All threads of a warp, or of a block, must reach a call together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.gpu.helpers import WARP_THREADS
from hloc.dtypes import F32, S32

Combine: TypeAlias = Callable[[Sequence[Value], Sequence[Value]], list[Value]]
"""Combines two lists of accumulators into one."""


def shuffle(k: GpuContext, how: str, value: Value, lanes: int | Value) -> Value:
    """Return the `value` of another lane of the warp.

    Args:
        k: the function.
        how: `xor`, `up`, `down` by `lanes`, or `index`: from lane number `lanes`.
        value: of any element type.
        lanes: a constant or an s32.
    """
    b, dtype = k.b, value.dtype
    if dtype.is_complex:
        return b.complex(
            shuffle(k, how, b.real(value), lanes), shuffle(k, how, b.imag(value), lanes)
        )
    other = lanes if isinstance(lanes, Value) else b.const(S32, lanes)
    if dtype is F32:
        result = k.call(f"shuffle.{how}.float", value, other)
        return result
    kind = REPRESENTATIONS[dtype].register
    bits = REPRESENTATIONS[dtype].bytes * 8
    word = k.fn.value(f"bitcast double {value.text} to i64") if kind == "double" else value.text
    if dtype.is_pred:
        bits, kind = 1, "i1"
    if bits == 64:
        parts = [k.fn.value(f"trunc i64 {word} to i32")]
        parts.append(k.fn.value(f"trunc i64 {k.fn.value(f'lshr i64 {word}, 32')} to i32"))
        low, high = (_exchange(k, how, part, other) for part in parts)
        wide = k.fn.value(f"shl i64 {k.fn.value(f'zext i32 {high} to i64')}, 32")
        joined = k.fn.value(f"or disjoint i64 {wide}, {k.fn.value(f'zext i32 {low} to i64')}")
        if kind == "double":
            joined = k.fn.value(f"bitcast i64 {joined} to double")
        return Value(dtype, joined)
    if kind == "i32":
        return Value(dtype, _exchange(k, how, word, other))
    wide = k.fn.value(f"zext {kind} {word} to i32")
    return Value(dtype, k.fn.value(f"trunc i32 {_exchange(k, how, wide, other)} to {kind}"))


def _exchange(k: GpuContext, how: str, text: str, lanes: Value) -> str:
    result = k.call(f"shuffle.{how}.i32", Value(S32, text), lanes)
    return result.text


def lane_reduce(
    k: GpuContext, values: Sequence[Value], combine: Combine, lane: IndexValue, count: int
) -> list[Value]:
    """Return in lane 0 of each group the tree reduction of its first `count` lanes.

    Args:
        k: the function.
        values: accumulators of every lane.
        combine: combines the accumulators of two lanes.
        lane: number of this lane in its group, whose size is a power of two.
        count: lanes of the group that have values.
    """
    result = list(values)
    offset = 1 << max(count - 1, 0).bit_length() >> 1
    while offset:
        others = [shuffle(k, "down", value, offset) for value in result]
        joined = combine(result, others)
        if 2 * offset > count:  # some lanes have no partner
            has = k.math.compare("LT", lane, count - offset)
            joined = [k.b.select(has, new, old) for new, old in zip(joined, result, strict=True)]
        result = joined
        offset //= 2
        count = min(count, 2 * offset) if offset else count
    return result


def block_reduce(
    k: GpuContext, values: Sequence[Value], combine: Combine, count: int
) -> list[Value]:
    """Return in thread 0 the results of the first `count` threads of the block, along x."""
    thread = k.thread("x")
    lane = k.math.rem(thread, WARP_THREADS)
    warps = -(-count // WARP_THREADS)
    if warps == 1:
        return lane_reduce(k, values, combine, lane, count)
    # The last warp may be partial: only its active lanes are reduced.
    result = lane_reduce_of_warp(k, values, combine, count)
    slots = [k.shared_array(value.dtype, (warps,)) for value in result]
    warp = k.math.div(thread, WARP_THREADS)
    first = k.body.all_of([k.math.compare("EQ", lane, 0), k.math.compare("LT", warp, warps)])
    with k.body.when(first):
        for slot, value in zip(slots, result, strict=True):
            slot.store(k.math, (warp,), value)
    k.barrier()
    with_value = k.math.minimum(lane, warps - 1)
    loaded = [slot.load(k.math, (with_value,)) for slot in slots]
    return lane_reduce(k, loaded, combine, lane, warps)


def share(k: GpuContext, values: Sequence[Value], threads: int) -> list[Value]:
    """Broadcast the values of the first thread of each group to all of its threads.

    Args:
        k: the function; groups are along x.
        values: of every thread; those of the first one are returned.
        threads: size of a group: a power of two up to a warp, or the whole block.
    """
    if threads <= WARP_THREADS:
        if threads == 1:
            return list(values)
        thread = k.math.add(k.thread("x"), k.math.mul(k.thread("y"), threads))
        lane = k.math.sub(k.math.rem(thread, WARP_THREADS), k.thread("x"))
        first = k.b.convert(k.math.value(lane), S32)
        return [shuffle(k, "index", value, first) for value in values]
    slots = [k.shared_array(value.dtype, (1,)) for value in values]
    with k.body.when(k.math.compare("EQ", k.thread("x"), 0)):
        for slot, value in zip(slots, values, strict=True):
            slot.store(k.math, (0,), value)
    k.barrier()
    return [slot.load(k.math, (0,)) for slot in slots]


def lane_reduce_of_warp(
    k: GpuContext, values: Sequence[Value], combine: Combine, count: int
) -> list[Value]:
    """Return in lane 0 of each warp the results of its threads below `count`."""
    thread = k.thread("x")
    lane = k.math.rem(thread, WARP_THREADS)
    if count % WARP_THREADS == 0:
        return lane_reduce(k, values, combine, lane, WARP_THREADS)
    result = list(values)
    offset = WARP_THREADS // 2
    while offset:
        others = [shuffle(k, "down", value, offset) for value in result]
        joined = combine(result, others)
        has = k.body.all_of(
            [
                k.math.compare("LT", k.math.add(lane, offset), WARP_THREADS),
                k.math.compare("LT", k.math.add(thread, offset), count),
            ]
        )
        result = [k.b.select(has, new, old) for new, old in zip(joined, result, strict=True)]
        offset //= 2
    return result
