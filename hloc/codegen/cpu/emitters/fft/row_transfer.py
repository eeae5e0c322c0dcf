"""Routines that load rows of an array as interleaved rows, and store them.

Rows whose elements are contiguous are transposed a square block of floats at a time; of others
single elements are read and written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.fft.interleaved_rows import (
    FROM_ROWS,
    TO_ROWS,
    RowForm,
    RowRoutine,
    row_routine,
)
from hloc.codegen.cpu.emitters.routine_writer import argument
from hloc.codegen.llvm.routine import Routines


@cache
def load_routine(form: RowForm, pairs: bool) -> Routines:
    """Return the routine that loads rows, a square block of floats at a time.

    Row number i begins at `from` plus entry i of `starts`, and has at least one vector of floats;
    `pairs` are complex numbers, else imaginary parts are zero.
    """
    parameters = ("ptr noalias %from", "ptr %starts", *TO_ROWS, "i64 %floats")

    def write(r: RowRoutine) -> None:
        v, m, rows = r.v, r.m, r.rows("to")
        with _columns(r) as column:
            pointer = r.b.moved(pointer_value("%from"), v.dtype, m.value(column))
            found = v.transposed(
                [v.load(pointer, r.w.offset("%starts", i)) for i in range(r.lanes)]
            )
            first = m.div(column, 2) if pairs else column
            for number, x in enumerate(found):
                if pairs:
                    part = rows.imag if number % 2 else rows.real
                    v.store(part, r.at(m.add(first, number // 2)), x)
                else:
                    rows.store(r.at(m.add(first, number)), (x, v.constant(0.0)))

    return row_routine(form, "pairs_in" if pairs else "in", parameters, write)


@cache
def store_routine(form: RowForm, pairs: bool) -> Routines:
    """Return the routine that stores rows times a number; arguments as for `load_routine`."""
    number_type = REPRESENTATIONS[form.dtype].memory
    parameters = (*FROM_ROWS, "ptr noalias %to", "ptr %starts", "i64 %floats")

    def write(r: RowRoutine) -> None:
        v, m, rows = r.v, r.m, r.rows("from")
        scale = v.splat(Value(form.dtype, "%scale"))
        with _columns(r) as column:
            pointer = r.b.moved(pointer_value("%to"), v.dtype, m.value(column))
            first = m.div(column, 2) if pairs else column
            found = []
            for number in range(r.lanes):
                part = rows.imag if pairs and number % 2 else rows.real
                at = m.add(first, number // 2 if pairs else number)
                found.append(v.mul(v.load(part, r.at(at)), scale))
            for i, x in enumerate(v.transposed(found)):
                v.store(pointer, r.w.offset("%starts", i), x)

    return row_routine(
        form, "pairs_out" if pairs else "out", (*parameters, f"{number_type} %scale"), write
    )


@contextmanager
def _columns(r: RowRoutine) -> Iterator[IndexValue]:
    """Run the region for every vector of floats of the rows; the last two may overlap."""
    floats = argument("%floats")
    with r.body.loop(0, floats, r.lanes) as column:
        yield r.m.minimum(column, r.m.sub(floats, r.lanes))


@cache
def gather_routine(form: RowForm, pairs: bool) -> Routines:
    """Return the routine that loads `width` rows, an element at a time.

    Row number i begins at `from` plus entry i of `starts`, and has `count` elements `step` floats
    apart. With `pairs`, imaginary parts are `second` floats after real ones, else they are zero.
    """
    sizes = ("i64 %count", "i64 %step", "i64 %second", "i64 %width")

    def write(r: RowRoutine) -> None:
        rows, source = r.rows("to"), pointer_value("%from")
        with _elements(r) as (at, place):
            real = r.b.load(source, form.dtype, at)
            imag = r.b.const(form.dtype, 0)
            if pairs:
                imag = r.b.load(source, form.dtype, r.m.value(r.m.add(at, argument("%second"))))
            r.b.store(rows.real, place, real)
            r.b.store(rows.imag, place, imag)

    parameters = ("ptr noalias %from", "ptr %starts", *TO_ROWS, *sizes)
    return row_routine(form, "pairs_gathered" if pairs else "gathered", parameters, write)


@cache
def scatter_routine(form: RowForm, pairs: bool) -> Routines:
    """Return the routine that stores rows times a number; arguments as for `gather_routine`."""
    number_type = REPRESENTATIONS[form.dtype].memory
    sizes = ("i64 %count", "i64 %step", "i64 %second", "i64 %width")

    def write(r: RowRoutine) -> None:
        rows, target = r.rows("from"), pointer_value("%to")
        scale = Value(form.dtype, "%scale")
        with _elements(r) as (at, place):
            real = r.b.load(rows.real, form.dtype, place)
            r.b.store(target, at, r.b.fmul(real, scale))
            if pairs:
                imag = r.b.load(rows.imag, form.dtype, place)
                second = r.m.value(r.m.add(at, argument("%second")))
                r.b.store(target, second, r.b.fmul(imag, scale))

    parameters = (*FROM_ROWS, "ptr noalias %to", "ptr %starts", *sizes, f"{number_type} %scale")
    return row_routine(form, "pairs_scattered" if pairs else "scattered", parameters, write)


@contextmanager
def _elements(r: RowRoutine) -> Iterator[tuple[Value, Value]]:
    """Run the region for every element of `width` rows; yields its offset in the array and here."""
    m = r.m
    with r.body.loop(0, argument("%count")) as i, r.body.loop(0, argument("%width")) as lane:
        start = r.w.offset("%starts", lane)
        place = m.add(r.at(i), lane)
        yield m.value(m.add(start, m.mul(i, argument("%step")))), m.value(place)
