"""Fourier transforms of the last one to three dimensions, along each of them in turn.

Several rows are transformed at once, one per lane of a vector: they are interleaved in scratch
memory, with real and imaginary parts in separate arrays, and run through Stockham's passes, one per
factor of the length. A real row of even length is transformed as a complex row of half the length,
from and to its spectrum.
Lengths with a prime factor above 255 are computed as convolutions by transforms of smoother lengths
(Bluestein); the longest of them, whose passes would be quadratic, are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import isqrt, pi, prod

import numpy as np

from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.fft.factor_pass import pass_routine
from hloc.codegen.cpu.emitters.fft.first_pass import first_pass_routine, has_first_pass
from hloc.codegen.cpu.emitters.fft.interleaved_rows import RowForm, Rows
from hloc.codegen.cpu.emitters.fft.odd_pass import odd_pass_routine
from hloc.codegen.cpu.emitters.fft.row_calls import RowCalls, RowPlace
from hloc.codegen.cpu.emitters.fft.spectrum_routines import (
    mirror_routine,
    multiply_routine,
    pairs_spectrum_routine,
    real_spectrum_routine,
)
from hloc.codegen.cpu.emitters.fft.wave_table import table_entry, table_routine
from hloc.codegen.kernels.butterflies import LARGEST, Butterflies
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.fft_plan import (
    MOST_ODD,
    MOST_TABULATED,
    TABLE_UNIT,
    Axis,
    Place,
    axes_of,
    complex_dtype,
    convolved_length,
    factors,
    is_convolved,
    is_transform,
    lane_count,
    needs_spectrum,
    row_bytes,
    row_element,
    table_bytes,
    write_element,
)
from hloc.codegen.llvm.routine import FINAL_FORM
from hloc.dtypes import F64, DType
from hloc.ir.instruction import Instruction

_PIECE = 16
"""Rows that one thread transforms at a time: a multiple of the lanes of every machine."""

_BLOCK = 16
"""Elements of a row that are loaded or stored before those of the next row."""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a transform: scratch memory for two sets of rows, a table, perhaps a spectrum.

    Threads share the rows unless more than one dimension is transformed; every part computes the
    table.
    """
    if not is_transform(inst):
        return None
    root = root_of(inst)
    operand, table = root.operands[0].array, table_bytes(root)
    scratch = row_bytes(root, lane_count(root)) + table
    if needs_spectrum(root):
        scratch += operand.elements * complex_dtype(root).storage_bytes
    if operand.elements == 0:
        return KernelPlan(_emit_zeros, 1, scratch, table)
    pieces = 1
    if len(root.attributes.fft_length) == 1 and root.array.elements:
        pieces = -(-operand.elements // operand.dims[-1] // _PIECE)
    return KernelPlan(partial(_emit, pieces > 1), pieces, scratch, table)


def _emit_zeros(k: KernelContext) -> None:
    """Write zeros, the transforms of empty rows."""
    zero = k.b.const_element(k.output.dtype, k.output.dtype.numpy.type(0))
    with k.body.nest(k.output.dims, range(len(k.output.dims))) as at:
        k.output.store(k.math, tuple(at), zero)


def _emit(is_shared: bool, k: KernelContext) -> None:
    """Transform one dimension after another; threads may share the rows of the only one."""
    writer = _Writer(k, is_shared)
    operand = k.root.operands[0]
    arrays: dict[str, Instruction | IrArray] = {"operand": operand, "result": k.output}
    if needs_spectrum(k.root):
        offset = row_bytes(k.root, writer.lanes) + table_bytes(k.root)
        arrays["spectrum"] = k.scratch_array(offset, writer.dtype, operand.array.dims)
    for axis in axes_of(k.root):
        target = arrays[axis.target]
        assert isinstance(target, IrArray)
        writer.along(axis, arrays[axis.source], target)
    if writer.all_vectors:
        k.level = 0 if writer.all_calls else FINAL_FORM


class _Writer(RowCalls):
    """Writes the passes.

    Attributes:
        all_vectors: the code so far has nothing that LLVM should vectorise.
        all_calls: nor loops outside of routines.
    """

    def __init__(self, k: KernelContext, is_shared: bool) -> None:
        super().__init__(k)
        self.dtype, self.is_shared = complex_dtype(k.root), is_shared
        self.butterflies = Butterflies(self.v, self.inverse)
        self.table: tuple[Value, Value] = self.parts_of(self.rows[0])
        self.all_vectors = True
        self.all_calls = True

    def along(self, a: Axis, source: Instruction | IrArray, target: IrArray) -> None:
        """Transform all rows of one dimension; elements outside `target` are not written."""
        dims, axis, n = a.dims, a.axis, a.n
        shape = source.array if isinstance(source, Instruction) else None
        order = loop_order(shape) if shape else [d for d in range(len(dims)) if dims[d] != 1]
        others = [d for d in order if d != axis]
        sizes = [dims[d] for d in others]
        halves = isinstance(source, Instruction) and not source.array.dtype.is_complex
        halves = halves and n % 2 == 0
        array = source if isinstance(source, IrArray) else self.k.plain_array(source)
        joins = array is not None and self._joins(array, target, axis, n)
        if halves or joins or not is_convolved(n):
            self._tabulate(n)
        in_place = array is source or any(a is not None for a in self.k.aliased)
        count = prod(sizes)
        # Some rows are transformed twice rather than fewer at a time.
        whole = count % self.lanes == 0 or (count >= self.lanes and not in_place)
        held = dims[axis]
        vectors_in = whole and array is not None and self.has_vectors(array, axis, held)
        vectors_out = whole and self.has_vectors(target, axis, target.dims[axis])
        strided_in = array is not None and self.is_strided(array, axis, held)
        strided_out = self.is_strided(target, axis, target.dims[axis])
        by_routines = (vectors_in or strided_in) and (vectors_out or strided_out)
        self.all_vectors = self.all_vectors and by_routines
        rows: tuple[IndexValue, IndexValue] = (0, count)
        if self.is_shared:
            m = self.math
            rows = m.mul(self.k.begin, _PIECE), m.minimum(m.mul(self.k.end, _PIECE), count)
        with self.body.loop(*rows, self.lanes) as first:
            width: IndexValue = self.lanes
            if not whole:
                width = self.math.minimum(self.lanes, self.math.sub(count, first))
            elif count % self.lanes:
                first = self.math.minimum(first, count - self.lanes)

            def place(lane: IndexValue) -> Place:
                return partial(self._index, a, others, self.math.add(first, lane))

            size = n // 2 if halves or joins else n
            in_order = not order or order[-1] == axis
            if vectors_in and array is not None:
                self.vectors_in(array, place, a, halves)
            elif strided_in and array is not None:
                self.gathered(array, place, axis, width, halves)
            else:
                with self._elements(size, width, in_order) as (i, lane):
                    self._load_element(source, place, a, i, lane, halves)
            if joins:
                pointers = (*self.parts_of(self.rows[0]), *self.table)
                self.call(pairs_spectrum_routine(self.form), pointers, size)
            elif held < n and (vectors_in or strided_in):
                self.call(mirror_routine(self.form), self.parts_of(self.rows[0]), held, n)
            done = self._passes(size, n)
            if halves:
                done = self._real_spectrum(done, n)
            if vectors_out:
                self.vectors_out(done, target, place, (axis, n), joins)
            elif strided_out:
                self.scattered(done, target, place, (axis, n), width, joins)
            else:
                with self._elements(target.dims[axis], width, in_order) as (i, lane):
                    self._write(done, target, place, n, i, lane)

    def _joins(self, array: IrArray, target: IrArray, axis: int, n: int) -> bool:
        """True if a real row of length n is the result of a transform of half the length."""
        is_even = not target.dtype.is_complex and n % 2 == 0
        return (
            is_even
            and self.is_strided(array, axis, n // 2 + 1)
            and self.is_strided(target, axis, n)
        )

    def _index(self, a: Axis, others: Sequence[int], row: IndexValue, i: IndexValue) -> Index:
        """Return the index of element i of a row along the dimensions `others`."""
        index = self.math.along(row, a.dims, others)
        index[a.axis] = i
        return tuple(index)

    # ---------------------------------------------------------------- rows in and out

    @contextmanager
    def _elements(
        self, size: int, width: IndexValue, in_order: bool
    ) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Run the region for every element of the rows; `in_order` if rows are contiguous."""
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

    def _load_element(
        self,
        source: Instruction | IrArray,
        place: RowPlace,
        a: Axis,
        i: IndexValue,
        lane: IndexValue,
        halves: bool,
    ) -> None:
        """Store element i of a row, or elements 2i and 2i + 1 as one complex number."""
        b, m, rows = self.b, self.math, self.rows[0]
        if halves:
            at = m.mul(i, 2)
            real = row_element(self.k, a, source, place(lane), at)
            imag = row_element(self.k, a, source, place(lane), m.add(at, 1))
            real, imag = b.real(real), b.real(imag)
        else:
            value = row_element(self.k, a, source, place(lane), i)
            real, imag = b.real(value), b.imag(value)
        b.store(rows.real, m.value(self._at(i, lane)), real)
        b.store(rows.imag, m.value(self._at(i, lane)), imag)

    def _write(
        self, rows: Rows, target: IrArray, place: RowPlace, n: int, i: IndexValue, lane: IndexValue
    ) -> None:
        """Write element i of a row to the result."""
        b, at = self.b, self.math.value(self._at(i, lane))
        value = b.complex(b.load(rows.real, self.part, at), b.load(rows.imag, self.part, at))
        write_element(self.k, n, target, place(lane), i, value)

    # ---------------------------------------------------------------- passes

    def _tabulate(self, n: int) -> None:
        """Compute the table of exp(-2 pi i t / n), or its conjugate for inverses."""
        if n <= MOST_TABULATED:
            angles = np.arange(n) * (2 * pi / n)
            sine = np.sin(angles) if self.inverse else -np.sin(angles)
            self.table = (
                self._constants(np.cos(angles), self.part),
                self._constants(sine, self.part),
            )
            return
        offset, size = row_bytes(self.k.root, self.lanes), table_bytes(self.k.root) // 2
        self.table = (
            self.b.offset_pointer(self.k.scratch, offset),
            self.b.offset_pointer(self.k.scratch, offset + size),
        )
        block = TABLE_UNIT * -(-isqrt(n) // TABLE_UNIT)
        count = TABLE_UNIT * -(-n // TABLE_UNIT)
        turn = (2j if self.inverse else -2j) * pi / n
        waves = [np.exp(turn * np.arange(0, *step)) for step in ((count, block), (block, 1))]
        parts = [self._constants(part, F64) for wave in waves for part in (wave.real, wave.imag)]
        routine = table_routine(self.part, self.k.target)
        self.call(routine, (*self.table, *parts), count, block, -(-count // block))

    def _constants(
        self, values: np.ndarray[tuple[int], np.dtype[np.float64]], dtype: DType
    ) -> Value:
        return pointer_value(self.b.fn.byte_constant(values.astype(dtype.numpy).tobytes()))

    def _passes(self, size: int, n: int) -> Rows:
        """Transform the first rows, of length `size`; return those that hold the result.

        The table is that of `n`, a multiple of `size`.
        """
        if is_convolved(size):
            return self._convolved(size)
        half, done, rest = 0, 1, size
        for factor in factors(size):
            rest //= factor
            source, target = self.rows[half], self.rows[1 - half]
            if LARGEST < factor <= MOST_ODD:
                self._odd_pass(factor, half, (done, rest), n // size)
            elif factor > LARGEST:
                self._long_pass(size, n // size, factor, (source, target), (done, rest))
            else:
                self._pass(factor, self.inverse, half, (done, rest), self.table, n // size)
            half, done = 1 - half, done * factor
        return self.rows[half]

    def _pass(
        self,
        factor: int,
        inverse: bool,
        half: int,
        steps: tuple[int, int],
        table: tuple[Value, Value],
        stride: int,
    ) -> None:
        """Call a pass from rows number `half`; see `pass_routine`.

        The results of earlier passes are contiguous in every row: with few rows, vectors hold
        several of them.
        """
        machine, (done, rest) = self.k.target, steps
        pointers = (*self.parts_of(self.rows[half]), *self.parts_of(self.rows[1 - half]), *table)
        if self.lanes == done == 1 and has_first_pass(self.part, factor, rest, machine):
            routine = first_pass_routine(self.part, factor, inverse, machine)
            self.call(routine, pointers, rest, stride)
            return
        form = self.form.widened(done)
        together = form.lanes // self.lanes
        self.call(
            pass_routine(form, factor, inverse, rest == 1),
            pointers,
            *(done // together, rest, stride * together),
        )

    def _odd_pass(self, factor: int, half: int, steps: tuple[int, int], stride: int) -> None:
        """Call a pass of an odd factor from rows number `half`, with vectors as wide as they fit.

        `stride` is that of `_long_pass`.
        """
        done, rest = steps
        widest = self.k.target.vector_bytes // self.part.storage_bytes
        lanes = min(widest, 1 << (self.lanes * done).bit_length() - 1)
        form = RowForm(self.part, lanes, self.k.target)
        pointers = (
            *self.parts_of(self.rows[half]), *self.parts_of(self.rows[1 - half]), *self.table
        )  # fmt: skip
        turn = done * stride
        self.call(
            odd_pass_routine(form), pointers, self.lanes * done, rest, factor, turn, rest * turn
        )

    def _convolved(self, size: int) -> Rows:
        """Transform rows as a convolution, by two transforms of a smoother length.

        With c[k] = exp(-pi i k**2 / size), X[k] is c[k] times the sum of all x[j] c[j] conj c[k-j].
        The second transform is that of conjugates, so that both have the same passes.
        """
        length = convolved_length(size)
        squares = np.arange(size) ** 2 % (2 * size)
        chirp = np.exp((1j if self.inverse else -1j) * pi / size * squares)
        around = np.zeros(length, np.complex128)
        around[:size] = chirp.conj()
        around[length - size + 1 :] = chirp.conj()[:0:-1]
        waves = self._table(np.exp(-2j * pi / length * np.arange(length)))
        self._multiply(0, self._table(chirp), size, conjugate=False)
        for part in self.parts_of(self.rows[0]):
            start = self.b.offset_pointer(part, size * self.lanes * self.part.storage_bytes)
            self.b.clear(start, (length - size) * self.lanes * self.part.storage_bytes)
        half = self._smooth_transform(0, length, waves)
        self._multiply(half, self._table(np.fft.fft(around)), length, conjugate=True)
        half = self._smooth_transform(half, length, waves)
        self._multiply(half, self._table(chirp.conj() / length), size, conjugate=True)
        return self.rows[half]

    def _smooth_transform(self, half: int, length: int, waves: tuple[Value, Value]) -> int:
        """Transform rows number `half`, of smooth length; return the number of the results."""
        done, rest = 1, length
        for factor in factors(length):
            rest //= factor
            self._pass(factor, False, half, (done, rest), waves, 1)
            half, done = 1 - half, done * factor
        return half

    def _multiply(
        self, half: int, table: tuple[Value, Value], count: int, *, conjugate: bool
    ) -> None:
        """Multiply elements of rows number `half` by those of a table, and conjugate them."""
        routine = multiply_routine(self.form, conjugate)
        self.call(routine, (*self.parts_of(self.rows[half]), *table), count)

    def _table(
        self, values: np.ndarray[tuple[int], np.dtype[np.complex128]]
    ) -> tuple[Value, Value]:
        return self._constants(values.real, self.part), self._constants(values.imag, self.part)

    def _long_pass(
        self, size: int, stride: int, factor: int, rows: tuple[Rows, Rows], steps: tuple[int, int]
    ) -> None:
        """Emit a pass by its definition, for factors too large to unroll.

        Args:
            size: length of the transform.
            stride: length of the table divided by `size`.
            factor: that of the pass.
            rows: source and target.
            steps: products of the factors of the passes before and after.
        """
        (source, target), (done, rest) = rows, steps
        self.all_calls = False
        m = self.math
        with self.body.loop(0, rest) as s, self.body.loop(0, factor) as q:
            out = m.mul(m.add(q, m.mul(s, factor)), done)
            with self.body.loop(0, done) as j:
                zero = self.v.constant(0.0)
                target.store(self._at(m.add(out, j), 0), (zero, zero))
            with self.body.loop(0, factor) as p:
                step = m.add(m.mul(s, done), m.mul(p, size // factor))
                w = table_entry(self.v, self.table, m.mul(m.rem(m.mul(q, step), size), stride))
                first = m.mul(m.add(s, m.mul(p, rest)), done)
                with self.body.loop(0, done) as j:
                    term = self.butterflies.mul(source.load(self._at(m.add(first, j), 0)), w)
                    at = self._at(m.add(out, j), 0)
                    target.store(at, self.butterflies.add(target.load(at), term))

    def _real_spectrum(self, rows: Rows, n: int) -> Rows:
        """Return the half spectrum of real rows that were transformed as complex pairs."""
        target = self.rows[0] if rows is self.rows[1] else self.rows[1]
        pointers = (*self.parts_of(rows), *self.parts_of(target), *self.table)
        self.call(real_spectrum_routine(self.form), pointers, n // 2)
        return target


EMITTER = Emitter("fft", plan, roots=("fft",))
