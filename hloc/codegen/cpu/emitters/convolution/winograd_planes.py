"""Routines around Winograd convolutions whose arrays have planes: columns are contiguous.

    winograd_from_planes(lhs, to, begin, end, numbers)
    winograd_to_planes(from, out, begin, end, feature, numbers, finish, context)

`winograd_routines` work on vectors of features. So the lines under each row of tiles, and those of
its results, are transposed in the cache: 4 lines of `2 * tiles + 2` columns with their padding, and
2 lines of `2 * tiles` results. `numbers` are those of the whole arrays. `finish`, if not null, is
called for every line of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.convolution.winograd_writer import (
    NUMBERS,
    RESULTS,
    SIZE,
    WINDOW,
    WinogradWriter,
    winograd_routine,
)
from hloc.codegen.cpu.emitters.gemm.packing.packing import transposed
from hloc.codegen.cpu.emitters.routine_writer import argument, named_parameters
from hloc.codegen.cpu.emitters.vector_loads import first_lanes, load_lanes, store_lanes
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32

MARGIN = 16
"""Positions by which lines are read or written beyond their end, in vectors of any machine."""


@cache
def from_planes_routine(target: Target) -> Routines:
    """Return the routine that transposes and pads the lines under some rows of tiles."""
    parameters = (*named_parameters("lhs", "to", "begin end"), NUMBERS)
    return winograd_routine("winograd_from_planes", parameters, _write_from, target)


@cache
def to_planes_routine(target: Target) -> Routines:
    """Return the routine that transposes the results of some rows of tiles, and finishes these."""
    arrays = *named_parameters("from"), "ptr %out", *named_parameters(numbers="begin end feature")
    parameters = (*arrays, NUMBERS, "ptr %finish", "ptr %context")
    return winograd_routine("winograd_to_planes", parameters, _write_to, target)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield both."""
    yield from_planes_routine(target)
    yield to_planes_routine(target)


def _write_from(r: WinogradWriter) -> None:
    """Clear the lines of all tiles (their padding), then transpose the input's lines into them.

    Tiles overlap: of the `SIZE` lines under a row of tiles, the first ones are those of the row
    before, and are not copied again.
    """
    n, math = r.n, r.math
    columns = math.add(math.mul(n["tiles"], RESULTS), WINDOW - 1)
    line_size = math.mul(columns, n["inputs"])
    before, cut = math.maximum(n["low_columns"], 0), math.maximum(math.sub(0, n["low_columns"]), 0)
    count = math.minimum(math.sub(n["lhs_columns"], cut), math.sub(columns, before))
    rows = math.sub(argument("%end"), argument("%begin"))
    lines = math.add(math.mul(math.sub(rows, 1), n["patch_lines"]), SIZE)
    size = math.mul(math.mul(lines, line_size), F32.storage_bytes)
    r.w.b.clear(pointer_value("%to"), math.value(size).text)
    shared = math.sub(SIZE, n["patch_lines"])
    with (
        r.body.loop(0, n["inputs"], r.lanes) as feature,
        r.rows_of_tiles() as (image, row, number),
        r.body.loop(math.mul(math.minimum(number, 1), shared), SIZE) as line,
    ):
        y = math.sub(math.add(math.mul(row, RESULTS), line), n["low_lines"])
        with r.body.when(r.are_inside(y, n["lhs_lines"], 1)):
            start = math.add(math.mul(image, n["lhs_image"]), math.mul(y, n["lhs_line"]))
            start = math.add(math.add(start, cut), math.mul(feature, n["lhs_feature"]))
            place = math.add(math.mul(number, n["patch_lines"]), line)
            place = math.add(math.mul(place, columns), before)
            place = math.add(math.mul(place, n["inputs"]), feature)
            planes = r.address("%lhs", start), n["lhs_feature"]
            _transpose(r, planes, (r.address("%to", place), n["inputs"]), count, to_planes=False)


def _write_to(r: WinogradWriter) -> None:
    n, math, first = r.n, r.math, argument("%feature")
    line_size = math.mul(math.mul(n["tiles"], RESULTS), n["outputs"])
    with r.body.loop(0, n["outputs"], r.lanes) as feature:
        plane = math.mul(math.add(first, feature), n["out_feature"])
        with r.rows_of_tiles() as (image, row, number), r.body.loop(0, r.lines_of(row)) as line:
            start = math.add(r.start("out", image, row), math.mul(line, n["out_line"]))
            place = math.mul(math.add(math.mul(number, RESULTS), line), line_size)
            planes = r.address("%out", math.add(start, plane)), n["out_feature"]
            lines = r.address("%from", math.add(place, feature)), n["outputs"]
            _transpose(r, planes, lines, n["columns"], to_planes=True)
    with r.rows_of_tiles() as (image, row, _):
        start = math.add(r.start("out", image, row), math.mul(first, n["out_feature"]))
        r.finish(start, r.lines_of(row), (n["outputs"], n["columns"]))


_Matrix = tuple[str, IndexValue]
"""Address, and stride of the rows."""


def _transpose(
    r: WinogradWriter, planes: _Matrix, lines: _Matrix, count: IndexValue, *, to_planes: bool
) -> None:
    """Transpose a vector of planes `[feature, count]` to lines `[count, feature]`, or back.

    Squares are transposed in registers. Where the last one reaches beyond the columns, planes are
    neither read nor written, and lines get zeros.
    """
    math, lanes = r.math, r.lanes
    with r.body.loop(0, count, lanes) as column:
        in_planes = r.steps(r.address(planes[0], column), planes[1], lanes)
        place = math.mul(column, lines[1])
        in_lines = r.steps(r.address(lines[0], place), lines[1], lanes)
        inside = first_lanes(r.w, math.sub(count, column), lanes)
        if to_planes:
            values = transposed(r.w, [r.load(at) for at in in_lines], r.kind)
            for at, value in zip(in_planes, values, strict=True):
                store_lanes(r.w, at, F32, lanes, inside, value)
        else:
            found = [load_lanes(r.w, at, F32, lanes, inside) for at in in_planes]
            for at, value in zip(in_lines, transposed(r.w, found, r.kind), strict=True):
                r.store(at, value)
