"""LU with partial pivoting: `a` becomes L below the diagonal and U above, like LAPACK's `getrf`."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import VARYING, Value
from hloc.codegen.kernels.linalg.product import part, subtract
from hloc.codegen.kernels.linalg.trailing import (
    BLOCK,
    OUTER,
    Block,
    Panel,
    blocks,
    column_groups,
    finished_rows,
    panels,
    subtract_products,
)
from hloc.codegen.kernels.linalg.work import NUMBER, Matrix, Region, Work
from hloc.dtypes import S32, S64

REGIONS = (Region("m", "n"), Region("r", kind=NUMBER), Region(kind=NUMBER))
"""The matrix, the pivot rows from 1, and the number of the first zero pivot, from 1; 0 if none."""


def factor(work: Work) -> None:
    """Factor the matrix in the first region, from left to right."""
    info = work.regions[2]
    rows, columns = work.sizes["m"], work.sizes["n"]
    info.store(0, 0, work.b.const(S32, 0))
    with blocks(work, Block(0, work.sizes["r"], columns), OUTER) as outer:
        with blocks(work, outer, BLOCK) as block:
            with panels(work, block) as panel:
                _eliminate(work, block, panel)
                for group in column_groups(work, panel.behind, block.limit):
                    _apply_panel(work, panel, group, rows)
            if work.strips:
                _exchange_elsewhere(work, block, (outer.first, outer.limit))
                _finish_rows(work, block, rows, (block.limit, outer.limit))
        if work.strips:
            _exchange_elsewhere(work, outer, (0, columns))
            with blocks(work, outer, BLOCK) as block:
                _finish_rows(work, block, outer.stop, (outer.limit, columns))
            _subtract(work, outer, (outer.stop, rows), (outer.limit, columns))


def _apply_panel(work: Work, panel: Panel, columns: Sequence[IndexValue], rows: IndexValue) -> None:
    """Finish the rows of a panel in columns behind it, and update those below it."""
    a = work.regions[0]
    factors = [finished_rows(work, a, panel.first, a, j, divides=False) for j in columns]
    subtract_products(work, a, panel.first, a, columns, factors, (panel.stop, rows))


def _finish_rows(
    work: Work, block: Block, stop: IndexValue, columns: tuple[IndexValue, IndexValue]
) -> None:
    """Finish the rows of a block in some columns, and update those below it up to `stop`."""
    for group in column_groups(work, *columns):
        with panels(work, block) as panel:
            _apply_panel(work, panel, group, block.stop)
    _subtract(work, block, (block.stop, stop), columns)


def _subtract(
    work: Work,
    block: Block,
    rows: tuple[IndexValue, IndexValue],
    columns: tuple[IndexValue, IndexValue],
) -> None:
    """Subtract a block's columns times its rows from other rows and columns."""
    a, m = work.regions[0], work.math
    sizes = m.sub(rows[1], rows[0]), m.sub(columns[1], columns[0]), m.sub(block.stop, block.first)
    target, left, right = (
        part(a, *at)
        for at in ((rows[0], columns[0]), (rows[0], block.first), (block.first, columns[0]))
    )
    subtract(work, target, left, right, sizes)


def _eliminate(work: Work, block: Block, panel: Panel) -> None:
    """Factor a panel; rows are exchanged in all columns that the block's panels update."""
    a, pivots, info = work.regions
    b, m, rows = work.b, work.math, work.sizes["m"]
    with work.loop(panel.first, panel.stop) as k:
        after = m.add(k, 1)
        pivot_row = _pivot_row(work, a, k)
        pivots.store(k, 0, b.iadd(pivot_row, b.const(S32, 1)))
        _exchange(work, a, k, pivot_row, (block.first, block.limit))
        pivot = a.load(k, k)
        is_zero = b.compare("EQ", pivot, work.const(0))
        found = info.load(0)
        first = b.and_(is_zero, b.compare("EQ", found, b.const(S32, 0)))
        info.store(0, 0, b.select(first, work.number(after), found))
        divide = work.divider(b.select(is_zero, work.const(1), pivot))
        for i in work.strip(after, rows):
            a.store(i, k, divide(a.load(i, k)))
        with work.loop(after, panel.behind) as j:
            factor = a.load(k, j)
            for i in work.strip(after, rows):
                a.store(i, j, b.fsub(a.load(i, j), b.fmul(a.load(i, k), factor)))


def _pivot_row(work: Work, a: Matrix, k: IndexValue) -> Value:
    """Return the row of the largest element of column `k` on and below the diagonal, as s32.

    It is the first of equal ones. NaN is passed over, except on the diagonal.
    """
    b, rows, after = work.b, work.sizes["m"], work.math.add(k, 1)
    on_diagonal = work.magnitude(a.load(k, k))
    if work.strips:
        best = work.largest(after, rows, lambda i: work.magnitude(a.load(i, k)))
        below = work.first_place(
            after, rows, lambda i: b.compare("EQ", work.magnitude(a.load(i, k)), best)
        )
        is_below = b.compare("LT", on_diagonal, best)
        return b.select(is_below, work.number(below), work.number(k))
    largest = work.variable(work.part, on_diagonal)
    row = work.variable(S32, work.number(k))
    with work.loop(after, rows) as i:
        size = work.magnitude(a.load(i, k))
        is_larger = b.compare("GT", size, largest.load(0))
        largest.update(0, 0, lambda old: b.select(is_larger, size, old))
        row.update(0, 0, lambda old: b.select(is_larger, work.number(i), old))
    return row.load(0)


def _exchange(
    work: Work, a: Matrix, k: IndexValue, other: Value, columns: tuple[IndexValue, IndexValue]
) -> None:
    """Exchange row `k` with another row, which may differ between lanes, in a range of columns."""
    b = work.b
    if not isinstance(other, VARYING):
        with work.loop(*columns) as j:
            _exchange_elements(a, k, b.convert(other, S64), j)
        return
    with work.loop(work.math.add(k, 1), work.sizes["m"]) as i:
        is_this = b.compare("EQ", other, work.number(i))
        with work.when(is_this), work.loop(*columns) as j:
            x, y = a.load(k, j), a.load(i, j)
            a.store(k, j, b.select(is_this, y, x))
            a.store(i, j, b.select(is_this, x, y))


def _exchange_elements(a: Matrix, row: IndexValue, other: IndexValue, j: IndexValue) -> None:
    x, y = a.load(row, j), a.load(other, j)
    a.store(row, j, y)
    a.store(other, j, x)


def _exchange_elsewhere(work: Work, block: Block, within: tuple[IndexValue, IndexValue]) -> None:
    """Exchange the rows of a block's pivots in the other columns, one column after another."""
    a, pivots, _ = work.regions
    b = work.b
    for columns in ((within[0], block.first), (block.limit, within[1])):
        with work.loop(*columns) as j, work.loop(block.first, block.stop) as k:
            other = b.convert(b.isub(pivots.load(k), b.const(S32, 1)), S64)
            _exchange_elements(a, k, other, j)
