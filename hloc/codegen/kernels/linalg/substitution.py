"""Triangular systems: `b` becomes x with L x = b, by forward substitution.

Other systems are solved as this one, by views with reversed or swapped rows and columns. The
unknowns of a block are subtracted from the rows below it by a product of matrices (`product`).
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.kernels.linalg.product import part, subtract
from hloc.codegen.kernels.linalg.trailing import (
    BLOCK,
    OUTER,
    PANEL,
    Block,
    blocks,
    column_groups,
    finished_rows,
    subtract_products,
)
from hloc.codegen.kernels.linalg.work import Region, Work

REGIONS = (Region("n", "n"), Region("n", "k"))
"""The lower triangular matrix, whose other triangle is not read, and `b`."""


def solve(work: Work) -> None:
    """Solve in place."""
    _solve(work, divides=True, conjugates=False)


def solve_unit(work: Work) -> None:
    """Solve in place with a unit diagonal, which is not read."""
    _solve(work, divides=False, conjugates=False)


def solve_conjugated(work: Work) -> None:
    """Solve in place with the conjugate of the matrix."""
    _solve(work, divides=True, conjugates=True)


def solve_conjugated_unit(work: Work) -> None:
    """Solve in place with the conjugate of the matrix and a unit diagonal."""
    _solve(work, divides=False, conjugates=True)


def _solve(work: Work, *, divides: bool, conjugates: bool) -> None:
    a, size = work.regions[0], work.sizes["n"]
    if conjugates:
        with work.loop(0, size) as j:
            for i in work.strip(j, size):
                a.store(i, j, work.conjugate(a.load(i, j)))
    with blocks(work, Block(0, size, size), OUTER) as outer:
        with blocks(work, outer, BLOCK) as block:
            _solve_block(work, block, divides=divides)
            if work.strips:
                _subtract(work, block, outer.stop)
        if work.strips:
            _subtract(work, outer, size)


def _solve_block(work: Work, block: Block, *, divides: bool) -> None:
    """Solve the rows of a block, from which the unknowns before it are subtracted."""
    a, right = work.regions
    b, m, count = work.b, work.math, work.sizes["k"]

    def solve_row(row: IndexValue, j: IndexValue) -> None:
        x = right.load(row, j)
        if divides:
            x = work.divider(a.load(row, row))(x)
            right.store(row, j, x)
        for i in work.strip(m.add(row, 1), block.stop):
            right.store(i, j, b.fsub(right.load(i, j), b.fmul(a.load(i, row), x)))

    if not work.strips:
        with work.loop(0, count) as j, work.loop(block.first, block.stop) as row:
            solve_row(row, j)
        return
    whole = m.sub(block.stop, m.rem(m.sub(block.stop, block.first), PANEL))
    for columns in column_groups(work, 0, count):
        with work.body.loop(block.first, whole, PANEL) as first:
            found = [finished_rows(work, a, first, right, j, divides=divides) for j in columns]
            below = m.add(first, PANEL), block.stop
            subtract_products(work, a, first, right, columns, found, below)
        with work.loop(whole, block.stop) as row:
            for j in columns:
                solve_row(row, j)


def _subtract(work: Work, block: Block, stop: IndexValue) -> None:
    """Subtract the unknowns of a block from the rows below it."""
    a, right = work.regions
    m, count = work.math, work.sizes["k"]
    sizes = m.sub(stop, block.stop), count, m.sub(block.stop, block.first)
    left, unknowns = part(a, block.stop, block.first), part(right, block.first, 0)
    subtract(work, part(right, block.stop, 0), left, unknowns, sizes)
