"""The list of the routines of Fourier transforms that are compiled before programs need them."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.codegen.cpu.emitters.fft.column_transfer import columns_in_routine, columns_out_routine
from hloc.codegen.cpu.emitters.fft.factor_pass import pass_routine
from hloc.codegen.cpu.emitters.fft.interleaved_rows import RowForm, form_of_rows
from hloc.codegen.cpu.emitters.fft.odd_pass import odd_pass_routine
from hloc.codegen.cpu.emitters.fft.row_transfer import (
    gather_routine,
    load_routine,
    scatter_routine,
    store_routine,
)
from hloc.codegen.cpu.emitters.fft.spectrum_routines import (
    mirror_routine,
    multiply_routine,
    pairs_spectrum_routine,
    real_spectrum_routine,
)
from hloc.codegen.cpu.emitters.fft.wave_table import table_routine
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64

LISTED_FACTORS = (2, 3, 4, 5, 7, 8, 11, 13)
"""Factors of the lengths that most programs use; all are unrolled."""


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines that most programs use: for one row, for a few, and for whole vectors."""
    for dtype in (F32, F64):
        yield table_routine(dtype, target)
        lanes, widest = 1, target.vector_bytes // dtype.storage_bytes
        while lanes <= widest:
            yield from _listed_for(form_of_rows(dtype, lanes, target))
            lanes *= 2
        yield from _passes(RowForm(dtype, widest, target))  # of fewer rows, widened


def _passes(form: RowForm) -> Iterator[Routines]:
    for inverse in (False, True):
        for factor in LISTED_FACTORS:
            for is_last in (False, True):
                yield pass_routine(form, factor, inverse, is_last)
    yield odd_pass_routine(form)


def _listed_for(form: RowForm) -> Iterator[Routines]:
    yield from _passes(form)
    for pairs in (False, True):
        if form.lanes > 1:
            yield load_routine(form, pairs)
            yield store_routine(form, pairs)
        yield gather_routine(form, pairs)
        yield scatter_routine(form, pairs)
    if form.lanes > 1:
        yield columns_in_routine(form)
        yield columns_out_routine(form)
    for conjugate in (False, True):
        yield multiply_routine(form, conjugate)
    yield real_spectrum_routine(form)
    yield mirror_routine(form)
    yield pairs_spectrum_routine(form)
