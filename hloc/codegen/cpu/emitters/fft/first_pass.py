"""The first pass of one row of a Fourier transform: consecutive elements fill the vectors.

Later passes find results of earlier ones in contiguous memory (`RowForm.widened`). The first pass
computes consecutive elements, whose results are `factor` apart, and transposes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.fft.interleaved_rows import FROM_ROWS, TO_ROWS, Rows
from hloc.codegen.cpu.emitters.fft.wave_table import TABLE
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.kernels.butterflies import Butterflies, Complex
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, DType

_FACTORS = (4, 8)


def has_first_pass(dtype: DType, factor: int, rest: int, target: Target) -> bool:
    """True if `first_pass_routine` supports the first pass of a row of `factor * rest` elements."""
    return factor in _FACTORS and rest >= _lanes(dtype, factor, target)


def _lanes(dtype: DType, factor: int, target: Target) -> int:
    return min(factor, target.vector_bytes // dtype.storage_bytes)


@cache
def first_pass_routine(dtype: DType, factor: int, inverse: bool, target: Target) -> Routines:
    """Return the first `pass_routine` of one row; it computes the same sums."""
    lanes = _lanes(dtype, factor, target)

    def write(w: RoutineWriter) -> None:
        """Transform `lanes` consecutive elements at once; transpose, so stores are contiguous."""
        m, v = w.math, Vectors(w.b, dtype, lanes)
        butterflies, rest = Butterflies(v, inverse), argument("%rest")
        source, result = (
            Rows(v, *(pointer_value(f"%{name}_{part}") for part in ("real", "imag")))
            for name in ("from", "to")
        )
        with w.body.loop(0, rest, lanes) as block:
            first = m.minimum(block, m.sub(rest, lanes))  # some are transformed twice
            found = butterflies.transform(
                [source.load(m.add(first, m.mul(rest, p))) for p in range(factor)]
            )
            steps = [m.mul(m.add(first, i), argument("%stride")) for i in range(lanes)]
            for q in range(1, factor):
                wave = _entries(w, v, [m.mul(step, q) for step in steps])
                found[q] = butterflies.mul(found[q], wave)
            for low in range(0, factor, lanes):
                group = found[low : low + lanes]
                real, imag = (v.transposed([x[part] for x in group]) for part in (0, 1))
                for i, x in enumerate(zip(real, imag, strict=True)):
                    result.store(m.add(m.mul(m.add(first, i), factor), low), x)

    name = f"fft_{dtype.name}_first_{factor}{'_inverse' if inverse else ''}"
    return routine_unit(
        name, (*FROM_ROWS, *TO_ROWS, *TABLE, "i64 %rest", "i64 %stride"), write, target
    )


def _entries(w: RoutineWriter, v: Vectors, places: list[IndexValue]) -> Complex:
    """Return entries of the table of cosines and sines, one for each lane."""
    cosines, sines = (
        v.packed([w.b.load(table, v.dtype, w.math.value(at)) for at in places])
        for table in (pointer_value("%cosines"), pointer_value("%sines"))
    )
    return cosines, sines


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield all such routines."""
    for dtype in (F32, F64):
        for factor in _FACTORS:
            for inverse in (False, True):
                yield first_pass_routine(dtype, factor, inverse, target)
