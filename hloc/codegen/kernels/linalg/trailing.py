"""Elimination in panels: the columns behind a panel get the products of all its columns at once.

An element is loaded and stored once for a panel, not once for each column of it. Products are
subtracted in the order of the columns, so results are those of one column at a time.
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
def panels(work: Work, count: IndexValue, columns: IndexValue) -> Iterator[Panel]:
    """Run a region for all panels of the first `count` columns."""
    b, m = work.b, work.math
    with work.body.loop(0, count, PANEL) as first:
        stop = m.value(m.add(first, PANEL))
        is_whole = m.compare("LE", stop, count)
        last = b.select(is_whole, stop, m.value(count))
        yield Panel(first, last, b.select(is_whole, stop, m.value(columns)))


def columns_behind(
    work: Work, panel: Panel, columns: IndexValue
) -> Iterator[tuple[IndexValue, ...]]:
    """Yield one or a few columns behind a panel; the code is written for either."""
    m = work.math
    end = m.sub(columns, m.rem(m.sub(columns, panel.behind), _TOGETHER))
    with work.body.loop(panel.behind, end, _TOGETHER) as j:
        yield tuple(m.add(j, k) for k in range(_TOGETHER))
    with work.loop(end, columns) as j:
        yield (j,)


def take_products(
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
            a.store(i, j, less_products(work, a.load(i, j), left, numbers))


def less_products(work: Work, x: Value, left: Sequence[Value], right: Sequence[Value]) -> Value:
    """Return `x` minus the products, one after another."""
    for one, other in zip(left, right, strict=True):
        x = work.b.fsub(x, work.b.fmul(one, other))
    return x
