"""Copies of matrices between arrays and working memory, where each lane holds one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hloc.codegen.builder.lane_gather import gather, scatter
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import LaneIndex, Lanes, Value
from hloc.codegen.kernels.linalg.work import Matrix, Work
from hloc.dtypes import S64, DType
from hloc.lazy_dataclass import dataclass

_FEW_ROWS = 8
"""Rows up to which all lanes are copied at once: a loop over a column's elements is too short.

Else lanes are copied one after another, column by column: matrices of 4 KiB are in one set of the
cache, and a scatter takes longer than as many stores. Cholesky of 32x32 takes half the time so.
"""


@dataclass(frozen=True, slots=True)
class Strided:
    """The matrices of an operand or result; strides count elements and may be negative."""

    pointer: Value
    dtype: DType
    batch: IndexValue
    row: IndexValue
    column: IndexValue


def read(
    work: Work,
    source: Strided,
    target: Matrix,
    columns: IndexValue,
    first: IndexValue,
    end: IndexValue,
) -> None:
    """Copy operands into a region; lanes beyond the last matrix get the last one."""
    b, m = work.b, work.math
    if not work.lanes:
        for i, j, place in _strided_elements(work, source, first, target, columns, reads=True):
            target.store(i, j, b.load(place, source.dtype, 0))
        return
    last = m.value(m.sub(end, 1))
    with work.body.when(m.compare("LE", target.rows, _FEW_ROWS)):
        position = b.intrinsic("smin", LaneIndex(S64, m.value(first).text), last)
        offsets = _offsets(work, source, first, position)
        with work.loop(0, columns) as j, work.loop(0, target.rows) as i:
            pointer = _element(work, source, first, i, j)
            target.store(i, j, gather(work.vectors, pointer, source.dtype, offsets))
    with _long_columns(work, target, columns, work.width) as (j, lane):
        matrix = b.intrinsic("smin", m.value(m.add(first, lane)), last)
        with work.loop(0, target.rows) as i:
            value = b.load(_element(work, source, matrix, i, j), source.dtype, 0)
            b.store(target.pointer, m.add(target.place(i, j), lane), value)


def write(
    work: Work,
    source: Matrix,
    target: Strided,
    columns: IndexValue,
    first: IndexValue,
    end: IndexValue,
) -> None:
    """Copy a region into results."""
    b, m = work.b, work.math
    if not work.lanes:
        for i, j, place in _strided_elements(work, target, first, source, columns, reads=False):
            b.store(place, 0, source.load(i, j))
        return
    with work.body.when(m.compare("LE", source.rows, _FEW_ROWS)):
        position = LaneIndex(S64, m.value(first).text)
        is_there = b.compare("LT", position, m.value(end))
        offsets = _offsets(work, target, first, position)
        with work.loop(0, columns) as j, work.loop(0, source.rows) as i:
            pointer = _element(work, target, first, i, j)
            scatter(work.vectors, pointer, source.load(i, j), offsets, is_there)
    count = b.intrinsic("smin", m.value(work.width), m.value(m.sub(end, first)))
    with _long_columns(work, source, columns, count) as (j, lane):
        matrix = m.add(first, lane)
        with work.loop(0, source.rows) as i:
            value = b.load(source.pointer, source.dtype, m.add(source.place(i, j), lane))
            b.store(_element(work, target, matrix, i, j), 0, value)


def _strided_elements(
    work: Work,
    array: Strided,
    number: IndexValue,
    matrix: Matrix,
    columns: IndexValue,
    *,
    reads: bool,
) -> Iterator[tuple[IndexValue, IndexValue, Value]]:
    """Copy a matrix to or from a region where rows are neighbours; else yield its elements.

    Yields row, column and address in the array.
    """
    b, m = work.b, work.math
    with ExitStack() as stack:
        if work.strips:
            are_neighbours = m.compare("EQ", array.row, 1)
            with work.body.when(are_neighbours), work.loop(0, columns) as j:
                outside = _element(work, array, number, 0, j)
                inside = pointer_value(b.address(matrix.pointer, matrix.dtype, matrix.place(0, j)))
                size = m.value(m.mul(matrix.rows, array.dtype.storage_bytes))
                b.copy(*((inside, outside) if reads else (outside, inside)), size.text)
            stack.enter_context(work.body.when(b.not_(are_neighbours)))
        j = stack.enter_context(work.loop(0, columns))
        i = stack.enter_context(work.loop(0, matrix.rows))
        yield i, j, _element(work, array, number, i, j)


@contextmanager
def _long_columns(
    work: Work, matrix: Matrix, columns: IndexValue, lanes: IndexValue
) -> Iterator[tuple[IndexValue, IndexValue]]:
    """Run a region of scalars for each column of each lane, unless columns have few rows."""
    are_long = work.math.compare("GT", matrix.rows, _FEW_ROWS)
    with (
        work.body.when(are_long),
        work.loop(0, columns) as j,
        work.with_lanes(0),
        work.loop(0, lanes) as lane,
    ):
        yield j, lane


def _offsets(work: Work, array: Strided, first: IndexValue, position: Value) -> Lanes:
    """Return per lane the distance from the first matrix to its own."""
    b, m = work.vectors, work.math
    return b.as_lanes(b.imul(b.isub(position, m.value(first)), m.value(array.batch)))


def _element(work: Work, array: Strided, matrix: IndexValue, i: IndexValue, j: IndexValue) -> Value:
    """Return the address of an element."""
    m = work.math
    at = m.add(m.mul(matrix, array.batch), m.add(m.mul(i, array.row), m.mul(j, array.column)))
    return pointer_value(work.b.address(array.pointer, array.dtype, at))
