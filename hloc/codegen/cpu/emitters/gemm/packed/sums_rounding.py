"""Rounding of sums to the type of a narrow result: bf16 or f16.

    round(sums, out, columns, rows, sums_row_bytes, row_bytes)

Blocks of k add to sums of a panel of rows in scratch memory, so that an element is rounded once.
"""

from __future__ import annotations

from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes, rounded, store_lanes
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, DType

_PARAMETERS = named_parameters("sums", "out", "columns rows sums_row_bytes row_bytes")


@cache
def rounding_routine(result: DType, target: Target) -> Routines:
    """Return the function that rounds rows of f32 sums to `result`."""
    lanes = target.vector_bits // F32.bits

    def write(w: RoutineWriter) -> None:
        with w.body.loop(0, argument("%rows")) as row:
            sums = w.math.moved("%sums", w.math.mul(row, argument("%sums_row_bytes")))
            out = w.math.moved("%out", w.math.mul(row, argument("%row_bytes")))
            with w.body.loop(0, argument("%columns"), lanes) as column:
                _round_vector(w, sums, out, column, lanes, result)

    return routine_unit(f"round_sums_{result.name}", _PARAMETERS, write, target)


def _round_vector(
    w: RoutineWriter, sums: str, out: str, column: IndexValue, lanes: int, result: DType
) -> None:
    """Round the sums of a row from `column` on, as many as a vector has."""
    mask = first_lanes(w, w.math.sub(argument("%columns"), column), lanes)
    at = w.math.moved(sums, w.math.mul(column, F32.storage_bytes))
    to = w.math.moved(out, w.math.mul(column, result.storage_bytes))
    values = load_lanes(w, at, F32, lanes, mask)
    store_lanes(w, to, result, lanes, mask, rounded(w, values, F32, result, lanes))
