"""Calls of the routines that load and store the rows of a Fourier transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.fft.column_transfer import columns_in_routine, columns_out_routine
from hloc.codegen.cpu.emitters.fft.interleaved_rows import Rows, form_of_rows
from hloc.codegen.cpu.emitters.fft.row_transfer import (
    gather_routine,
    load_routine,
    scatter_routine,
    store_routine,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.fft_plan import (
    Axis,
    Place,
    complex_dtype,
    is_inverse,
    lane_count,
    part_bytes,
)
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.routine import Routines
from hloc.dtypes import S64, component_of

RowPlace: TypeAlias = Callable[[IndexValue], Place]
"""Returns the place of the row of a lane."""


class RowCalls:
    """Emits calls for some rows at a time, one in each lane.

    Attributes:
        part: the type of real and imaginary parts.
        rows: two sets of rows in scratch memory; loads go to the first.
        starts: the table of row offsets for routines.
        row_dims: the dimensions that tell rows apart, the slowest first.
    """

    def __init__(self, k: KernelContext) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.inverse = is_inverse(k.root)
        self.part = component_of(complex_dtype(k.root))
        self.lanes = lane_count(k.root, k.target.vector_bytes)
        self.form = form_of_rows(self.part, self.lanes, k.target)
        self.v = Vectors(k.b, self.part, self.lanes)
        self.rows = [self._rows(number) for number in range(2)]
        self.starts = k.b.allocate(S64, self.lanes)
        self.row_dims: Sequence[int] = ()

    def _rows(self, number: int) -> Rows:
        """Return one of the sets of rows."""
        part = part_bytes(self.k.root, self.lanes)
        real = self.b.offset_pointer(self.k.scratch, 2 * number * part)
        return Rows(self.v, real, self.b.offset_pointer(real, self.form.imaginary_offset(part)))

    def clear(self, rows: Rows, first: int, count: int) -> None:
        """Write zeros to `count` elements of all rows."""
        size = self.part.storage_bytes
        parts = (rows.real,) if self.form.alternates else (rows.real, rows.imag)
        for part in parts:
            start = self.b.offset_pointer(part, first * self.form.step * size)
            self.b.clear(start, count * self.form.step * size)

    # ---------------------------------------------------------------- rows in vectors

    def has_vectors(self, array: IrArray, axis: int, size: int) -> bool:
        """True if rows of `size` elements are contiguous and long enough."""
        floats = size * (2 if array.dtype.is_complex else 1)
        return (
            component_of(array.dtype) is self.part
            and array.strides[axis] == 1
            and array.dims[axis] == size
            and 1 < self.lanes <= floats
        )

    def vectors_in(self, array: IrArray, place: RowPlace, a: Axis, halves: bool) -> None:
        """Load rows; `halves` reads pairs of real numbers as complex numbers."""
        pairs = halves or array.dtype.is_complex
        self.call(
            load_routine(self.form, pairs),
            (array.pointer, self._starts(array, place), *self.parts_of(self.rows[0])),
            self._floats(array, a.axis),
        )

    def vectors_out(
        self, rows: Rows, target: IrArray, place: RowPlace, along: tuple[int, int], halves: bool
    ) -> None:
        """Write rows along dimension `along[0]`, which has `along[1]` elements.

        `halves` writes complex numbers as pairs of real numbers.
        """
        axis, n = along
        self.call(
            store_routine(self.form, halves or target.dtype.is_complex),
            (*self.parts_of(rows), target.pointer, self._starts(target, place)),
            *(self._floats(target, axis), self._scale(n)),
        )

    # ---------------------------------------------------------------- rows side by side

    def has_columns(self, array: IrArray, axis: int, size: int, others: Sequence[int]) -> bool:
        """True if rows of `size` complex numbers lie side by side, most of them in vectors.

        `others` are the dimensions that tell rows apart, the slowest first.
        """
        if not others or not array.dtype.is_complex or self.lanes < 2:
            return False
        is_beside = array.strides[others[-1]] == 1 and array.dims[others[-1]] >= self.lanes
        return is_beside and self.is_strided(array, axis, size)

    def are_beside(self, array: IrArray, place: RowPlace, width: IndexValue) -> Value:
        """Return whether there is a row for each lane, and none lies apart from the others."""
        m = self.math
        first, last = (m.linear(place(lane)(0), array.strides) for lane in (0, self.lanes - 1))
        is_run = m.compare("EQ", m.sub(last, first), self.lanes - 1)
        return self.b.and_(is_run, m.compare("EQ", width, self.lanes))

    def columns_in(self, array: IrArray, place: RowPlace, axis: int) -> None:
        """Load rows."""
        pointers = self._column(array, place), *self.parts_of(self.rows[0])
        routine = columns_in_routine(self.form)
        self.call(routine, pointers, array.dims[axis], 2 * array.strides[axis])

    def columns_out(
        self, rows: Rows, target: IrArray, place: RowPlace, along: tuple[int, int]
    ) -> None:
        """Write rows along dimension `along[0]`, which has `along[1]` elements."""
        axis, n = along
        pointers = *self.parts_of(rows), self._column(target, place)
        numbers = target.dims[axis], 2 * target.strides[axis], self._scale(n)
        self.call(columns_out_routine(self.form), pointers, *numbers)

    def _column(self, array: IrArray, place: RowPlace) -> Value:
        """Return the pointer to the first row."""
        start = self.math.mul(self.math.linear(place(0)(0), array.strides), 2)
        return self.b.moved(array.pointer, self.part, self.math.value(start))

    # ---------------------------------------------------------------- rows by elements

    def is_strided(self, array: IrArray, axis: int, size: int) -> bool:
        """True if the elements of rows have one stride, and the type of the passes."""
        return component_of(array.dtype) is self.part and array.dims[axis] == size

    def gathered(
        self, array: IrArray, place: RowPlace, axis: int, width: IndexValue, halves: bool
    ) -> None:
        """Load `width` rows; `halves` reads pairs of real numbers as complex numbers."""
        self.call(
            gather_routine(self.form, halves or array.dtype.is_complex),
            (array.pointer, self._starts(array, place), *self.parts_of(self.rows[0])),
            *self._sizes(array, axis, halves, width),
        )

    def scattered(
        self,
        rows: Rows,
        target: IrArray,
        place: RowPlace,
        along: tuple[int, int],
        width: IndexValue,
        halves: bool,
    ) -> None:
        """Write `width` rows; `along` and `halves` as for `vectors_out`."""
        axis, n = along
        sizes = self._sizes(target, axis, halves, width)
        self.call(
            scatter_routine(self.form, halves or target.dtype.is_complex),
            (*self.parts_of(rows), target.pointer, self._starts(target, place)),
            *(*sizes, self._scale(n)),
        )

    @staticmethod
    def _sizes(
        array: IrArray, axis: int, halves: bool, width: IndexValue
    ) -> tuple[IndexValue, ...]:
        """Return `count`, `step`, `second`, `width` of `gather_routine` and `scatter_routine`."""
        count, step = array.dims[axis], array.strides[axis]
        if array.dtype.is_complex:
            return count, 2 * step, 1, width
        return (count // 2, 2 * step, step, width) if halves else (count, step, 0, width)

    def _scale(self, n: int) -> str:
        """Return the factor of the results, as an argument."""
        number = self.b.const(self.part, 1 / n if self.inverse else 1)
        return f"{REPRESENTATIONS[self.part].memory} {number.text}"

    def _starts(self, array: IrArray, place: RowPlace) -> Value:
        """Return the table of row offsets, in floats."""
        m, scale = self.math, 2 if array.dtype.is_complex else 1

        def start(lane: int) -> IndexValue:
            return m.mul(m.linear(place(lane)(0), array.strides), scale)

        first = start(0)
        for lane in range(self.lanes):
            if len(self.row_dims) == 1:
                step = array.strides[self.row_dims[0]] * scale
                at = m.add(first, lane * step)
            else:
                at = start(lane)
            self.b.store(self.starts, lane, m.value(at))
        return self.starts

    @staticmethod
    def _floats(array: IrArray, axis: int) -> int:
        """Return how many floats a row has."""
        return array.dims[axis] * (2 if array.dtype.is_complex else 1)

    @staticmethod
    def parts_of(rows: Rows) -> tuple[Value, Value]:
        return rows.real, rows.imag

    def call(
        self, routine: Routines, pointers: Sequence[Value], *numbers: IndexValue | str
    ) -> None:
        self.k.use(routine)
        self.b.call_routine(routine.name, pointers, *numbers)
