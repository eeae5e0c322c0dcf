"""Fourier transforms of the last one to three dimensions, along each of them in turn.

Several rows are transformed at a time, one per lane of a vector: they are brought into scratch
memory side by side, real parts apart from imaginary ones, and go through Stockham's passes there,
one per factor of the length. A real row of even length is transformed as a complex one of half the
length. Lengths with a prime factor so large that the passes would be quadratic are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from math import pi, prod
from typing import TypeAlias

import numpy as np

from hloc.codegen.emitters.butterflies import LARGEST, Butterflies, Complex
from hloc.codegen.emitters.context import Emitter, KernelContext, root_of
from hloc.codegen.emitters.fft_plan import (
    MOST_TABULATED,
    complex_dtype,
    copies_spectrum,
    factors,
    lane_count,
    row_bytes,
    table_bytes,
)
from hloc.codegen.emitters.vectors import Vectors
from hloc.codegen.index import Index, loop_order
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.routine import FINAL_FORM
from hloc.codegen.scalar_builder import pointer_value
from hloc.codegen.values import Value
from hloc.dtypes import F64, S64, U8, component_of
from hloc.ir.instruction import Instruction

MAX_WORK = 1 << 28
"""Length times largest prime factor, above which a transform is refused."""

Place: TypeAlias = Callable[[IndexValue, IndexValue], Index]
"""Returns the index of an element: number of the row, position in it."""

_PIECE = 16
"""Rows that one thread transforms at a time: a multiple of the lanes of every machine."""

_BLOCK = 16
"""Elements of a row that are brought in or written before those of the next row."""


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a transform whose lengths have small enough factors."""
    root = root_of(inst)
    if root.opcode.name != "fft":
        return False
    return all(n * max(factors(n), default=1) <= MAX_WORK for n in root.attributes.fft_length)


def scratch_bytes(inst: Instruction) -> int:
    """Return room for two sets of rows, a table, and a copy of the spectrum of an IRFFT."""
    root = root_of(inst)
    total = row_bytes(root, lane_count(root)) + table_bytes(root)
    if copies_spectrum(root):
        total += root.operands[0].array.elements * complex_dtype(root).storage_bytes
    return total


def extent(inst: Instruction) -> int:
    """Return the number of pieces of rows, 1 if more than one dimension is transformed."""
    root = root_of(inst)
    if len(root.attributes.fft_length) > 1 or root.array.elements == 0:
        return 1
    operand = root.operands[0].array
    return -(-operand.elements // operand.dims[-1] // _PIECE)


def repeated_bytes(inst: Instruction) -> int:
    """Return the size of the table with which every part begins."""
    return table_bytes(root_of(inst))


def emit(k: KernelContext) -> None:
    """Transform one dimension after another."""
    if k.root.array.elements == 0:
        return
    kind, length = k.root.attributes.fft_type, k.root.attributes.fft_length
    rank = k.root.array.rank
    axes = list(range(rank - len(length), rank))
    lengths = dict(zip(axes, length, strict=True))
    writer = _Writer(k, kind in ("IFFT", "IRFFT"))
    operand = k.root.operands[0]
    last = axes.pop()
    if copies_spectrum(k.root):
        offset = row_bytes(k.root, writer.lanes) + table_bytes(k.root)
        spectrum = k.scratch_array(offset, writer.dtype, operand.array.dims)
        k.copy_array(operand, spectrum)
        for axis in axes:
            writer.along(spectrum.dims, axis, lengths[axis], spectrum, spectrum)
        writer.along(spectrum.dims, last, lengths[last], spectrum, k.output)
        return
    writer.along(operand.array.dims, last, lengths[last], operand, k.output)
    for axis in axes:
        writer.along(k.output.dims, axis, lengths[axis], k.output, k.output)
    if writer.all_vectors:
        k.level = FINAL_FORM


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring passes of one factor.

    Attributes:
        size: length of the transform.
        stride: length of the table over `size`.
    """

    size: int
    stride: int
    factor: int


class _Rows:
    """Some rows side by side: element i of all of them, then element i + 1."""

    def __init__(self, v: Vectors, real: Value, imag: Value) -> None:
        self.v, self.real, self.imag = v, real, imag

    def load(self, at: IndexValue) -> Complex:
        return self.v.load(self.real, at), self.v.load(self.imag, at)

    def store(self, at: IndexValue, x: Complex) -> None:
        self.v.store(self.real, at, x[0])
        self.v.store(self.imag, at, x[1])

    def beginning_at(self, at: IndexValue) -> _Rows:
        """Return the same rows without what lies before `at`."""
        real, imag = (self.v.b.moved(part, self.v.dtype, at) for part in (self.real, self.imag))
        return _Rows(self.v, real, imag)


class _Writer:
    """Writes the passes.

    Attributes:
        all_vectors: nothing was written so far that LLVM should turn into vectors.
    """

    def __init__(self, k: KernelContext, inverse: bool) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.dtype, self.inverse = complex_dtype(k.root), inverse
        self.part = component_of(self.dtype)
        self.lanes = lane_count(k.root, k.target.vector_bytes)
        self.v = Vectors(k.b, self.part, self.lanes)
        self.butterflies = Butterflies(self.v, inverse)
        self.row_bytes = max(k.root.attributes.fft_length) * self.lanes * self.part.storage_bytes
        parts = [k.b.offset_pointer(k.scratch, self.row_bytes * i) for i in range(4)]
        self.rows = [_Rows(self.v, *parts[:2]), _Rows(self.v, *parts[2:])]
        self.table: tuple[Value, Value] = parts[0], parts[1]
        self.all_vectors = max(k.root.attributes.fft_length) <= MOST_TABULATED

    def along(
        self,
        dims: tuple[int, ...],
        axis: int,
        n: int,
        source: Instruction | IrArray,
        target: IrArray,
    ) -> None:
        """Transform all rows along `axis`; what lies outside `target` is not written."""
        self._tabulate(n)
        shape = source.array if isinstance(source, Instruction) else None
        order = loop_order(shape) if shape else [d for d in range(len(dims)) if dims[d] != 1]
        others = [d for d in order if d != axis]
        sizes = [dims[d] for d in others]
        halves = isinstance(source, Instruction) and not source.array.dtype.is_complex
        halves = halves and n % 2 == 0
        array = source if isinstance(source, IrArray) else self.k.plain_array(source)
        in_place = array is source or any(a is not None for a in self.k.aliased)
        count = prod(sizes)
        # Some rows are transformed twice rather than fewer at a time.
        whole = count % self.lanes == 0 or (count >= self.lanes and not in_place)
        vectors_in = whole and array is not None and self._has_vectors(array, axis, n)
        vectors_out = whole and self._has_vectors(target, axis, target.dims[axis])
        self.all_vectors = self.all_vectors and vectors_in and vectors_out
        rows: tuple[IndexValue, IndexValue] = (0, count)
        if extent(self.k.inst) > 1:
            m = self.math
            rows = m.mul(self.k.begin, _PIECE), m.minimum(m.mul(self.k.end, _PIECE), count)
        with self.body.loop(*rows, self.lanes) as first:
            width: IndexValue = self.lanes
            if not whole:
                width = self.math.minimum(self.lanes, self.math.sub(count, first))
            elif count % self.lanes:
                first = self.math.minimum(first, count - self.lanes)

            def place(lane: IndexValue, i: IndexValue) -> Index:
                index: list[IndexValue] = [0] * len(dims)
                row = self.math.delinear(self.math.add(first, lane), sizes)
                for d, position in zip(others, row, strict=True):
                    index[d] = position
                index[axis] = i
                return tuple(index)

            size = n // 2 if halves else n
            in_order = not order or order[-1] == axis
            if vectors_in and array is not None:
                self._vectors_in(array, place, axis, halves)
            else:
                with self._elements(size, width, in_order) as (i, lane):
                    self._bring_in(source, place, axis, n, i, lane, halves)
            done = self._passes(size, n)
            if halves:
                done = self._joined(done, n)
            if vectors_out:
                self._vectors_out(done, target, place, axis, n)
            else:
                with self._elements(target.dims[axis], width, in_order) as (i, lane):
                    self._write(done, target, place, n, i, lane)

    # ---------------------------------------------------------------- rows in vectors

    def _has_vectors(self, array: IrArray, axis: int, size: int) -> bool:
        """True if rows of `size` elements lie in one piece and are long enough."""
        floats = size * (2 if array.dtype.is_complex else 1)
        return (
            component_of(array.dtype) is self.part
            and array.strides[axis] == 1
            and array.dims[axis] == size
            and 1 < self.lanes <= floats
        )

    @contextmanager
    def _columns(
        self, array: IrArray, place: Place, size: int
    ) -> Iterator[tuple[IndexValue, Value, list[IndexValue]]]:
        """Run the region for every `lanes` floats of the rows.

        Yields their number in the row, a pointer, and where they are from there in each row.
        """
        m = self.math
        scale = 2 if array.dtype.is_complex else 1
        starts = [
            m.mul(m.linear(place(lane, 0), array.strides), scale) for lane in range(self.lanes)
        ]
        floats = size * scale
        with self.body.loop(0, floats, self.lanes) as column:
            if floats % self.lanes:
                column = m.minimum(column, floats - self.lanes)
            yield column, self.b.moved(array.pointer, self.part, column), starts

    def _vectors_in(self, array: IrArray, place: Place, axis: int, halves: bool) -> None:
        """Bring rows in, a square of floats at a time; `halves` takes pairs for complex."""
        m, v, rows = self.math, self.v, self.rows[0]
        pairs = halves or array.dtype.is_complex
        with self._columns(array, place, array.dims[axis]) as (column, pointer, starts):
            found = v.transposed([v.load(pointer, start) for start in starts])
            first = m.div(column, 2) if pairs else column
            for number, x in enumerate(found):
                if pairs:
                    part = rows.imag if number % 2 else rows.real
                    v.store(part, self._at(m.add(first, number // 2), 0), x)
                else:
                    rows.store(self._at(m.add(first, number), 0), (x, v.constant(0.0)))

    def _vectors_out(self, rows: _Rows, target: IrArray, place: Place, axis: int, n: int) -> None:
        """Write rows to the result, a square of floats at a time."""
        m, v = self.math, self.v
        pairs = target.dtype.is_complex
        with self._columns(target, place, target.dims[axis]) as (column, pointer, starts):
            first = m.div(column, 2) if pairs else column
            found = []
            for number in range(self.lanes):
                part = rows.imag if pairs and number % 2 else rows.real
                at = m.add(first, number // 2 if pairs else number)
                x = v.load(part, self._at(at, 0))
                found.append(v.mul(x, v.constant(1 / n)) if self.inverse else x)
            for start, x in zip(starts, v.transposed(found), strict=True):
                v.store(pointer, start, x)

    # ---------------------------------------------------------------- rows in and out

    @contextmanager
    def _elements(
        self, size: int, width: IndexValue, in_order: bool
    ) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Run the region for every element of the rows; `in_order` if a row lies in one piece."""
        body, m = self.body, self.math
        if not in_order:
            with body.loop(0, size) as i, body.loop(0, width) as lane:
                yield i, lane
            return
        with (
            body.loop(0, size, _BLOCK) as first,
            body.loop(0, width) as lane,
            body.loop(first, m.minimum(m.add(first, _BLOCK), size)) as i,
        ):
            yield i, lane

    def _at(self, i: IndexValue, lane: IndexValue) -> IndexValue:
        return self.math.add(self.math.mul(i, self.lanes), lane)

    def _bring_in(
        self,
        source: Instruction | IrArray,
        place: Place,
        axis: int,
        n: int,
        i: IndexValue,
        lane: IndexValue,
        halves: bool,
    ) -> None:
        """Store element i of a row, or elements 2i and 2i + 1 as one complex number."""
        b, m, rows = self.b, self.math, self.rows[0]
        if halves:
            at = m.mul(i, 2)
            real = self._input(source, place, axis, at, lane, n)
            imag = self._input(source, place, axis, m.add(at, 1), lane, n)
            real, imag = b.real(real), b.real(imag)
        else:
            value = self._input(source, place, axis, i, lane, n)
            real, imag = b.real(value), b.imag(value)
        b.store(rows.real, m.value(self._at(i, lane)), real)
        b.store(rows.imag, m.value(self._at(i, lane)), imag)

    def _input(
        self,
        source: Instruction | IrArray,
        place: Place,
        axis: int,
        i: IndexValue,
        lane: IndexValue,
        n: int,
    ) -> Value:
        """Return element i of a row; half a spectrum is continued by its mirror image."""
        dims = source.dims if isinstance(source, IrArray) else source.array.dims
        mirrored = None
        if dims[axis] < n:
            mirrored = self.math.compare("GE", i, dims[axis])
            back = self.math.value(self.math.sub(n, i))
            i = self.b.select(mirrored, back, self.math.value(i))
        index = place(lane, i)
        if isinstance(source, IrArray):
            value = source.load(self.math, index)
        else:
            value = self.k.read(source, index)
        value = self.b.convert(value, self.dtype)
        if mirrored is None:
            return value
        conjugate = self.b.complex(self.b.real(value), self.b.fneg(self.b.imag(value)))
        return self.b.select(mirrored, conjugate, value)

    def _write(
        self, rows: _Rows, target: IrArray, place: Place, n: int, i: IndexValue, lane: IndexValue
    ) -> None:
        """Write element i of a row to the result."""
        b, at = self.b, self.math.value(self._at(i, lane))
        real, imag = b.load(rows.real, self.part, at), b.load(rows.imag, self.part, at)
        if self.inverse:
            factor = b.const(self.part, 1 / n)
            real, imag = b.fmul(real, factor), b.fmul(imag, factor)
        value = b.complex(real, imag) if target.dtype.is_complex else real
        target.store(self.math, place(lane, i), value)

    # ---------------------------------------------------------------- passes

    def _tabulate(self, n: int) -> None:
        """Make the table of exp(-2 pi i t / n), or its conjugate for inverses."""
        b = self.b
        if n <= MOST_TABULATED:
            angles = np.arange(n) * (2 * pi / n)
            sine = np.sin(angles) if self.inverse else -np.sin(angles)
            self.table = self._constants(np.cos(angles)), self._constants(sine)
            return
        size = max(self.k.root.attributes.fft_length) * self.part.storage_bytes
        offset = row_bytes(self.k.root, self.lanes)
        cosines, sines = (b.offset_pointer(self.k.scratch, offset + size * i) for i in (0, 1))
        with self.body.loop(0, n) as t:
            angle = b.fmul(b.convert(self.math.value(t), F64), b.const(F64, 2 * pi / n))
            wave = b.libm("sin", angle)
            at = self.math.value(t)
            b.store(cosines, at, b.convert(b.libm("cos", angle), self.part))
            b.store(sines, at, b.convert(wave if self.inverse else b.fneg(wave), self.part))
        self.table = cosines, sines

    def _constants(self, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Value:
        data = values.astype(self.part.numpy).tobytes()
        return pointer_value(self.b.fn.byte_constant(data))

    def _factor(self, at: IndexValue) -> Complex:
        """Return number `at` of the table in all lanes."""
        at = self.math.value(at)
        cosine, sine = (self.b.load(part, self.part, at) for part in self.table)
        return self.v.splat(cosine), self.v.splat(sine)

    def _passes(self, size: int, n: int) -> _Rows:
        """Transform the first rows, of length `size`; return those that hold the result.

        The table is that of `n`, a multiple of `size`. Equal factors share their code.
        """
        half, done, rest = 0, 1, size
        for factor, group in groupby(factors(size)):
            count = len(list(group))
            self._group(_Group(size, n // size, factor), half, done, rest, count)
            half = (half + count) % 2
            done *= factor**count
            rest //= factor**count
        return self.rows[half]

    def _group(self, g: _Group, half: int, done: int, rest: int, count: int) -> None:
        """Take `count` passes of one factor, the first of them from `half`."""
        write = self._short_pass if g.factor <= LARGEST else self._long_pass
        if count == 1:
            write(g, self.rows[half], self.rows[1 - half], done, rest // g.factor)
            return
        m, b = self.math, self.b
        done_slot, rest_slot = b.allocate(S64), b.allocate(S64)
        b.store(done_slot, 0, m.value(done))
        b.store(rest_slot, 0, m.value(rest))
        with self.body.loop(half, half + count) as number:
            now, left = b.load(done_slot, S64, 0), m.div(b.load(rest_slot, S64, 0), g.factor)
            which = m.rem(number, 2)
            write(g, self._rows_at(which), self._rows_at(m.sub(1, which)), now, left)
            b.store(done_slot, 0, m.value(m.mul(now, g.factor)))
            b.store(rest_slot, 0, m.value(left))

    def _rows_at(self, half: IndexValue) -> _Rows:
        """Return one of the two sets of rows."""
        size = self.row_bytes
        at = self.b.address(self.k.scratch, U8, self.math.mul(half, 2 * size))
        real = pointer_value(at)
        return _Rows(self.v, real, self.b.offset_pointer(real, size))

    def _short_pass(
        self, g: _Group, source: _Rows, target: _Rows, done: IndexValue, rest: IndexValue
    ) -> None:
        """y[j + done (q + factor s)] = w**(q s done) times transform q of x[j + done (s + ...)]."""
        m = self.math
        distance = m.mul(rest, done)
        inputs = [self._at(m.mul(distance, p), 0) for p in range(g.factor)]
        outputs = [self._at(m.mul(done, q), 0) for q in range(g.factor)]
        with self.body.loop(0, rest) as s:
            first = m.mul(s, done)
            step = m.mul(first, g.stride)
            factors = [self._factor(m.mul(step, q)) for q in range(1, g.factor) if rest != 1]
            with self.body.loop(0, done) as j:
                here = source.beginning_at(self._at(m.add(j, first), 0))
                there = target.beginning_at(self._at(m.add(j, m.mul(first, g.factor)), 0))
                found = self.butterflies.transform([here.load(at) for at in inputs])
                for q, w in enumerate(factors, 1):
                    found[q] = self.butterflies.mul(found[q], w)
                for at, value in zip(outputs, found, strict=True):
                    there.store(at, value)

    def _long_pass(
        self, g: _Group, source: _Rows, target: _Rows, done: IndexValue, rest: IndexValue
    ) -> None:
        """The same by its definition, for factors too large to write out."""
        m = self.math
        with self.body.loop(0, rest) as s, self.body.loop(0, g.factor) as q:
            out = m.mul(m.add(q, m.mul(s, g.factor)), done)
            with self.body.loop(0, done) as j:
                zero = self.v.constant(0.0)
                target.store(self._at(m.add(out, j), 0), (zero, zero))
            with self.body.loop(0, g.factor) as p:
                step = m.add(m.mul(s, done), m.mul(p, g.size // g.factor))
                w = self._factor(m.mul(m.rem(m.mul(q, step), g.size), g.stride))
                first = m.mul(m.add(s, m.mul(p, rest)), done)
                with self.body.loop(0, done) as j:
                    term = self.butterflies.mul(source.load(self._at(m.add(first, j), 0)), w)
                    at = self._at(m.add(out, j), 0)
                    target.store(at, self.butterflies.add(target.load(at), term))

    def _joined(self, rows: _Rows, n: int) -> _Rows:
        """Return the first half of the spectrum of real rows whose pairs were transformed.

        With z the transform of x[2i] + i x[2i + 1], and w = exp(-2 pi i / n), it is
        (z[k] + conj z[-k]) / 2 - i w**k (z[k] - conj z[-k]) / 2.
        """
        m, v = self.math, self.v
        target = self.rows[0] if rows is self.rows[1] else self.rows[1]
        half = v.constant(0.5)
        with self.body.loop(0, n // 2 + 1) as at:
            one = rows.load(self._at(m.rem(at, n // 2), 0))
            other = rows.load(self._at(m.rem(m.sub(n // 2, at), n // 2), 0))
            even = v.add(one[0], other[0]), v.sub(one[1], other[1])
            odd = v.sub(one[0], other[0]), v.add(one[1], other[1])
            turned = odd[1], v.neg(odd[0])
            product = self.butterflies.mul(turned, self._factor(at))
            total = self.butterflies.add(even, product)
            target.store(self._at(at, 0), (v.mul(total[0], half), v.mul(total[1], half)))
        return target


EMITTER = Emitter("fft", can_emit, emit, extent, scratch_bytes, repeated_bytes)
