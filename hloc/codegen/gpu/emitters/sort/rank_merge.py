"""Merging by rank: every thread places one element, in shared or global memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.dtypes import S64

LoadFunction: TypeAlias = Callable[[IndexValue], list[Value]]
StoreFunction: TypeAlias = Callable[[IndexValue, Sequence[Value]], None]
LessFunction: TypeAlias = Callable[[Sequence[Value], Sequence[Value]], Value]
"""Whether the first element must come before the second."""

_MOST_THREADS = 1024
_SHARED_BYTES = 32 << 10


def chunk_for(size: int, element_bytes: int) -> int:
    """Return the elements of a row of `size` that one block sorts: a power of two."""
    chunk = 1 << max(size - 1, 0).bit_length()
    while chunk > _MOST_THREADS or (chunk > 1 and 2 * chunk * element_bytes > _SHARED_BYTES):
        chunk //= 2
    return chunk


def store_all(
    k: GpuContext, arrays: Sequence[IrArray], index: Index, values: Sequence[Value]
) -> None:
    """Write one value to each of the arrays, all at the same position."""
    for array, value in zip(arrays, values, strict=True):
        array.store(k.math, index, value)


class RankMerge:
    """Sorts elements that consist of a value from each of several arrays."""

    def __init__(self, k: GpuContext, less: LessFunction) -> None:
        self.k, self.less = k, less

    def sort_block(
        self, arrays: Sequence[IrArray], chunk: int, thread: IndexValue, count: IndexValue
    ) -> int:
        """Sort the first `count` elements of shared arrays, with all threads of the block.

        Args:
            arrays: of twice `chunk` elements; the first half is filled, before a barrier.
            chunk: threads of the block, a power of two.
            thread: this one.
            count: elements, at most `chunk`.

        Returns:
            The half that holds the result, after a barrier.
        """
        k, m = self.k, self.k.math
        steps = chunk.bit_length() - 1
        inside = m.compare("LT", thread, count)
        with k.body.loop(0, steps) as step:
            source = m.mul(m.rem(step, 2), chunk)
            target = m.sub(chunk, source)
            run = self._power(step)
            with k.body.when(inside):
                self.place(
                    thread,
                    run,
                    count,
                    m.add(step, 1),
                    lambda at: [a.load(m, (m.add(source, at),)) for a in arrays],
                    lambda at, values: store_all(k, arrays, (m.add(target, at),), values),
                )
            k.barrier()
        return steps % 2

    def _power(self, exponent: IndexValue) -> IndexValue:
        if isinstance(exponent, int):
            return 1 << exponent
        return self.k.b.shl(Value(S64, "1"), exponent)

    def place(
        self,
        position: IndexValue,
        run: IndexValue,
        count: IndexValue,
        steps: IndexValue,
        load: LoadFunction,
        store: StoreFunction,
    ) -> None:
        """Move element `position` to its position in the merge of its run and the adjacent one.

        Args:
            position: of the element, below `count`.
            run: length of sorted runs, a power of two; the last one may be short.
            count: elements in all.
            steps: of a binary search in a run.
            load: reads all arrays at a position.
            store: writes all arrays at a position.
        """
        k, m = self.k, self.k.math
        mine = load(position)
        pair = self._and_not(position, m.sub(m.mul(run, 2), 1))
        start = self._and_not(position, m.sub(run, 1))
        is_left = m.compare("EQ", pair, start)
        other = self._either(is_left, m.add(start, run), pair)
        low, high = k.b.allocate(S64), k.b.allocate(S64)
        k.b.store(low, 0, m.value(m.minimum(other, count)))
        k.b.store(high, 0, m.value(m.minimum(m.add(other, run), count)))
        with k.body.loop(0, steps):
            first, last = k.b.load(low, S64, 0), k.b.load(high, S64, 0)
            with k.body.when(m.compare("LT", first, last)):
                middle = m.div(m.add(first, last), 2)
                precedes = self._precedes(load(middle), mine, is_left)
                following = m.value(m.add(middle, 1))
                k.b.store(low, 0, k.b.select(precedes, following, first))
                k.b.store(high, 0, k.b.select(precedes, last, m.value(middle)))
        result = k.b.load(low, S64, 0)
        before = m.sub(result, self._either(m.compare("LT", other, count), other, count))
        store(m.add(m.add(pair, m.sub(position, start)), before), mine)

    def _and_not(self, position: IndexValue, bits: IndexValue) -> IndexValue:
        """Return `position` without its low bits."""
        m = self.k.math
        return m.sub(position, self.k.b.and_(m.value(position), m.value(bits)))

    def _either(self, condition: Value, yes: IndexValue, no: IndexValue) -> IndexValue:
        m = self.k.math
        return self.k.b.select(condition, m.value(yes), m.value(no))

    def _precedes(self, others: Sequence[Value], mine: Sequence[Value], is_left: Value) -> Value:
        """Return whether an element of the other run comes before that of this thread.

        For an element of the left run, the other one must be less; of the right run, not greater.
        """
        b = self.k.b
        pairs = list(zip(others, mine, strict=True))
        left = [b.select(is_left, other, own) for other, own in pairs]
        right = [b.select(is_left, own, other) for other, own in pairs]
        less = self.less(left, right)
        return b.xor(less, b.not_(is_left))
