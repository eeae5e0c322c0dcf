"""Triangular systems: `b` becomes x with L x = b, by forward substitution.

Other systems are solved as this one, by views with reversed or swapped rows and columns.
"""

from __future__ import annotations

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
    a, right = work.regions
    b, size = work.b, work.sizes["n"]
    if conjugates:
        with work.loop(0, size) as j:
            for i in work.strip(j, size):
                a.store(i, j, work.conjugate(a.load(i, j)))
    with work.loop(0, work.sizes["k"]) as j, work.loop(0, size) as row:
        x = right.load(row, j)
        if divides:
            x = work.divider(a.load(row, row))(x)
            right.store(row, j, x)
        for i in work.strip(work.math.add(row, 1), size):
            right.store(i, j, b.fsub(right.load(i, j), b.fmul(a.load(i, row), x)))
