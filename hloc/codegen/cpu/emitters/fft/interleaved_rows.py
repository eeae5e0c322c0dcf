"""Several rows of a Fourier transform at once, of any length, and routines that work on them.

A set of rows is interleaved in memory, one row per lane: element 0 of all rows, then element 1.
Where rows fill the vectors of the machine, real and imaginary parts alternate: a vector of each.
Else real parts are in one array, imaginary parts in another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, routine_unit
from hloc.codegen.kernels.butterflies import Complex
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.routine import FINAL_FORM, Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

FROM_ROWS = ("ptr noalias %from_real", "ptr noalias %from_imag")
TO_ROWS = ("ptr noalias %to_real", "ptr noalias %to_imag")
ROWS = ("ptr %rows_real", "ptr %rows_imag")
"""Parameters of a routine: rows to read, rows to write, and rows that it changes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Interleaved rows: element i of all of them, then element i + 1."""

    v: Vectors
    real: Value
    imag: Value

    def load(self, at: IndexValue) -> Complex:
        return self.v.load(self.real, at), self.v.load(self.imag, at)

    def store(self, at: IndexValue, x: Complex) -> None:
        self.v.store(self.real, at, x[0])
        self.v.store(self.imag, at, x[1])

    def beginning_at(self, at: IndexValue) -> Rows:
        """Return the rows from element `at` on."""
        real, imag = (self.v.b.moved(part, self.v.dtype, at) for part in (self.real, self.imag))
        return Rows(self.v, real, imag)


@dataclass(frozen=True, slots=True)
class RowForm:
    """The form of rows: real numbers of `dtype`, in `lanes` lanes of a machine.

    Attributes:
        alternates: each vector of real parts is followed by that of the imaginary parts. A pass
            then touches a cache line once: passes over lengths that are powers of two load from
            addresses that share a set of the cache, which would lose lines between two touches.
    """

    dtype: DType
    lanes: int
    target: Target
    alternates: bool = False

    @property
    def step(self) -> int:
        """Floats from an element of the rows to the next."""
        return self.lanes * (2 if self.alternates else 1)

    def imaginary_offset(self, part_bytes: int) -> int:
        """Return the bytes from real to imaginary parts; arrays of one have `part_bytes`."""
        return self.lanes * self.dtype.storage_bytes if self.alternates else part_bytes

    def widened(self, count: int) -> RowForm:
        """Return the widest form whose vectors divide `count` consecutive elements of all rows."""
        lanes, most = self.lanes, self.target.vector_bytes // self.dtype.storage_bytes
        while 2 * lanes <= most and self.lanes * count % (2 * lanes) == 0:
            lanes *= 2
        return replace(self, lanes=lanes)


def form_of_rows(dtype: DType, lanes: int, target: Target) -> RowForm:
    """Return the form of `lanes` rows."""
    return RowForm(dtype, lanes, target, lanes * dtype.storage_bytes == target.vector_bytes)


class RowRoutine:
    """One function that is being emitted, with vectors for the rows."""

    def __init__(self, form: RowForm, w: RoutineWriter) -> None:
        self.w, self.form, self.lanes = w, form, form.lanes
        self.m, self.b, self.body = w.math, w.b, w.body
        self.v = Vectors(self.b, form.dtype, form.lanes)
        self.table = pointer_value("%cosines"), pointer_value("%sines")

    def rows(self, name: str) -> Rows:
        return Rows(self.v, *(pointer_value(f"%{name}_{part}") for part in ("real", "imag")))

    def own_rows(self, count: int) -> Rows:
        """Return uninitialised rows of `count` elements, on the stack."""
        floats = self.lanes * count
        real = self.b.allocate(self.v.dtype, 2 * floats)
        offset = self.form.imaginary_offset(floats * self.v.dtype.storage_bytes)
        return Rows(self.v, real, self.b.offset_pointer(real, offset))

    def at(self, i: IndexValue) -> IndexValue:
        """Return the offset of element `i` of the rows."""
        return self.m.mul(i, self.form.step)


def row_routine(
    form: RowForm,
    name: str,
    parameters: tuple[str, ...],
    write: Callable[[RowRoutine], None],
    level: int = FINAL_FORM,
) -> Routines:
    """Return a routine on rows of `form`, whose text is generated on demand."""
    parts = "_alternating" if form.alternates else ""
    full_name = f"fft_{form.dtype.name}_{form.lanes}{parts}_{name}"
    return routine_unit(
        full_name, parameters, lambda w: write(RowRoutine(form, w)), form.target, level
    )
