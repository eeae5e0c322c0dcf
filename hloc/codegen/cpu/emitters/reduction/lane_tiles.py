"""Routines that move short rows into tiles and back; in a tile each lane of a vector has a row.

A tile has a vector per column. Whole vectors of rows are loaded, transposed in registers and
stored, a square at a time; the last square overlaps the one before. Loads and stores of single
elements take as long to run, but are a third of the code of a softmax: without them, its kernel and
those of norms compile in 0.8 of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.gemm.packing.packing import transposed
from hloc.codegen.cpu.emitters.routine_writer import (
    RoutineWriter,
    argument,
    named_parameters,
    routine_unit,
)
from hloc.codegen.cpu.emitters.vector_loads import load_lanes, store_lanes, vector_type
from hloc.codegen.kernels.lanes import has_masks
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32

_PARAMETERS = named_parameters("from", "to", "size")


def tile_lanes(target: Target) -> int:
    """Return the number of rows that the routines move at a time."""
    return target.vector_bits // F32.bits


def rows_to_tile(target: Target) -> Routines:
    """Return the routine `(from, to, size)` that fills a tile with rows of `size` f32.

    There are as many rows as lanes, one after another, of at least as many elements.
    """
    return _routine("rows_to_tile", target, _row, _column)


def tile_to_rows(target: Target) -> Routines:
    """Return the routine `(from, to, size)` that writes the rows of a tile, as `rows_to_tile`."""
    return _routine("tile_to_rows", target, _column, _row)


_Place = Callable[[RoutineWriter, int, IndexValue], IndexValue]


def _routine(name: str, target: Target, source: _Place, result: _Place) -> Routines:
    lanes = tile_lanes(target)

    def write(w: RoutineWriter) -> None:
        size, kind = argument("%size"), vector_type(F32, lanes)

        def at(pointer: str, place: IndexValue) -> str:
            return w.b.address(pointer_value(pointer), F32, w.math.value(place))

        with w.body.loop(0, size, lanes) as column:
            first = w.math.minimum(column, w.math.sub(size, lanes))
            places = [at("%from", source(w, i, first)) for i in range(lanes)]
            lines = [load_lanes(w, place, F32, lanes, "") for place in places]
            for i, line in enumerate(transposed(w, lines, kind)):
                store_lanes(w, at("%to", result(w, i, first)), F32, lanes, "", line)

    return routine_unit(f"{name}_f32_{lanes}", _PARAMETERS, write, target, lanes=lanes)


def _row(w: RoutineWriter, number: int, column: IndexValue) -> IndexValue:
    """Return the place of `column` in row `number`."""
    return w.math.add(w.math.mul(argument("%size"), number), column)


def _column(w: RoutineWriter, number: int, column: IndexValue) -> IndexValue:
    """Return the place in a tile of the vector `number` columns after `column`."""
    return w.math.mul(w.math.add(column, number), w.b.lanes)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield those for machines on which rows are computed side by side."""
    if target.triple.startswith("x86_64") and tile_lanes(target) == 8 and not has_masks(target):
        yield rows_to_tile(target)
        yield tile_to_rows(target)
