"""Copies of matrices between arrays and the workspace, where each lane holds one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hloc.codegen.builder.lane_gather import gather, scatter
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import LaneIndex, Lanes, Value
from hloc.codegen.kernels.linalg.work import Matrix, Work
from hloc.codegen.kernels.vectors import Vectors
from hloc.dtypes import S64, DType
from hloc.lazy_dataclass import dataclass

FEW_ROWS = 8
"""With at most this many rows, the elements of all lanes are gathered, which is less code.

With more, blocks are transposed in registers, or elements are copied lane by lane where no row or
column fills a block: matrices of 4 KiB map to the same cache sets, and a scatter is slower than
single stores.
"""


COLUMNS_TOGETHER = 16
"""Columns that are copied together, row by row, so that row-major arrays are read in whole lines.

Copying column by column takes a third of the time of a Cholesky factorisation of 900x900. The
hardware does not prefetch the lines of later rows, so the code does.
"""

ROWS_AHEAD = 16
"""Distance of the row that is prefetched from the one that is copied."""


@dataclass(frozen=True, slots=True)
class Strided:
    """The matrices of an operand or result; strides count elements and may be negative."""

    pointer: Value
    dtype: DType
    batch: IndexValue
    row: IndexValue
    column: IndexValue

    def in_place(self, work: Work, region: Matrix, number: IndexValue) -> Matrix:
        """Return a matrix of the array if its columns are contiguous, else the region."""
        b, m = work.b, work.math
        is_there = _has_columns(work, self)
        there = b.address(self.pointer, self.dtype, m.value(m.mul(number, self.batch)))
        choice = f"select i1 {is_there.text}, ptr {there}, ptr {region.pointer.text}"
        pointer = pointer_value(b.fn.value(choice))
        stride = b.select(is_there, m.value(self.column), m.value(region.stride))
        return Matrix(work, pointer, region.dtype, region.rows, stride)


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
        for i, j, address in _strided_elements(work, source, first, target, columns, reads=True):
            target.store(i, j, b.load(address, source.dtype, 0))
        return
    last = m.value(m.sub(end, 1))
    if not work.has_blocks:
        position = b.intrinsic("smin", LaneIndex(S64, m.value(first).text), last)
        offsets = _offsets(work, source, first, position)
        with work.loop(0, columns) as j, work.loop(0, target.rows) as i:
            pointer = _element(work, source, first, i, j)
            target.store(i, j, gather(work.vectors, pointer, source.dtype, offsets))
        return
    with work.vectors.with_lanes(0):
        there = [m.value(m.add(first, k)) for k in range(work.lanes)]
        numbers = [b.intrinsic("smin", number, last) for number in there]
        rest: IndexValue = 0
        for block in _blocks(work, source, target, columns):
            corners = [_element(work, source, number, *block.corner) for number in numbers]
            lines = [block.v.load(corner, 0) for corner in corners]
            for line, place in zip(block.v.transposed(lines), block.places, strict=True):
                block.v.store(target.pointer, place, line)
            rest = block.rest
        with _single_elements(work, rest, target, columns, work.width) as (i, j, lane):
            matrix = b.intrinsic("smin", m.value(m.add(first, lane)), last)
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
        for i, j, address in _strided_elements(work, target, first, source, columns, reads=False):
            b.store(address, 0, source.load(i, j))
        return
    if not work.has_blocks:
        position = LaneIndex(S64, m.value(first).text)
        is_there = b.compare("LT", position, m.value(end))
        offsets = _offsets(work, target, first, position)
        with work.loop(0, columns) as j, work.loop(0, source.rows) as i:
            pointer = _element(work, target, first, i, j)
            scatter(work.vectors, pointer, source.load(i, j), offsets, is_there)
        return
    with work.vectors.with_lanes(0):
        count = b.intrinsic("smin", m.value(work.width), m.value(m.sub(end, first)))
        is_full = m.compare("EQ", count, work.width)
        rest: IndexValue = 0
        for block in _blocks(work, target, source, columns, is_full):
            lines = [block.v.load(source.pointer, place) for place in block.places]
            for k, line in enumerate(block.v.transposed(lines)):
                block.v.store(_element(work, target, m.add(first, k), *block.corner), 0, line)
            rest = block.rest
        with _single_elements(work, rest, source, columns, count) as (i, j, lane):
            value = b.load(source.pointer, source.dtype, m.add(source.place(i, j), lane))
            b.store(_element(work, target, m.add(first, lane), i, j), 0, value)


def _strided_elements(
    work: Work,
    array: Strided,
    number: IndexValue,
    matrix: Matrix,
    columns: IndexValue,
    *,
    reads: bool,
) -> Iterator[tuple[IndexValue, IndexValue, Value]]:
    """Copy a matrix to or from a region, as far as blocks allow; yield its other elements.

    A result with contiguous columns is the region itself, so nothing is left to write.

    Yields row, column and address in the array.
    """
    b, m = work.b, work.math
    with ExitStack() as stack:
        parts: list[tuple[tuple[IndexValue, IndexValue], tuple[IndexValue, IndexValue]]]
        parts = [((0, matrix.rows), (0, columns))]
        if work.strips:
            are_neighbours = _has_columns(work, array)
            if reads:
                with work.body.when(are_neighbours), work.loop(0, columns) as j:
                    outside = _element(work, array, number, 0, j)
                    inside = b.address(matrix.pointer, matrix.dtype, matrix.place(0, j))
                    size = m.value(m.mul(matrix.rows, array.dtype.storage_bytes))
                    b.copy(pointer_value(inside), outside, size.text)
            stack.enter_context(work.body.when(b.not_(are_neighbours)))
            if array.dtype.is_float and not array.dtype.is_complex:
                rows, whole = _transposed_blocks(work, array, number, matrix, columns, reads=reads)
                parts = [((rows, matrix.rows), (0, whole)), ((0, matrix.rows), (whole, columns))]
        for (top, bottom), (start, stop) in parts:
            with work.body.loop(start, stop, COLUMNS_TOGETHER) as first:
                end = m.minimum(m.add(first, COLUMNS_TOGETHER), stop)
                with work.loop(top, bottom) as i:
                    for column in (first, m.sub(end, 1)) if work.strips else ():
                        later = _element(work, array, number, m.add(i, ROWS_AHEAD), column)
                        b.prefetch_at(later.text, 1)
                    with work.loop(first, end) as j:
                        yield i, j, _element(work, array, number, i, j)


def _transposed_blocks(
    work: Work,
    array: Strided,
    number: IndexValue,
    matrix: Matrix,
    columns: IndexValue,
    *,
    reads: bool,
) -> tuple[Value, Value]:
    """Copy square blocks of a matrix whose rows are contiguous, forwards or backwards.

    Returns:
        How many rows and columns are copied; none if the rows are not contiguous.
    """
    b, m, lanes = work.b, work.math, work.strips[0]
    v, zero = Vectors(b, array.dtype, lanes), m.value(0)
    is_wanted = _is_contiguous(work, array.column)
    rows, width = (
        b.select(is_wanted, m.value(m.sub(size, m.rem(size, lanes))), zero)
        for size in (m.value(matrix.rows), m.value(columns))
    )
    lowest = b.select(m.compare("LT", array.column, 0), m.value(lanes - 1), zero)
    step = m.mul(matrix.stride, array.column)
    with work.body.loop(0, rows, lanes) as i, work.body.loop(0, width, lanes) as j:
        corner = m.add(j, lowest)
        outside = [_element(work, array, number, m.add(i, k), corner) for k in range(lanes)]
        inside = [m.add(matrix.place(i, corner), m.mul(step, k)) for k in range(lanes)]
        if reads:
            lines = v.transposed([v.load(address, 0) for address in outside])
            for place, line in zip(inside, lines, strict=True):
                v.store(matrix.pointer, place, line)
        else:
            lines = v.transposed([v.load(matrix.pointer, place) for place in inside])
            for address, line in zip(outside, lines, strict=True):
                v.store(address, 0, line)
    return rows, width


@dataclass(frozen=True, slots=True)
class _Block:
    """`lanes` contiguous elements of the array, of each of `lanes` matrices.

    Attributes:
        v: the builder of vectors.
        corner: row and column of the element with the lowest address.
        places: index in the region of each element, in order of address.
        rest: the first column that blocks do not cover: none are left, or all.
    """

    v: Vectors
    corner: tuple[IndexValue, IndexValue]
    places: tuple[IndexValue, ...]
    rest: IndexValue


def _blocks(
    work: Work,
    array: Strided,
    matrix: Matrix,
    columns: IndexValue,
    is_wanted: Value | None = None,
) -> Iterator[_Block]:
    """Yield a block of contiguous elements along rows or columns; both share the code.

    Real numbers only. Transposing registers takes a third of the time of single elements. The last
    block of a line overlaps the one before if the length is not a multiple.
    """
    if array.dtype.is_complex or not array.dtype.is_float:
        return
    b, m, lanes = work.b, work.math, work.lanes
    zero, rows, width = m.value(0), m.value(matrix.rows), m.value(columns)
    is_down = _is_contiguous(work, array.row)
    has_contiguous = b.or_(is_down, _is_contiguous(work, array.column))
    if is_wanted is not None:
        has_contiguous = b.and_(has_contiguous, is_wanted)
    length, count = b.select(is_down, rows, width), b.select(is_down, width, rows)
    is_wanted = b.and_(has_contiguous, m.compare("GE", length, lanes))
    end = b.select(is_wanted, length, zero)
    rest = b.select(is_wanted, width, zero)
    sign = b.select(is_down, m.value(array.row), m.value(array.column))
    is_backwards = m.compare("LT", sign, 0)
    lowest = b.select(is_backwards, m.value(lanes - 1), zero)
    distance = b.select(is_down, m.value(1), m.value(matrix.stride))
    step = m.mul(m.mul(distance, sign), lanes)
    with work.body.loop(0, end, lanes) as first, work.loop(0, count) as line:
        start = b.intrinsic("smin", m.value(first), m.value(m.sub(length, lanes)))
        i, j = m.value(m.add(start, lowest)), m.value(line)
        corner = b.select(is_down, i, j), b.select(is_down, j, i)
        at = matrix.place(*corner)
        places = tuple(m.add(at, m.mul(step, k)) for k in range(lanes))
        yield _Block(Vectors(b, array.dtype, lanes), corner, places, rest)


def _has_columns(work: Work, array: Strided) -> Value:
    """True if the columns of the matrices are contiguous."""
    return work.math.compare("EQ", array.row, 1)


def _is_contiguous(work: Work, stride: IndexValue) -> Value:
    """True if elements `stride` apart are adjacent, in either direction."""
    m = work.math
    return work.b.or_(m.compare("EQ", stride, 1), m.compare("EQ", stride, -1))


@contextmanager
def _single_elements(
    work: Work, rest: IndexValue, matrix: Matrix, columns: IndexValue, lanes: IndexValue
) -> Iterator[tuple[IndexValue, IndexValue, IndexValue]]:
    """Run a region for each element of the remaining columns, of each lane."""
    with (
        work.loop(rest, columns) as j,
        work.loop(0, lanes) as lane,
        work.loop(0, matrix.rows) as i,
    ):
        yield i, j, lane


def _offsets(work: Work, array: Strided, first: IndexValue, position: Value) -> Lanes:
    """Return per lane the distance from the first matrix to its own."""
    b, m = work.vectors, work.math
    return b.as_lanes(b.imul(b.isub(position, m.value(first)), m.value(array.batch)))


def _element(work: Work, array: Strided, matrix: IndexValue, i: IndexValue, j: IndexValue) -> Value:
    """Return the address of an element."""
    m = work.math
    at = m.add(m.mul(matrix, array.batch), m.add(m.mul(i, array.row), m.mul(j, array.column)))
    return pointer_value(work.b.address(array.pointer, array.dtype, at))
