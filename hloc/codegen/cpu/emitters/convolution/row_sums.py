"""Sums of a convolution along a row of memory: neighbouring results in vector registers.

A mask excludes the results whose window element lies outside the row. Away from the ends of a
long row there are none, and the code without masks runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS, Value, vector_of
from hloc.codegen.cpu.emitters.vector_loads import load_lanes, store_lanes
from hloc.codegen.kernels.context import KernelContext
from hloc.dtypes import PRED
from hloc.ir.attributes import WindowDimension

_SUMS = 4
"""Vectors of sums at a time: additions to one wait for each other."""

_MAX_ROW = 1 << 30
"""Positions in rows are compared as 32-bit numbers."""


def fits_row(k: KernelContext, d: WindowDimension, row: int, stride: int) -> bool:
    """True if the elements of neighbouring windows are neighbours in a row of `row` elements.

    Args:
        k: the kernel.
        d: the dimension of the window along the row.
        row: elements of the operand.
        stride: distance of neighbouring elements of the operand in memory.
    """
    is_dense = d.stride == 1 and d.base_dilation == 1 and stride == 1
    return is_dense and k.target.has("avx512f") and row + d.size * d.window_dilation < _MAX_ROW


class RowSums:
    """The sums of one row of `size` results, a block of them at a time."""

    def __init__(self, k: KernelContext, source: IrArray, d: WindowDimension, row: int) -> None:
        self.k, self.source, self.window, self.row = k, source, d, row
        self.dtype = source.dtype
        last = (d.size - 1) * d.window_dilation
        self.size = d.pad_low + row + d.pad_high - last
        full = k.target.vector_bits // self.dtype.bits
        most = full if 2 * self.size > 3 * full else full // 2  # half a vector lies in one line
        self.lanes = min(most, 1 << (self.size - 1).bit_length())
        self.vectors = min(_SUMS, -(-self.size // self.lanes))
        self.block = self.vectors * self.lanes
        self.last_interior = row - last + d.pad_low - self.block
        self.kind = vector_of(REPRESENTATIONS[self.dtype].memory, self.lanes)
        self.chains = min(_SUMS // self.vectors, d.size)
        self.slots = [k.fn.allocate(self.kind) for _ in range(self.chains * self.vectors)]

    @contextmanager
    def blocks(self) -> Iterator[IndexValue]:
        """Loop over the blocks; yields the first result of each. The last may overlap another."""
        m = self.k.math
        with self.k.body.loop(0, self.size, self.block) as offset:
            yield m.minimum(offset, self.size - self.block) if self.size > self.block else 0

    def cases(self, first: IndexValue) -> Iterator[bool]:
        """Yield whether windows may leave the row, inside a branch for each answer."""
        m, body = self.k.math, self.k.body
        if isinstance(first, int):
            yield True
            return
        if self.window.pad_low <= 0 and self.window.pad_high <= 0:
            yield False
            return
        after_start = m.compare("GE", first, self.window.pad_low)
        before_end = m.compare("LE", first, self.last_interior)
        is_interior = body.all_of([after_start, before_end])
        with body.when(is_interior):
            yield False
        is_edge = Value(PRED, self.k.fn.value(f"xor i1 {is_interior.text}, true"))
        with body.when(is_edge):
            yield True

    def start(self, first: IndexValue, element: IndexValue) -> IndexValue:
        """Return the position in the row of window element `element` of result `first`."""
        m, d = self.k.math, self.window
        if d.reversal:
            element = m.sub(d.size - 1, element)
        return m.sub(m.add(first, m.mul(element, d.window_dilation)), d.pad_low)

    def clear(self) -> None:
        """Set the sums to zero."""
        for slot in self.slots:
            self.k.fn.line(f"store {self.kind} zeroinitializer, ptr {slot}")

    def add(
        self, chain: int, row: IndexValue, start: IndexValue, factor: Value, *, masked: bool
    ) -> None:
        """Add the products of `factor` and the elements from `start` on of the row at `row`."""
        fn, kind = self.k.fn, self.kind
        factors = self._splat(REPRESENTATIONS[self.dtype].memory, factor.text)
        for number, slot in enumerate(self.slots[chain % self.chains :: self.chains]):
            position = self.k.math.add(start, number * self.lanes)
            inside = self._inside(position, self._valid(number)) if masked else ("", False)
            if inside is None:
                continue
            mask, leaves_row = inside
            place = self.k.math.add(row, position)
            x = load_lanes(self.k, self._at(self.source, place), self.dtype, self.lanes, mask)
            total = fn.value(f"load {kind}, ptr {slot}")
            product = fn.value(f"fmul contract {kind} {x}, {factors}")
            added = fn.value(f"fadd contract {kind} {total}, {product}")
            if leaves_row:  # the factor may be infinite
                flags = f"<{self.lanes} x i1>"
                added = fn.value(f"select {flags} {mask}, {kind} {added}, {kind} {total}")
            fn.line(f"store {kind} {added}, ptr {slot}")

    def store(self, output: IrArray, place: IndexValue) -> None:
        """Store the sums from element `place` of the result on."""
        fn = self.k.fn
        for number in range(self.vectors):
            slots = self.slots[number * self.chains : (number + 1) * self.chains]
            total, *others = (fn.value(f"load {self.kind}, ptr {slot}") for slot in slots)
            for other in others:
                total = fn.value(f"fadd {self.kind} {total}, {other}")
            valid = self._valid(number)
            mask = "" if valid == self.lanes else self._constant(0, valid)
            at = self._at(output, self.k.math.add(place, number * self.lanes))
            store_lanes(self.k, at, self.dtype, self.lanes, mask, total)

    def _at(self, array: IrArray, place: IndexValue) -> str:
        """Return the address of an element, perhaps outside the array."""
        offset = self.k.math.mul(place, self.dtype.storage_bytes)
        return self.k.math.moved(array.pointer.text, offset)

    def _valid(self, number: int) -> int:
        """Return how many lanes of vector `number` are results."""
        return min(self.size - number * self.lanes, self.lanes)

    def _inside(self, position: IndexValue, valid: int) -> tuple[str, bool] | None:
        """Return the mask of the lanes in the row from `position` on, None if there are none.

        With it, "" for all lanes, comes whether results are outside: lanes after the first `valid`
        are no results.
        """
        if isinstance(position, int):
            low = max(-position, 0)
            high = min(self.row - position, self.lanes)
            if low >= high:
                return None
            is_whole = (low, high) == (0, self.lanes)
            return "" if is_whole else self._constant(low, high), low > 0 or high < valid
        fn, kind = self.k.fn, f"<{self.lanes} x i32>"
        first = self._splat("i32", fn.value(f"trunc i64 {position.text} to i32"))
        numbers = ", ".join(f"i32 {lane}" for lane in range(self.lanes))
        positions = fn.value(f"add {kind} {first}, <{numbers}>")
        return fn.value(f"icmp ult {kind} {positions}, splat (i32 {self.row})"), True

    def _constant(self, low: int, high: int) -> str:
        """Return the mask of the lanes from `low` to `high`."""
        flags = (f"i1 {str(low <= lane < high).lower()}" for lane in range(self.lanes))
        return f"<{', '.join(flags)}>"

    def _splat(self, element: str, text: str) -> str:
        kind = vector_of(element, self.lanes)
        one = self.k.fn.value(f"insertelement {kind} poison, {element} {text}, i64 0")
        order = f"<{self.lanes} x i32> zeroinitializer"
        return self.k.fn.value(f"shufflevector {kind} {one}, {kind} poison, {order}")
