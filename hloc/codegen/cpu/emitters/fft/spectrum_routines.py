"""Routines on the spectra of rows: half spectra of real rows, and products with a table."""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.fft.interleaved_rows import (
    FROM_ROWS,
    ROWS,
    TO_ROWS,
    RowForm,
    RowRoutine,
    row_routine,
)
from hloc.codegen.cpu.emitters.fft.wave_table import TABLE, table_entry
from hloc.codegen.cpu.emitters.routine_writer import argument
from hloc.codegen.kernels.butterflies import Butterflies, Complex
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.routine import Routines
from hloc.dtypes import S64


@cache
def real_spectrum_routine(form: RowForm) -> Routines:
    """Return the routine for the half spectrum of real rows that were transformed as pairs.

    With z the transform of x[2i] + i x[2i + 1], of length `half`, and w = exp(-pi i / half), it is
    (z[k] + conj z[-k]) / 2 - i w**k (z[k] - conj z[-k]) / 2.
    """

    def write(r: RowRoutine) -> None:
        m, v, butterflies = r.m, r.v, Butterflies(r.v, inverse=False)
        half, zero, scale = argument("%half"), Value(S64, "0"), v.constant(0.5)
        with r.body.loop(0, m.add(half, 1)) as at:
            position, back = m.value(at), m.value(m.sub(half, at))
            is_end, is_start = m.compare("EQ", position, half), m.compare("EQ", position, zero)
            one = r.rows("from").load(r.at(r.b.select(is_end, zero, position)))
            other = r.rows("from").load(r.at(r.b.select(is_start, zero, back)))
            even, odd = _even_and_odd(v, one, other)
            turned = odd[1], v.neg(odd[0])
            product = butterflies.mul(turned, table_entry(v, r.table, at))
            total = butterflies.add(even, product)
            r.rows("to").store(r.at(at), (v.mul(total[0], scale), v.mul(total[1], scale)))

    return row_routine(form, "joined", (*FROM_ROWS, *TO_ROWS, *TABLE, "i64 %half"), write)


@cache
def pairs_spectrum_routine(form: RowForm) -> Routines:
    """Return the routine that prepares half spectra of real rows for a transform to pairs.

    With x a half spectrum of `half` + 1 elements, y[k] = conj x[half - k] and w = exp(pi i / half),
    element k becomes x[k] + y[k] + i w**k (x[k] - y[k]): the inverse transform of length `half` of
    these has elements 2j and 2j + 1 of the row as the parts of element j. Imaginary parts of the
    first and last element count as zero.
    """

    def write(r: RowRoutine) -> None:
        m, v, butterflies, rows = r.m, r.v, Butterflies(r.v, inverse=False), r.rows("rows")
        half = argument("%half")
        first, last = rows.load(r.at(0)), rows.load(r.at(half))
        rows.store(r.at(0), (v.add(first[0], last[0]), v.sub(first[0], last[0])))
        with r.body.loop(1, m.add(m.div(half, 2), 1)) as at:
            back = m.sub(half, at)
            one, other = rows.load(r.at(at)), rows.load(r.at(back))
            even, odd = _even_and_odd(v, one, other)
            real, imag = butterflies.mul(odd, table_entry(v, r.table, at))
            rows.store(r.at(at), (v.sub(even[0], imag), v.add(even[1], real)))
            rows.store(r.at(back), (v.add(even[0], imag), v.sub(real, even[1])))

    return row_routine(form, "split", (*ROWS, *TABLE, "i64 %half"), write)


def _even_and_odd(v: Vectors, one: Complex, other: Complex) -> tuple[Complex, Complex]:
    """Return the sum of `one` and the conjugate of `other`, and their difference."""
    even = v.add(one[0], other[0]), v.sub(one[1], other[1])
    odd = v.sub(one[0], other[0]), v.add(one[1], other[1])
    return even, odd


@cache
def multiply_routine(form: RowForm, conjugate: bool) -> Routines:
    """Return the routine that multiplies rows by a table, and conjugates them or not."""
    name = f"turned{'_conjugate' if conjugate else ''}"

    def write(r: RowRoutine) -> None:
        rows, butterflies = r.rows("rows"), Butterflies(r.v, inverse=False)
        with r.body.loop(0, argument("%count")) as i:
            at = r.at(i)
            real, imag = butterflies.mul(rows.load(at), table_entry(r.v, r.table, i))
            rows.store(at, (real, r.v.neg(imag) if conjugate else imag))

    return row_routine(form, name, (*ROWS, *TABLE, "i64 %count"), write)


@cache
def mirror_routine(form: RowForm) -> Routines:
    """Return the routine that completes half spectra of `held` elements: x[i] is conj x[n - i]."""

    def write(r: RowRoutine) -> None:
        n, rows = argument("%n"), r.rows("rows")
        with r.body.loop(argument("%held"), n) as i:
            real, imag = rows.load(r.at(r.m.sub(n, i)))
            rows.store(r.at(i), (real, r.v.neg(imag)))

    parameters = (*ROWS, "i64 %held", "i64 %n")
    return row_routine(form, "mirrored", parameters, write)
