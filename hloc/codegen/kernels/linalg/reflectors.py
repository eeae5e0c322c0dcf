"""Several Householder reflectors at once: a column is read and written once for all of them.

Applied one after another, `c_i = f_i v_i^H (x - sum of v_j c_j)` for the reflectors `j` before `i`.
The products `v_i^H v_j` are the same for all columns, so that `v_i^H x` of all `i` come from one
pass over the column, and a second pass subtracts `v_i c_i`. Products of matrices do the same for
more of them (`block_reflector`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.linalg.trailing import PANEL, column_groups, minus_products
from hloc.codegen.kernels.linalg.work import Matrix, Work
from hloc.lazy_dataclass import dataclass

_TOGETHER = 2
"""Columns that share the loads of the reflectors; more need more registers than AVX2 has."""


def panel_starts(
    work: Work, start: IndexValue, stop: IndexValue, *, forwards: bool
) -> Iterator[IndexValue]:
    """Yield the first reflector of each whole panel; the code is written once."""
    if not work.strips:
        return
    m, end = work.math, whole_panels(work, start, stop)
    with work.body.loop(start, end, PANEL) as first:
        yield first if forwards else m.sub(m.add(start, m.sub(end, PANEL)), first)


def whole_panels(work: Work, start: IndexValue, stop: IndexValue) -> IndexValue:
    """Return where the whole panels of reflectors end; in lanes there are none."""
    m = work.math
    return m.value(m.sub(stop, m.rem(m.sub(stop, start), PANEL))) if work.strips else start


@dataclass(frozen=True, slots=True)
class ReflectorPanel:
    """`PANEL` reflectors, applied in one order or the other.

    Attributes:
        v: holds the vectors below its diagonal.
        first: row and column in which the first of them begins.
        factors: of each reflector, by its number in the panel.
        order: the numbers in the order in which they are applied.
        products: `v_i^H v_j`, of `j` applied before `i`.
    """

    work: Work
    v: Matrix
    first: IndexValue
    factors: Sequence[Value]
    order: Sequence[int]
    products: Mapping[tuple[int, int], Value]

    def apply(self, matrix: Matrix, start: IndexValue, stop: IndexValue) -> None:
        """Apply them to the columns of `matrix` from `start` to below `stop`."""
        for columns in column_groups(self.work, start, stop, _TOGETHER):
            self._apply(matrix, columns)

    def _apply(self, matrix: Matrix, columns: Sequence[IndexValue]) -> None:
        work, numbers = self.work, range(PANEL)
        tops = [[matrix.load(self._row(r), j) for r in numbers] for j in columns]
        below = _products_below(work, self.v, self.first, numbers, matrix, columns)
        changes = [self._changes(*parts) for parts in zip(tops, below, strict=True)]
        for j, top, change in zip(columns, tops, changes, strict=True):
            for r in numbers:
                left = [_element(self.v, self.first, r, i) for i in range(r)]
                x = minus_products(work, work.b.fsub(top[r], change[r]), left, change[:r])
                matrix.store(self._row(r), j, x)
        for row in work.strip(self._row(PANEL), self.v.rows):
            vectors = [self.v.load(row, self._row(i)) for i in numbers]
            for j, change in zip(columns, changes, strict=True):
                matrix.store(row, j, minus_products(work, matrix.load(row, j), vectors, change))

    def _changes(self, top: Sequence[Value], below: Sequence[Value]) -> list[Value]:
        """Return the factor of each vector that is subtracted from a column.

        Args:
            top: the column's elements in the rows of the panel.
            below: the products of the vectors with the rest.
        """
        found: dict[int, Value] = {}
        for i in self.order:
            products = [self.products[i, j] for j in found]
            x = minus_products(
                self.work, self._with_top(i, below[i], top), products, list(found.values())
            )
            found[i] = self.work.b.fmul(self.factors[i], x)
        return [found[i] for i in range(PANEL)]

    def _with_top(self, i: int, below: Value, top: Sequence[Value]) -> Value:
        """Return `v_i^H x`, given its part below the panel and the elements of `x` within."""
        work, b = self.work, self.work.b
        total = b.fadd(below, top[i])
        for r in range(i + 1, PANEL):
            element = work.conjugate(_element(self.v, self.first, r, i))
            total = b.fadd(total, b.fmul(element, top[r]))
        return total

    def _row(self, number: int) -> IndexValue:
        return self.work.math.add(self.first, number)


def reflector_panel(
    work: Work, v: Matrix, first: IndexValue, factors: Sequence[Value], *, forwards: bool
) -> ReflectorPanel:
    """Return the panel of reflectors from `first` on; `forwards` applies the first one first."""
    b, m = work.b, work.math
    order = range(PANEL) if forwards else range(PANEL)[::-1]
    products: dict[tuple[int, int], Value] = {}
    for place, i in enumerate(order):
        earlier = order[:place]
        if not earlier:
            continue
        columns = [m.add(first, j) for j in earlier]
        below = _products_below(work, v, first, (i,), v, columns)
        for j, (total,) in zip(earlier, below, strict=True):
            low, high = min(i, j), max(i, j)
            one = _element(v, first, high, low)
            total = b.fadd(total, work.conjugate(one) if i == low else one)
            for r in range(high + 1, PANEL):
                x, y = (_element(v, first, r, n) for n in (i, j))
                total = b.fadd(total, b.fmul(work.conjugate(x), y))
            products[i, j] = total
    return ReflectorPanel(work, v, first, factors, order, products)


def _products_below(
    work: Work,
    v: Matrix,
    first: IndexValue,
    numbers: Sequence[int],
    matrix: Matrix,
    columns: Sequence[IndexValue],
) -> list[list[Value]]:
    """Return for each column its products with some reflectors, in the rows below the panel."""
    b, m = work.b, work.math

    def term(column: IndexValue, i: int, row: IndexValue) -> Value:
        vector = work.conjugate(v.load(row, m.add(first, i)))
        return b.fmul(vector, matrix.load(row, column))

    terms = [partial(term, column, i) for column in columns for i in numbers]
    found = work.totals(m.add(first, PANEL), v.rows, *terms)
    size = len(numbers)
    return [found[at : at + size] for at in range(0, len(found), size)]


def _element(v: Matrix, first: IndexValue, row: int, number: int) -> Value:
    """Return an element of a reflector in one of the panel's rows, below its first one."""
    m = v.work.math
    return v.load(m.add(first, row), m.add(first, number))
