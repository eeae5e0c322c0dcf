"""A stable radix sort of one row by unsigned integer keys, least significant digit first.

Keys are recomputed from the elements in every pass, so different elements with equal keys (-0 and
0) need no special case: elements move, keys do not. All digits are counted while the row is filled;
a digit that all elements share is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc.codegen.builder.ir_array import dense_array
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.sort.sort_rows import SortRows
from hloc.codegen.kernels.context import KernelContext
from hloc.dtypes import S64, U32, DType
from hloc.lazy_dataclass import dataclass

_LONG_ROW = 8192
"""From this length on, digits of eleven bits are faster than digits of eight."""

KeyFunction: TypeAlias = Callable[[Sequence[Value]], list[Value]]
"""Return the unsigned keys of an element, the most important one first."""


@dataclass(frozen=True, slots=True)
class Digits:
    """The digits of the keys.

    Attributes:
        widths: bits of every key, most important one first.
        bits: bits of a digit.
    """

    widths: tuple[int, ...]
    bits: int

    @property
    def passes(self) -> int:
        """Number of digits of all keys."""
        return sum(-(-width // self.bits) for width in self.widths)

    @property
    def count_bytes(self) -> int:
        """Bytes of the counts of all digits."""
        return self.passes * (1 << self.bits) * U32.storage_bytes


def digits_for(keys: Sequence[DType], size: int) -> Digits:
    """Return the digits of keys of these types for rows of `size` elements."""
    widths = tuple(dtype.bits for dtype in keys)
    long = size >= _LONG_ROW and max(widths) > 16
    return Digits(widths, 11 if long else 8)


class RadixSorter:
    """Writes the steps of one row: `clear`, `count` for every element, then `sort`.

    Args:
        offset_bytes: offset of the counts in scratch memory.
    """

    def __init__(
        self, rows: SortRows, digits: Digits, keys: KeyFunction, offset_bytes: int
    ) -> None:
        k: KernelContext = rows.k
        self.rows, self.digits, self._keys = rows, digits, keys
        self.b, self.math, self.body = k.b, k.math, k.body
        places = digits.passes << digits.bits
        pointer = k.b.offset_pointer(k.scratch, offset_bytes)
        self.counts = dense_array(pointer, U32, (places,))

    def clear(self) -> None:
        """Set all counts to zero."""
        self.b.clear(self.counts.pointer, self.digits.count_bytes)

    def count(self, values: Sequence[Value]) -> None:
        """Count the digits of an element."""
        first = 0
        for key, width in zip(self._keys(values), self.digits.widths, strict=True):
            for number in range(-(-width // self.digits.bits)):
                digit = self._digit(key, self.b.const(key.dtype, number * self.digits.bits))
                self._increment(self.math.add(digit, first))
                first += 1 << self.digits.bits

    def _digit(self, key: Value, shift: Value) -> Value:
        b = self.b
        mask = b.const(key.dtype, min((1 << self.digits.bits) - 1, (1 << key.dtype.bits) - 1))
        return b.convert(b.and_(b.lshr(key, shift), mask), S64)

    def _increment(self, place: IndexValue) -> Value:
        """Increment a count; return its old value."""
        before = self.counts.load(self.math, (place,))
        self.counts.store(self.math, (place,), self.b.iadd(before, self.b.const(U32, 1)))
        return before

    def sort(self, count: IndexValue) -> None:
        """Sort the `count` > 0 elements in half 0; they end in the half `rows.half` names."""
        self.rows.set_half(0)
        first = self.digits.passes
        for number in reversed(range(len(self.digits.widths))):
            passes = -(-self.digits.widths[number] // self.digits.bits)
            first -= passes
            self._sort_by_key(number, passes, first, count)

    def _sort_by_key(self, number: int, passes: int, first: int, count: IndexValue) -> None:
        """Emit the passes of key `number`, whose counts begin with those of pass `first`."""
        m, b = self.math, self.b
        with self.body.loop(0, passes) as which:
            half = self.rows.half
            source = self.rows.buffers(half)
            base = m.mul(m.add(which, first), 1 << self.digits.bits)
            shift = m.mul(which, self.digits.bits)
            digit = self._digit_at(number, self.rows.load(source, 0), shift)
            alike = self.counts.load(m, (m.add(base, digit),))
            differ = m.compare("NE", b.convert(alike, S64), count)
            with self.body.when(differ):
                self._add_up(base)
                other = m.sub(1, half)
                target = self.rows.buffers(other)
                with self.body.loop(0, count) as i:
                    values = self.rows.load(source, i)
                    digit = self._digit_at(number, values, shift)
                    place = self._increment(m.add(base, digit))
                    self.rows.store(target, b.convert(place, S64), values)
                self.rows.set_half(other)

    def _digit_at(self, number: int, values: Sequence[Value], shift: IndexValue) -> Value:
        key = self._keys(values)[number]
        return self._digit(key, self.b.convert(self.math.value(shift), key.dtype))

    def _add_up(self, base: IndexValue) -> None:
        """Replace the counts of one digit by their prefix sums, the first positions."""
        m, b = self.math, self.b
        total = b.allocate(U32)
        b.store(total, 0, b.const(U32, 0))
        with self.body.loop(0, 1 << self.digits.bits) as value:
            at = m.add(base, value)
            sofar, here = b.load(total, U32, 0), self.counts.load(m, (at,))
            self.counts.store(m, (at,), sofar)
            b.store(total, 0, b.iadd(sofar, here))
