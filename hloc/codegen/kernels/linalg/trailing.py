"""Blocked elimination: the trailing columns are updated by all columns of a panel or block at once.

An element is loaded and stored once for a panel of 4 columns, not once per column. In a large
matrix, panels update the columns of their block only; the columns behind it are updated once per
block, so that the matrix is not read from the L2 cache for every panel. Products are subtracted in
the order of the columns, so results are those of the unblocked algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import LaneIndex, Value
from hloc.codegen.kernels.linalg.work import Matrix, Work
from hloc.dtypes import S64
from hloc.lazy_dataclass import dataclass

PANEL = 4
"""Columns of a panel: LU of 200x200 takes half the time that it takes column by column."""

_TOGETHER = 4
"""Columns behind a panel that share its loads: with two, LU takes a tenth longer."""

CHUNK = 64
"""Columns behind a block whose factors are packed at a time: they stay in the first cache."""

BLOCK = 64
"""Columns of a block: a system of 512 equations takes 0.7 of the time of panels alone."""


@dataclass(frozen=True, slots=True)
class Block:
    """Columns whose panels are eliminated before the columns behind it are updated.

    Attributes:
        first, stop: the columns.
        limit: end of the columns that its panels update; no columns follow the last, narrower
            block.
    """

    first: IndexValue
    stop: IndexValue
    limit: IndexValue


@contextmanager
def blocks(work: Work, count: IndexValue, columns: IndexValue) -> Iterator[Block]:
    """Run a region for all blocks of the first `count` columns; in lanes, for a single block."""
    b, m = work.b, work.math
    if not work.strips:
        yield Block(0, count, columns)
        return
    with work.body.loop(0, count, BLOCK) as first:
        stop = m.value(m.add(first, BLOCK))
        is_whole = m.compare("LE", stop, count)
        last = b.select(is_whole, stop, m.value(count))
        yield Block(first, last, b.select(is_whole, stop, m.value(columns)))


@dataclass(frozen=True, slots=True)
class Panel:
    """Columns that are eliminated before those behind them are updated.

    Attributes:
        first, stop: the columns.
        behind: the first column behind it; there is none if the panel is the last, narrower one.
    """

    first: IndexValue
    stop: IndexValue
    behind: IndexValue


@contextmanager
def panels(work: Work, block: Block) -> Iterator[Panel]:
    """Run a region for all panels of a block."""
    b, m = work.b, work.math
    with work.body.loop(block.first, block.stop, PANEL) as first:
        stop = m.value(m.add(first, PANEL))
        is_whole = m.compare("LE", stop, block.stop)
        last = b.select(is_whole, stop, m.value(block.stop))
        yield Panel(first, last, b.select(is_whole, stop, m.value(block.limit)))


def column_groups(
    work: Work, first: IndexValue, stop: IndexValue, together: int = _TOGETHER
) -> Iterator[tuple[IndexValue, ...]]:
    """Yield groups of columns, then single ones; the code is emitted for both."""
    m = work.math
    end = m.sub(stop, m.rem(m.sub(stop, first), together))
    with work.body.loop(first, end, together) as j:
        yield tuple(m.add(j, k) for k in range(together))
    with work.loop(end, stop) as j:
        yield (j,)


def subtract_products(
    work: Work,
    a: Matrix,
    panel: Panel,
    columns: Sequence[IndexValue],
    factors: Sequence[Sequence[Value]],
    rows: tuple[IndexValue, IndexValue],
) -> None:
    """Subtract the panel's columns times `factors` from each of `columns`, in a range of rows."""
    m = work.math
    for i in work.strip(*rows):
        left = [a.load(i, m.add(panel.first, c)) for c in range(PANEL)]
        for j, numbers in zip(columns, factors, strict=True):
            a.store(i, j, minus_products(work, a.load(i, j), left, numbers))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Adjacent columns behind a block, and the factors of the block's columns in them."""

    work: Work
    first: IndexValue
    stop: IndexValue
    packed: Value

    def factor(self, c: IndexValue, j: IndexValue) -> Value:
        """Return the factor of column `c` of the block in column `j`."""
        return self.work.b.load(self.packed, self.work.dtype, self.place(c, j))

    def place(self, c: IndexValue, j: IndexValue) -> IndexValue:
        """Return where that is packed."""
        m = self.work.math
        return m.add(m.mul(c, CHUNK), m.sub(j, self.first))


def column_chunks(
    work: Work,
    first: IndexValue,
    stop: IndexValue,
    factor: Callable[[IndexValue, IndexValue], Value],
    *,
    are_rows: bool,
) -> Iterator[Chunk]:
    """Yield the columns behind a whole block, some at a time.

    Args:
        work: what writes.
        first: the first of the columns.
        stop: where they end.
        factor: returns the factor of column `c` of the block in column `j`, which is packed.
        are_rows: factors of adjacent `j` are contiguous, else those of adjacent `c`.
    """
    m, body = work.math, work.body
    packed = work.b.allocate(work.dtype, BLOCK * CHUNK)
    with body.loop(first, stop, CHUNK) as start:
        chunk = Chunk(work, start, m.minimum(m.add(start, CHUNK), stop), packed)
        loops = [body.loop(start, chunk.stop), body.loop(0, BLOCK)]
        with loops.pop(are_rows) as outer, loops.pop() as inner:
            c, j = (outer, inner) if are_rows else (inner, outer)
            work.b.store(packed, chunk.place(c, j), factor(c, j))
        yield chunk


@dataclass(frozen=True, slots=True)
class Strip:
    """`lanes` adjacent rows from `at` on, and a block's elements there, column by column."""

    work: Work
    at: IndexValue
    lanes: int
    packed: Value

    @property
    def first(self) -> IndexValue:
        """The first of the rows."""
        return Value(S64, self.at.text) if isinstance(self.at, LaneIndex) else self.at

    def place(self, column: IndexValue) -> IndexValue:
        """Return the index of the packed elements of a column of the block."""
        m = self.work.math
        start = m.mul(column, self.lanes)
        return m.add(start, self.work.lane) if self.lanes > 1 else start

    def minus_block(self, a: Matrix, columns: Sequence[IndexValue], chunk: Chunk) -> list[Value]:
        """Return elements of `columns` minus those of the block, each times its factor."""
        work, at = self.work, self.at
        b, lane = work.b, work.lane if self.lanes > 1 else 0
        sums = [b.allocate(work.dtype, self.lanes) for _ in columns]
        for total, j in zip(sums, columns, strict=True):
            b.store(total, lane, a.load(at, j))
        with work.body.loop(0, BLOCK) as c:
            left = b.load(self.packed, work.dtype, self.place(c))
            for total, j in zip(sums, columns, strict=True):
                x = b.load(total, work.dtype, lane)
                b.store(total, lane, b.fsub(x, b.fmul(left, chunk.factor(c, j))))
        return [b.load(total, work.dtype, lane) for total in sums]


def packed_strips(
    work: Work, a: Matrix, block: Block, rows: tuple[IndexValue, IndexValue]
) -> Iterator[Strip]:
    """Yield the rows below a whole block, a strip at a time, with the block's elements packed."""
    m = work.math
    for i in work.strip(*rows, twice=True):
        lanes = work.vectors.lanes or 1
        packed = work.b.allocate(work.dtype, lanes * BLOCK)
        strip = Strip(work, i, lanes, packed)
        with work.body.loop(0, BLOCK) as c:
            work.b.store(packed, strip.place(c), a.load(i, m.add(block.first, c)))
        yield strip


def minus_products(work: Work, x: Value, left: Sequence[Value], right: Sequence[Value]) -> Value:
    """Return `x` minus the products, one after another."""
    for one, other in zip(left, right, strict=True):
        x = work.b.fsub(x, work.b.fmul(one, other))
    return x
