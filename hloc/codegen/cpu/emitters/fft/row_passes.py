"""The passes that transform rows in scratch memory, from one set of rows to the other and back."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt, pi

import numpy as np

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.fft.factor_pass import pass_routine
from hloc.codegen.cpu.emitters.fft.first_pass import first_pass_routine, has_first_pass
from hloc.codegen.cpu.emitters.fft.interleaved_rows import Rows
from hloc.codegen.cpu.emitters.fft.odd_pass import odd_pass_routine
from hloc.codegen.cpu.emitters.fft.row_calls import RowCalls
from hloc.codegen.cpu.emitters.fft.spectrum_routines import multiply_routine, real_spectrum_routine
from hloc.codegen.cpu.emitters.fft.wave_table import table_entry, table_routine
from hloc.codegen.kernels.butterflies import LARGEST, Butterflies
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.fft_plan import (
    MOST_ODD,
    MOST_TABULATED,
    TABLE_UNIT,
    convolved_length,
    factors,
    is_convolved,
    row_bytes,
    table_bytes,
)
from hloc.dtypes import F64, DType


class RowPasses(RowCalls):
    """Emits transforms of the rows in scratch memory.

    Attributes:
        table: the cosines and sines of `tabulate`.
        all_calls: the passes so far are calls of routines.
    """

    def __init__(self, k: KernelContext) -> None:
        super().__init__(k)
        self.butterflies = Butterflies(self.v, self.inverse)
        self.table: tuple[Value, Value] = self.parts_of(self.rows[0])
        self.all_calls = True

    def at(self, i: IndexValue, lane: IndexValue) -> IndexValue:
        """Return the offset of element `i` of the row in `lane`."""
        return self.math.add(self.math.mul(i, self.form.step), lane)

    def tabulate(self, n: int) -> None:
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

    def passes(self, size: int, n: int) -> Rows:
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
        form = replace(self.form, lanes=lanes)
        pointers = (
            *self.parts_of(self.rows[half]), *self.parts_of(self.rows[1 - half]), *self.table
        )  # fmt: skip
        turn = done * stride
        self.call(
            odd_pass_routine(form), pointers, self.form.step * done, rest, factor, turn, rest * turn
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
        self.clear(self.rows[0], size, length - size)
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
                target.store(self.at(m.add(out, j), 0), (zero, zero))
            with self.body.loop(0, factor) as p:
                step = m.add(m.mul(s, done), m.mul(p, size // factor))
                w = table_entry(self.v, self.table, m.mul(m.rem(m.mul(q, step), size), stride))
                first = m.mul(m.add(s, m.mul(p, rest)), done)
                with self.body.loop(0, done) as j:
                    term = self.butterflies.mul(source.load(self.at(m.add(first, j), 0)), w)
                    at = self.at(m.add(out, j), 0)
                    target.store(at, self.butterflies.add(target.load(at), term))

    def real_spectrum(self, rows: Rows, n: int) -> Rows:
        """Return the half spectrum of real rows that were transformed as complex pairs."""
        target = self.rows[0] if rows is self.rows[1] else self.rows[1]
        pointers = (*self.parts_of(rows), *self.parts_of(target), *self.table)
        self.call(real_spectrum_routine(self.form), pointers, n // 2)
        return target
