"""`c -= a b` for parts of matrices in memory: nearly all work of a blocked factorisation.

    linalg_subtract_TYPE(c, a, b, packed, c_column, a_row, ..., rows, columns, depth, ...)

Columns of `b` are packed a chunk at a time, which stays in the second-level cache; a strip of rows
of `a`, packed for the first-level cache, is multiplied by the panels of the chunk. A tile of `c` is
in registers meanwhile. Source: Goto and van de Geijn, "Anatomy of high-performance matrix
multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Mapping

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import LaneIndex, Value
from hloc.codegen.kernels.linalg.trailing import BLOCK, OUTER
from hloc.codegen.kernels.linalg.work import Matrix, Work
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.target import Target
from hloc.dtypes import PRED, S64, DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES

DEPTH = OUTER
"""Most columns of `a` that are multiplied at once."""

CHUNK = 240
"""Columns of `c` whose factors are packed at once: a multiple of the columns of any tile."""

_MOST_COLUMNS = 8
"""Most columns of a tile."""

PARAMETERS = (
    *(f"ptr %{name}" for name in ("c", "a", "b", "packed")),
    *(f"i64 %{name}" for name in ("c_column", "a_row", "a_column", "b_row", "b_column")),
    *(f"i64 %{name}" for name in ("rows", "columns", "depth")),
    *(f"i1 %{name}" for name in ("lower", "replaces", "a_conjugated", "b_conjugated")),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a matrix from one element on; strides count elements."""

    pointer: Value
    row: IndexValue
    column: IndexValue
    is_conjugated: Value = Value(PRED, "false")

    @property
    def transposed(self) -> Part:
        """The part with rows and columns exchanged."""
        return Part(self.pointer, self.column, self.row, self.is_conjugated)

    @property
    def conjugated(self) -> Part:
        """The conjugate of the part."""
        return Part(self.pointer, self.row, self.column, Value(PRED, "true"))


def part(matrix: Matrix, row: IndexValue, column: IndexValue) -> Part:
    """Return the part of a matrix from an element on."""
    work = matrix.work
    address = work.b.address(matrix.pointer, matrix.dtype, matrix.place(row, column))
    return Part(pointer_value(address), 1, matrix.stride)


def routine_name(dtype: DType) -> str:
    """Return the name of the routine for a type."""
    return f"linalg_subtract_{dtype.name}"


def packed_elements(sizes: Mapping[str, int]) -> int:
    """Return the elements of memory for packed columns: none for matrices of a single block."""
    largest = max(sizes.values())
    return 0 if largest <= BLOCK else min(DEPTH, largest) * (min(CHUNK, largest) + _MOST_COLUMNS)


def subtract(
    work: Work,
    c: Part,
    a: Part,
    b: Part,
    sizes: tuple[IndexValue, IndexValue, IndexValue],
    *,
    lower: bool = False,
    replaces: bool = False,
) -> None:
    """Subtract a product.

    Args:
        work: what writes the call.
        c: what is subtracted from; its rows are contiguous.
        a: the left factor.
        b: the right factor; it may be `c` if there are at most `DEPTH` rows.
        sizes: rows and columns of `c`, columns of `a`.
        lower: the part of `c` above its diagonal stays as it is.
        replaces: `c` becomes the negative product.
    """
    types = ", ".join(parameter.split()[0] for parameter in PARAMETERS)
    name = routine_name(work.dtype)
    work.body.fn.declare(f"declare void @{name}({types})")
    kinds = (work.b.const(PRED, lower), work.b.const(PRED, replaces))
    flags = (f"i1 {flag.text}" for flag in (*kinds, a.is_conjugated, b.is_conjugated))
    strides = (c.column, a.row, a.column, b.row, b.column)
    numbers = [work.math.value(x) for x in (*strides, *sizes)]
    pointers = (c.pointer, a.pointer, b.pointer, work.packed)
    work.b.call_routine(name, pointers, *numbers, *flags)


def tile_columns(dtype: DType, target: Target) -> int:
    """Return the columns of a tile: its sums, two vectors each, fill most of the registers.

    On AVX2, QR of 1000x1000 takes 0.91 of the time with 6 columns that it takes with 4.
    """
    has_many = target.vector_bits == 512 or target.is_aarch64
    return (_MOST_COLUMNS if has_many else 6) // (2 if dtype.is_complex else 1)


class Subtraction:
    """Writes the routine.

    Attributes:
        width: columns of a tile.
    """

    def __init__(self, work: Work) -> None:
        """Name the arguments of the routine, as in the signature above."""
        self.work, self.b, self.math, self.body = work, work.b, work.math, work.body
        self.dtype = work.dtype
        self.width = tile_columns(self.dtype, work.b.target)

        def number(name: str) -> Value:
            return Value(S64, f"%{name}")

        def factor(name: str) -> Part:
            conjugated = Value(PRED, f"%{name}_conjugated")
            strides = number(f"{name}_row"), number(f"{name}_column")
            return Part(pointer_value(f"%{name}"), *strides, conjugated)

        self.left, self.right = factor("a"), factor("b")
        self.rows, self.columns, self.depth = (number(n) for n in ("rows", "columns", "depth"))
        self.c = Matrix(work, pointer_value("%c"), self.dtype, self.rows, number("c_column"))
        self.packed = pointer_value("%packed")
        self.is_lower, self.replaces = Value(PRED, "%lower"), Value(PRED, "%replaces")

    def write(self) -> None:
        """Emit the loops over blocks of depth and chunks of columns."""
        m, b, body = self.math, self.b, self.body
        has_rows = m.compare("GT", self.rows, 0)
        with (
            body.when(has_rows),
            body.loop(0, self.depth, DEPTH) as start,
            body.loop(0, self.columns, CHUNK) as first,
        ):
            steps = m.minimum(DEPTH, m.sub(self.depth, start))
            stop = m.minimum(m.add(first, CHUNK), self.columns)
            self._pack_columns((first, stop), (start, steps))
            above = b.select(self.is_lower, m.value(first), m.value(0))
            is_first = b.and_(self.replaces, m.compare("EQ", start, 0))
            for row in self.work.strip(above, self.rows, twice=True):
                self._strip(row, (first, stop), (start, steps), is_first)

    def _strip(
        self,
        row: IndexValue,
        columns: tuple[IndexValue, IndexValue],
        block: tuple[IndexValue, IndexValue],
        is_first: Value,
    ) -> None:
        """Emit the loops over the tiles of a strip of rows."""
        m, b, body, (first, stop), (_, steps) = self.math, self.b, self.body, columns, block
        lanes = self.work.vectors.lanes or 1
        here = Value(S64, row.text) if isinstance(row, LaneIndex) else row
        strip = self._packed_rows(row, lanes, block)
        before = m.sub(m.sub(here, first), m.rem(m.sub(here, first), self.width))
        is_clear = b.or_(b.not_(self.is_lower), m.compare("GE", here, stop))
        edge = b.select(is_clear, m.value(stop), m.value(m.add(first, before)))
        end = b.select(is_clear, m.value(stop), m.value(m.minimum(m.add(here, lanes), stop)))
        for bounds, crosses in (((first, edge), False), ((edge, end), True)):
            with body.loop(*bounds, self.width) as column:
                panel = b.address(self.packed, self.dtype, m.mul(m.sub(column, first), steps))
                factors = strip, pointer_value(panel), steps
                self._tile(row, column, lanes, factors, is_first, crosses=crosses)

    def _tile(
        self,
        row: IndexValue,
        first: IndexValue,
        lanes: int,
        factors: tuple[Value, Value, IndexValue],
        is_first: Value,
        *,
        crosses: bool,
    ) -> None:
        """Emit a tile; columns beyond the last repeat it, and `crosses` keeps those above."""
        m, b, work, (strip, panel, steps) = self.math, self.b, self.work, factors
        last, lane = m.sub(self.columns, 1), work.lane if lanes > 1 else 0
        columns = [m.minimum(m.add(first, c), last) for c in range(self.width)]
        sums = [b.allocate(self.dtype, lanes) for _ in columns]
        zero = work.const(0)
        for total, j in zip(sums, columns, strict=True):
            ahead = b.address(self.c.pointer, self.dtype, self.c.place(row, m.add(j, self.width)))
            for line in range(-(-lanes * self.dtype.storage_bytes // CACHE_LINE_BYTES)):
                b.prefetch_at(m.moved(ahead, line * CACHE_LINE_BYTES), 1)
            b.store(total, lane, b.select(is_first, zero, self.c.load(row, j)))
        with self.body.loop(0, steps) as k:
            at = m.mul(k, lanes)
            left = b.load(strip, self.dtype, m.add(at, work.lane) if lanes > 1 else at)
            for c, total in enumerate(sums):
                factor = b.load(panel, self.dtype, m.add(m.mul(k, self.width), c))
                b.store(total, lane, b.fsub(b.load(total, self.dtype, lane), b.fmul(left, factor)))
        for total, j in zip(sums, columns, strict=True):
            x = b.load(total, self.dtype, lane)
            if crosses:
                is_below = b.compare("GE", m.value(row), m.value(j))
                x = b.select(is_below, x, self.c.load(row, j))
            self.c.store(row, j, x)

    # ---- packing

    def _pack_columns(
        self, columns: tuple[IndexValue, IndexValue], block: tuple[IndexValue, IndexValue]
    ) -> None:
        """Pack a block of `b` in panels of `width` columns; the last one repeats to fill it."""
        m, (first, stop), (start, steps) = self.math, columns, block
        last, done = m.sub(self.columns, 1), self._packed_squares(columns, block)
        with self.body.loop(first, stop, self.width) as column:
            panel = m.mul(m.sub(column, first), steps)
            is_whole = m.compare("LE", m.add(column, self.width), stop)
            begin = self.b.select(is_whole, done, m.value(0))
            with self.body.loop(begin, steps) as k:
                for c in range(self.width):
                    j = m.minimum(m.add(column, c), last)
                    value = self._element(self.right, m.add(start, k), j)
                    place = m.add(m.add(panel, m.mul(k, self.width)), c)
                    self.b.store(self.packed, place, value)

    def _packed_squares(
        self, columns: tuple[IndexValue, IndexValue], block: tuple[IndexValue, IndexValue]
    ) -> Value:
        """Pack contiguous numbers as vectors in whole panels; return the steps that are done."""
        m, b, width, (first, stop), (start, steps) = self.math, self.b, self.width, columns, block
        if self.dtype.is_complex:
            return m.value(0)
        side, right = width & -width, self.right
        v = Vectors(b, self.dtype, side)
        down, across = (m.compare("EQ", stride, 1) for stride in (right.row, right.column))
        squares = m.value(m.sub(steps, m.rem(steps, side)))
        whole = m.sub(stop, m.rem(m.sub(stop, first), width))

        def pack(column: IndexValue, k: IndexValue, count: int) -> None:
            """Pack `side` columns, `count` of them as lines that are transposed."""
            places = [self._place(right, m.add(start, k), m.add(column, c)) for c in range(count)]
            lines = [v.load(right.pointer, place) for place in places]
            behind = m.sub(column, first)
            within = m.rem(behind, width)
            to = m.add(m.mul(m.sub(behind, within), steps), m.add(m.mul(k, width), within))
            for i, line in enumerate(v.transposed(lines) if count > 1 else lines):
                v.store(self.packed, m.add(to, i * width), line)

        for is_wanted, end, count in ((down, squares, side), (across, m.value(steps), 1)):
            with (
                self.body.when(is_wanted),
                self.body.loop(first, whole, side) as column,
                self.body.loop(0, end, count) as k,
            ):
                pack(column, k, count)
        done = b.select(across, m.value(steps), m.value(0))
        return b.select(down, squares, done)

    def _packed_rows(
        self, row: IndexValue, lanes: int, block: tuple[IndexValue, IndexValue]
    ) -> Value:
        """Pack a strip of rows of `a`."""
        m, b, work, (start, steps) = self.math, self.b, self.work, block
        strip = b.allocate(self.dtype, lanes * DEPTH)
        are_neighbours = m.compare("EQ", self.left.row, 1)
        a = Part(self.left.pointer, 1, self.left.column, self.left.is_conjugated)
        with self.body.when(are_neighbours), self.body.loop(0, steps) as k:
            at = m.mul(k, lanes)
            value = self._element(a, row, m.add(start, k))
            b.store(strip, m.add(at, work.lane) if lanes > 1 else at, value)
        with self.body.when(b.not_(are_neighbours)), work.vectors.with_lanes(0):
            here = Value(S64, row.text) if isinstance(row, LaneIndex) else row
            with self.body.loop(0, lanes) as i, self.body.loop(0, steps) as k:
                value = self._element(self.left, m.add(here, i), m.add(start, k))
                b.store(strip, m.add(m.mul(k, lanes), i), value)
        return strip

    def _element(self, source: Part, row: IndexValue, column: IndexValue) -> Value:
        """Return an element of `a` or `b`."""
        b = self.b
        x = b.load(source.pointer, self.dtype, self._place(source, row, column))
        if not x.dtype.is_complex:
            return x
        return b.complex(b.real(x), b.select(source.is_conjugated, b.fneg(b.imag(x)), b.imag(x)))

    def _place(self, source: Part, row: IndexValue, column: IndexValue) -> IndexValue:
        m = self.math
        return m.add(m.mul(column, source.column), m.mul(row, source.row))
