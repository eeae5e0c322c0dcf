"""The routine of products of many matrices of 2x2 or 4x4, several of which may share a vector.

    square_gemm(lhs, rhs, out, batches)

All matrices of a side follow each other in memory. A vector of results holds some matrices, or half
of one; for each step of k the factors are lanes of one or two vectors that were loaded as they lie.
There are at least as many batches as matrices in a vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import load_lanes, store_lanes, vector_type
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, DType
from hloc.lazy_dataclass import dataclass

SIZES = (2, 4)
"""Rows of a matrix: with these, vectors hold whole rows or matrices.

Time relative to a matrix in each lane, f32, AVX2: 0.16 to 0.76 for 50,000 to 300 of 2x2, 0.36 to
0.78 for those of 4x4.
"""

_PARAMETERS = named_parameters("lhs rhs", "out", "batches")


@dataclass(frozen=True, slots=True)
class SquareForm:
    """What of the matrices is in the code; each is stored by rows, or by columns."""

    dtype: DType
    size: int
    lhs_by_rows: bool = True
    rhs_by_rows: bool = True
    out_by_rows: bool = True

    @property
    def name(self) -> str:
        """The name of the routine."""
        orders = (self.lhs_by_rows, self.rhs_by_rows, self.out_by_rows)
        return f"square_gemm_{self.dtype.name}_{self.size}_{''.join('cr'[x] for x in orders)}"


@cache
def square_gemm_routine(form: SquareForm, target: Target) -> Routines:
    """Return the function for one form."""
    write = _Writer(form, target).write
    return routine_unit(form.name, _PARAMETERS, write, target)


def shares_vectors(dtype: DType, size: int, target: Target) -> bool:
    """True if vectors of the machine hold more than one whole row of such a matrix."""
    return size in SIZES and size < target.vector_bits // dtype.bits


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines of results that are stored by rows."""
    for dtype, size, *orders in product((F32, F64), SIZES, (True, False), (True, False)):
        if shares_vectors(dtype, size, target):
            yield square_gemm_routine(SquareForm(dtype, size, *orders), target)


class _Writer:
    """Writes the routine."""

    def __init__(self, form: SquareForm, target: Target) -> None:
        self.form, self.elements = form, form.size * form.size
        self.lanes = target.vector_bits // form.dtype.bits
        self.kind = vector_type(form.dtype, self.lanes)

    def write(self, w: RoutineWriter) -> None:
        """Write the loop over vectors of batches; the last one overlaps the one before."""
        batches, together = argument("%batches"), max(self.lanes // self.elements, 1)
        with w.body.loop(0, batches, together) as first:
            first = w.math.minimum(first, w.math.sub(batches, together))
            lhs, rhs = (self._loaded(w, side, first) for side in ("%lhs", "%rhs"))
            for number in range(len(lhs)):
                total = "zeroinitializer"
                for step in range(self.form.size):
                    left, right = self._factors(number, step)
                    x, y = self._chosen(w, lhs, left), self._chosen(w, rhs, right)
                    factors = w.fn.value(f"fmul contract {self.kind} {x}, {y}")
                    total = w.fn.value(f"fadd contract {self.kind} {total}, {factors}")
                at = self._place(w, "%out", first, number)
                store_lanes(w, at, self.form.dtype, self.lanes, "", total)

    def _loaded(self, w: RoutineWriter, side: str, first: IndexValue) -> list[str]:
        """Return vectors of the matrices that are multiplied together."""
        numbers = range(max(self.elements // self.lanes, 1))
        places = (self._place(w, side, first, number) for number in numbers)
        return [load_lanes(w, at, self.form.dtype, self.lanes, "") for at in places]

    def _place(self, w: RoutineWriter, side: str, first: IndexValue, number: int) -> str:
        element = w.math.add(w.math.mul(first, self.elements), number * self.lanes)
        return w.math.moved(side, w.math.mul(element, self.form.dtype.storage_bytes))

    def _factors(self, number: int, step: int) -> tuple[list[int], list[int]]:
        """Return where both factors of each lane lie among the elements that are loaded."""
        form, size, left, right = self.form, self.form.size, [], []
        for element in range(number * self.lanes, (number + 1) * self.lanes):
            matrix, place = divmod(element, self.elements)
            row, column = divmod(place, size) if form.out_by_rows else divmod(place, size)[::-1]
            x = row * size + step if form.lhs_by_rows else step * size + row
            y = step * size + column if form.rhs_by_rows else column * size + step
            left.append(matrix * self.elements + x)
            right.append(matrix * self.elements + y)
        return left, right

    def _chosen(self, w: RoutineWriter, vectors: list[str], places: list[int]) -> str:
        """Return a vector of the elements at `places` of one or two vectors."""
        first, second = (*vectors, "poison")[:2]
        mask = ", ".join(f"i32 {place}" for place in places)
        return w.fn.value(
            f"shufflevector {self.kind} {first}, {self.kind} {second}, "
            f"<{self.lanes} x i32> <{mask}>"
        )
