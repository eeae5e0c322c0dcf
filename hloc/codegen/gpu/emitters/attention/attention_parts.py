"""Extra launches of attention: one before causal masks, one that combines parts of the keys."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.collectives import block_reduce, share
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitters.attention.attention_softmax import OnlineSoftmax, Patch
from hloc.codegen.gpu.emitters.attention.attention_spread import Spread
from hloc.codegen.gpu.emitters.gemm.gemm_reader import ResultWriter
from hloc.codegen.gpu.vector_access import load_vector
from hloc.dtypes import F32, S32

_THREADS = 128


def holds_for_all(k: GpuContext, condition: Value) -> Value:
    """Return whether a condition holds in all threads of the block; all threads must call it."""

    def both(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return [k.b.and_(left[0], right[0])]

    threads = k.block[0]
    result = block_reduce(k, [condition], both, threads)
    return share(k, result, threads)[0]


# ---- which tiles of values are finite


def finite_flags(k: GpuContext, spread: Spread) -> IrArray:
    """Return the flags: by batch element and tile of keys, 1 if all values are finite."""
    return k.scratch_array(0, S32, (spread.heads, spread.key_tiles))


def emit_finite_flags(w: LaunchWriter, spread: Spread) -> None:
    """Write the launch that checks all values: a weight of 0 times inf or NaN is NaN."""
    p = spread.problem.result
    values, columns = p.right, p.columns.count
    with w.launch((spread.heads * spread.key_tiles, 1, 1), (_THREADS, 1, 1)) as k:
        m, b = k.math, k.b
        head, tile = m.delinear(k.block_index("x"), [spread.heads, spread.key_tiles])
        array = k.plain_array(values.operand)
        assert array is not None
        start = m.linear(m.delinear(head, p.batch.sizes), values.batch)
        steps = (values.depth[0], values.line[0])
        is_by_key = steps[0] == 1  # adjacent threads read adjacent elements
        sizes = (columns, spread.keys) if is_by_key else (spread.keys, columns)
        total = b.allocate(F32)
        zero = b.const(F32, 0)
        b.store(total, 0, zero)
        first_key = m.mul(tile, spread.keys)
        with k.body.loop(k.thread("x"), spread.keys * columns, _THREADS) as number:
            slow, fast = m.delinear(number, sizes)
            key, column = (fast, slow) if is_by_key else (slow, fast)
            at_key = m.minimum(m.add(first_key, key), p.depth.count - 1)
            place = m.add(start, m.linear((at_key, column), steps))
            x = b.convert(b.load(array.pointer, array.dtype, m.value(place)), F32)
            b.store(total, 0, b.fadd(b.load(total, F32, 0), b.fmul(x, zero)))
        is_finite = b.compare("EQ", b.load(total, F32, 0), zero)
        result = holds_for_all(k, is_finite)
        with k.body.when(m.compare("EQ", k.thread("x"), 0)):
            finite_flags(k, spread).store(m, (head, tile), b.convert(result, S32))


# ---- parts of the keys


def part_statistics(k: GpuContext, spread: Spread) -> tuple[IrArray, IrArray]:
    """Return the arrays of largest logits and of sums of weights of parts, after their results.

    By part, batch element and row.
    """
    dims = (spread.parts, spread.heads, spread.problem.scores.rows.count)
    first = 4 * spread.sums
    second = first + 4 * spread.statistics
    return k.scratch_array(first, F32, dims), k.scratch_array(second, F32, dims)


def emit_joined(w: LaunchWriter, spread: Spread) -> None:
    """Emit the launch that combines all parts in order; a thread has adjacent elements of a row."""
    p = spread.problem.result
    heads, rows, columns = spread.heads, p.rows.count, p.columns.count
    width = min(p.result_width, 4)
    while columns % width:
        width //= 2
    with w.each(heads * rows * columns // width) as (k, thread):
        m, b = k.math, k.b
        softmax = OnlineSoftmax(k, spread, _NOTHING, pointer_value(""), pointer_value(""))
        head, row, column = m.delinear(m.mul(thread, width), [heads, rows, columns])
        maxima, totals = part_statistics(k, spread)
        sums = k.scratch_array(0, F32, (spread.parts, heads, rows, columns))
        largest = maxima.load(m, (0, head, row))
        for other in range(1, spread.parts):
            largest = b.intrinsic("maximum", largest, maxima.load(m, (other, head, row)))
        reference = softmax.reference(largest)
        slots = b.allocate(F32, width + 1)
        for slot in range(width + 1):
            b.store(slots, slot, b.const(F32, 0))
        with k.body.loop(0, spread.parts) as part:
            place: tuple[IndexValue, ...] = (part, head, row)
            share_of = softmax.shrunk(maxima.load(m, place), reference)
            at = m.linear((*place, column), sums.strides)
            result = load_vector(k, sums.pointer, F32, at, width)
            for slot, x in enumerate([totals.load(m, place), *result]):
                old = b.load(slots, F32, slot)
                b.store(slots, slot, b.fadd(old, b.fmul(x, share_of)))
        inverse = softmax.inverse(b.load(slots, F32, 0), largest)
        values = [b.fmul(b.load(slots, F32, 1 + i), inverse) for i in range(width)]
        ResultWriter(k, p).write(0, head, row, column, values)


_NOTHING = Patch((), 0, (), (), (), 1)
