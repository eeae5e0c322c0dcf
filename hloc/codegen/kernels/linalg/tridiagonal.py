"""Tridiagonal systems: elimination with exchanges of neighbouring rows, like LAPACK's `gtsv`."""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.linalg.work import NUMBER, Region, Work
from hloc.dtypes import S32

REGIONS = (
    Region("n"),
    Region("n"),
    Region("n"),
    Region("n", "k"),
    Region(kind=NUMBER),
    Region("n"),
    Region("n"),
    Region("n"),
)
"""The diagonals below, on and above the main one; then `b`, which becomes x; the number of the
first zero pivot, from 1, 0 if none; and the rows of U, from the diagonal to the right.

The first element below and the last one above are outside the matrix.
"""


def solve(work: Work) -> None:
    """Solve in place; x is NaN if a pivot is zero."""
    right, info = work.regions[3:5]
    b, size, nothing = work.b, work.sizes["n"], work.const(float("nan"))
    info.store(0, 0, b.const(S32, 0))
    with work.body.when(work.math.compare("GT", size, 0)):
        _eliminate(work)
        _substitute(work)
    is_singular = b.compare("NE", info.load(0), b.const(S32, 0))
    with work.when(is_singular), work.loop(0, work.sizes["k"]) as j, work.loop(0, size) as i:
        right.store(i, j, b.select(is_singular, nothing, right.load(i, j)))


def _eliminate(work: Work) -> None:
    """Write the rows of U and L^-1 P b; two variables hold the row that is next."""
    below, diagonal, above, right, _, *upper = work.regions
    b, m = work.b, work.math
    zero, last = work.const(0), m.sub(work.sizes["n"], 1)
    first, second = (work.variable(work.dtype, array.load(0)) for array in (diagonal, above))
    with work.loop(0, last) as i:
        after = m.add(i, 1)
        row = first.load(0), second.load(0), zero
        outside = m.compare("EQ", after, last)
        following = (
            below.load(after),
            diagonal.load(after),
            b.select(outside, zero, above.load(after)),
        )
        exchanges = b.compare("LT", work.magnitude(row[0]), work.magnitude(following[0]))
        pairs = list(zip(row, following, strict=True))
        kept = [b.select(exchanges, y, x) for x, y in pairs]
        other = [b.select(exchanges, x, y) for x, y in pairs]
        factor = work.divider(kept[0])(other[0])
        for variable, x, y in zip((first, second), kept[1:], other[1:], strict=True):
            variable.store(0, 0, b.fsub(y, b.fmul(factor, x)))
        for region, x in zip(upper, kept, strict=True):
            region.store(i, 0, x)
        _note_pivot(work, kept[0], after)
        with work.loop(0, work.sizes["k"]) as j:
            x, y = right.load(i, j), right.load(after, j)
            upper_row = b.select(exchanges, y, x)
            right.store(i, j, upper_row)
            right.store(after, j, b.fsub(b.select(exchanges, x, y), b.fmul(factor, upper_row)))
    for region, x in zip(upper, (first.load(0), zero, zero), strict=True):
        region.store(last, 0, x)
    _note_pivot(work, first.load(0), work.sizes["n"])


def _note_pivot(work: Work, pivot: Value, number: IndexValue) -> None:
    """Keep the number of the first pivot that is zero."""
    b, info = work.b, work.regions[4]
    is_zero = b.compare("EQ", pivot, work.const(0))
    is_first = b.and_(is_zero, b.compare("EQ", info.load(0), b.const(S32, 0)))
    info.store(0, 0, b.select(is_first, work.number(number), info.load(0)))


def _substitute(work: Work) -> None:
    """Solve with U, from the last row to the first; two variables hold the last two unknowns."""
    right, upper = work.regions[3], work.regions[5:]
    b, zero = work.b, work.const(0)
    with work.loop(0, work.sizes["k"]) as j:
        near, far = (work.variable(work.dtype, zero) for _ in range(2))
        with work.reversed_loop(0, work.sizes["n"]) as i:
            pivot, *row = (region.load(i) for region in upper)
            x = b.fsub(right.load(i, j), b.fmul(row[1], far.load(0)))
            x = b.fsub(x, b.fmul(row[0], near.load(0)))
            x = b.fmul(x, work.divider(pivot)(work.const(1)))
            right.store(i, j, x)
            far.store(0, 0, near.load(0))
            near.store(0, 0, x)
