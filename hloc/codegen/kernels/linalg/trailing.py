"""Blocked elimination: the trailing columns are updated by all columns of a panel or block at once.

An element is loaded and stored once for a panel of 4 columns, not once per column. In a large
matrix, panels update the columns of their block only, and blocks those of their outer block; the
columns behind are updated once per block, by a product of matrices (`product`). Products are
subtracted in the order of the columns, so results are those of the unblocked algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.linalg.work import Matrix, Work
from hloc.lazy_dataclass import dataclass

PANEL = 4
"""Columns of a panel: LU of 200x200 takes half the time that it takes column by column."""

_TOGETHER = 4
"""Columns behind a panel that share its loads: with two, LU takes a tenth longer."""

BLOCK = 64
"""Columns of a block: a system of 512 equations takes 0.7 of the time of panels alone."""

OUTER = 256
"""Columns of an outer block: with blocks alone, LU of 1000x1000 in f64 takes 1.1 times as long."""


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
def blocks(work: Work, within: Block, size: int, *, backwards: bool = False) -> Iterator[Block]:
    """Run a region for all blocks of `size` columns of a block; in lanes, for itself."""
    b, m = work.b, work.math
    if not work.strips:
        yield within
        return
    with work.body.loop(within.first, within.stop, size) as first:
        if backwards:
            count = m.sub(m.sub(within.stop, 1), within.first)
            last_first = m.sub(m.add(within.first, count), m.rem(count, size))
            first = m.sub(m.add(within.first, last_first), first)
        stop = m.value(m.add(first, size))
        is_whole = m.compare("LE", stop, within.stop)
        last = b.select(is_whole, stop, m.value(within.stop))
        yield Block(first, last, b.select(is_whole, stop, m.value(within.limit)))


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
    first: IndexValue,
    target: Matrix,
    columns: Sequence[IndexValue],
    factors: Sequence[Sequence[Value]],
    rows: tuple[IndexValue, IndexValue],
) -> None:
    """Subtract a panel's columns of `a` times `factors` from columns of `target`, in some rows."""
    m = work.math
    for i in work.strip(*rows):
        left = [a.load(i, m.add(first, c)) for c in range(PANEL)]
        for j, numbers in zip(columns, factors, strict=True):
            target.store(i, j, minus_products(work, target.load(i, j), left, numbers))


def finished_rows(
    work: Work, a: Matrix, first: IndexValue, target: Matrix, j: IndexValue, *, divides: bool
) -> list[Value]:
    """Solve the rows of a panel of `a`, a lower triangle, in a column of `target`; return them.

    Without `divides` the diagonal is 1, and not read.
    """
    m, found = work.math, list[Value]()
    for c in range(PANEL):
        row = m.add(first, c)
        left = [a.load(row, m.add(first, d)) for d in range(c)]
        x = minus_products(work, target.load(row, j), left, found)
        found.append(work.divider(a.load(row, row))(x) if divides else x)
        target.store(row, j, found[-1])
    return found


def minus_products(work: Work, x: Value, left: Sequence[Value], right: Sequence[Value]) -> Value:
    """Return `x` minus the products, one after another."""
    for one, other in zip(left, right, strict=True):
        x = work.b.fsub(x, work.b.fmul(one, other))
    return x
