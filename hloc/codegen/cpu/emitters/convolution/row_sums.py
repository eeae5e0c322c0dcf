"""Sums of a convolution along a row of memory: neighbouring results in vector registers.

A mask excludes the results whose window element lies outside the row. Away from the ends of a
long row there are none, and the code without masks runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS, Value, vector_of
from hloc.codegen.cpu.emitters.vector_loads import load_lanes, store_lanes
from hloc.codegen.kernels.context import KernelContext
from hloc.ir.attributes import WindowDimension

_SUMS = 4
"""Vectors of sums at a time: additions to one wait for each other."""

MAX_ROW = 1 << 30
"""Positions in rows are compared as 32-bit numbers."""


def fits_row(k: KernelContext, d: WindowDimension, row: int, stride: int) -> bool:
    """True if the windows of neighbouring results lie along a row of `row` elements.

    Args:
        k: the kernel.
        d: the dimension of the window along the row.
        row: elements of the operand.
        stride: distance of neighbouring elements of the operand in memory.
    """
    is_dense = d.stride in (1, 2) and d.base_dilation == 1 and stride == 1
    return is_dense and k.target.has("avx512f") and row + d.size * d.window_dilation < MAX_ROW


class RowSums:
    """The sums of one row of `size` results, a block of them at a time."""

    def __init__(
        self, k: KernelContext, source: IrArray, d: WindowDimension, row: int, size: int
    ) -> None:
        self.k, self.source, self.window, self.row, self.size = k, source, d, row, size
        self.dtype, self.stride = source.dtype, d.stride
        last = (d.size - 1) * d.window_dilation
        full = k.target.vector_bits // self.dtype.bits
        most = full if 2 * self.size > 3 * full else full // 2  # half a vector lies in one line
        self.lanes = min(most, 1 << (self.size - 1).bit_length())
        self.vectors = min(_SUMS, -(-self.size // self.lanes))
        self.block = self.vectors * self.lanes
        self.last_interior = (row - last + d.pad_low) // d.stride - self.block
        self.kind = vector_of(REPRESENTATIONS[self.dtype].memory, self.lanes)
        self.chains = min(_SUMS // self.vectors, d.size)
        self.slots = [k.fn.allocate(self.kind) for _ in range(self.chains * self.vectors)]

    def blocks(self) -> Iterator[tuple[IndexValue, bool]]:
        """Yield the first result of each block and whether windows may leave the row, in loops.

        The last block may overlap the one before.
        """
        low, high = -(-max(self.window.pad_low, 0) // self.stride), self.last_interior
        last, whole = self.size - self.block, (self.size - 1) // self.block
        begin = min(-(-low // self.block) * self.block, self.size)
        end = self.size if low <= last <= high else min(high // self.block + 1, whole) * self.block
        end = max(begin, end)
        for start, stop, masked in ((0, begin, True), (begin, end, False), (end, self.size, True)):
            if start < stop:
                with self.k.body.loop(start, stop, self.block) as offset:
                    yield self.k.math.minimum(offset, max(last, 0)), masked

    def start(self, first: IndexValue, element: IndexValue) -> IndexValue:
        """Return the position in the row of window element `element` of result `first`."""
        m, d = self.k.math, self.window
        if d.reversal:
            element = m.sub(d.size - 1, element)
        reach = m.sub(m.mul(element, d.window_dilation), d.pad_low)
        return m.add(m.mul(first, self.stride), reach)

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
            position = self.k.math.add(start, number * self.lanes * self.stride)
            inside = self._inside(position, self.stride) if masked else ""
            if inside is None:
                continue
            x = self._elements(row, position, inside, masked=masked)
            total = fn.value(f"load {kind}, ptr {slot}")
            product = fn.value(f"fmul contract {kind} {x}, {factors}")
            added = fn.value(f"fadd contract {kind} {total}, {product}")
            if inside and self._leaves_row(position, number):  # the factor may be infinite
                flags = f"<{self.lanes} x i1>"
                added = fn.value(f"select {flags} {inside}, {kind} {added}, {kind} {total}")
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

    def _elements(self, row: IndexValue, position: IndexValue, inside: str, *, masked: bool) -> str:
        """Load the elements of the lanes, from `position` of the row at `row` on.

        `inside` is the mask of those in the row.
        """
        if self.stride == 1:
            place = self._at(self.source, self.k.math.add(row, position))
            return load_lanes(self.k, place, self.dtype, self.lanes, inside)
        parts = []
        for part in range(self.stride):
            at = self.k.math.add(position, part * self.lanes)
            mask = self._inside(at, 1) if masked else ""
            if mask is None:
                parts.append("zeroinitializer")
                continue
            place = self._at(self.source, self.k.math.add(row, at))
            parts.append(load_lanes(self.k, place, self.dtype, self.lanes, mask))
        even = ", ".join(f"i32 {self.stride * lane}" for lane in range(self.lanes))
        left, right = (f"{self.kind} {part}" for part in parts)
        return self.k.fn.value(f"shufflevector {left}, {right}, <{self.lanes} x i32> <{even}>")

    def _inside(self, position: IndexValue, stride: int) -> str | None:
        """Return the mask of the lanes in the row, `stride` elements apart from `position` on.

        "" for all of them, None for none.
        """
        if isinstance(position, int):
            low, high = self._range_inside(position, stride)
            is_whole = (low, high) == (0, self.lanes)
            return None if low >= high else "" if is_whole else self._constant(low, high)
        fn, kind = self.k.fn, f"<{self.lanes} x i32>"
        first = self._splat("i32", fn.value(f"trunc i64 {position.text} to i32"))
        numbers = ", ".join(f"i32 {stride * lane}" for lane in range(self.lanes))
        positions = fn.value(f"add {kind} {first}, <{numbers}>")
        return fn.value(f"icmp ult {kind} {positions}, splat (i32 {self.row})")

    def _range_inside(self, position: int, stride: int) -> tuple[int, int]:
        """Return the first lane in the row, and the one after the last."""
        return max(-(position // stride), 0), min(-((position - self.row) // stride), self.lanes)

    def _leaves_row(self, position: IndexValue, number: int) -> bool:
        """True if results of vector `number` may lie outside the row; other lanes do not count."""
        if not isinstance(position, int):
            return True
        low, high = self._range_inside(position, self.stride)
        return low > 0 or high < self._valid(number)

    def _constant(self, low: int, high: int) -> str:
        """Return the mask of the lanes from `low` to `high`."""
        flags = (f"i1 {str(low <= lane < high).lower()}" for lane in range(self.lanes))
        return f"<{', '.join(flags)}>"

    def _splat(self, element: str, text: str) -> str:
        kind = vector_of(element, self.lanes)
        one = self.k.fn.value(f"insertelement {kind} poison, {element} {text}, i64 0")
        order = f"<{self.lanes} x i32> zeroinitializer"
        return self.k.fn.value(f"shufflevector {kind} {one}, {kind} poison, {order}")
