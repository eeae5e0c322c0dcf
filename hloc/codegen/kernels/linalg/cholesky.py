"""Cholesky: the lower triangle of `a` becomes L with L L^H = a, column by column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.kernels.linalg.product import part, subtract
from hloc.codegen.kernels.linalg.trailing import (
    BLOCK,
    OUTER,
    PANEL,
    Block,
    Panel,
    blocks,
    column_groups,
    minus_products,
    panels,
    subtract_products,
)
from hloc.codegen.kernels.linalg.work import NUMBER, Region, Work
from hloc.dtypes import S32

REGIONS = (Region("n", "n"), Region(kind=NUMBER))
"""The matrix, and the number of the first pivot that is not positive, from 1; 0 if none."""


def factor(work: Work) -> None:
    """Factor in place as LAPACK's `potrf`; the upper triangle stays as it is."""
    info, size = work.regions[1], work.sizes["n"]
    info.store(0, 0, work.b.const(S32, 0))
    with blocks(work, Block(0, size, size), OUTER) as outer:
        with blocks(work, outer, BLOCK) as block:
            with panels(work, block) as panel:
                _eliminate(work, panel)
                for group in column_groups(work, panel.behind, block.limit):
                    _apply_panel(work, panel, group)
            if work.strips:
                _apply_block(work, block, outer.limit)
        if work.strips:
            _apply_block(work, outer, size)


def _apply_panel(work: Work, panel: Panel, group: Sequence[IndexValue]) -> None:
    """Update columns behind a panel."""
    a, m = work.regions[0], work.math
    left = [[a.load(j, m.add(panel.first, c)) for c in range(PANEL)] for j in group]
    factors = [[work.conjugate(x) for x in numbers] for numbers in left]
    for n, j in enumerate(group):  # the triangle between the first and the last column
        for row in range(n, len(group) - 1):
            x = minus_products(work, a.load(group[row], j), left[row], factors[n])
            a.store(group[row], j, x)
    subtract_products(work, a, panel.first, a, group, factors, (group[-1], work.sizes["n"]))


def _apply_block(work: Work, block: Block, stop: IndexValue) -> None:
    """Update the columns behind a block, up to `stop`."""
    a, m, start = work.regions[0], work.math, block.limit
    left = part(a, start, block.first)
    sizes = m.sub(work.sizes["n"], start), m.sub(stop, start), m.sub(block.stop, block.first)
    subtract(work, part(a, start, start), left, left.transposed.conjugated, sizes, lower=True)


def _eliminate(work: Work, panel: Panel) -> None:
    """Factor a panel."""
    a, info = work.regions
    b, m, size = work.b, work.math, work.sizes["n"]
    zero, one = work.const(0, work.part), work.const(1, work.part)
    with work.loop(panel.first, panel.stop) as k:
        after = m.add(k, 1)
        square = b.real(a.load(k, k)) if work.dtype.is_complex else a.load(k, k)
        is_positive = b.compare("GT", square, zero)
        found = info.load(0)
        later = b.select(b.compare("EQ", found, b.const(S32, 0)), work.number(after), found)
        info.store(0, 0, b.select(is_positive, found, later))
        root = b.intrinsic("sqrt", b.select(is_positive, square, one))
        a.store(k, k, b.convert(root, work.dtype))
        for i in work.strip(after, size):
            a.store(i, k, work.divided(a.load(i, k), root))
        with work.loop(after, panel.behind) as j:
            factor = work.conjugate(a.load(j, k))
            for i in work.strip(j, size):
                a.store(i, j, b.fsub(a.load(i, j), b.fmul(a.load(i, k), factor)))


def factor_or_nan(work: Work) -> None:
    """Factor in place as HLO's `cholesky`: zeros above the diagonal, all NaN if that fails."""
    factor(work)
    a, info = work.regions
    b, size = work.b, work.sizes["n"]
    infinity, zero, nan = work.const(float("inf"), work.part), b.const(S32, 0), work.const(np.nan)
    with work.loop(0, size) as k:
        is_finite = b.compare("LT", work.magnitude(a.load(k, k)), infinity)
        info.store(0, 0, b.select(is_finite, info.load(0), b.const(S32, -1)))
    good = b.compare("EQ", info.load(0), zero)
    above = b.select(good, work.const(0), nan)
    with work.loop(0, size) as j:
        for i in work.strip(0, j):
            a.store(i, j, above)
        for i in work.strip(j, size):
            a.store(i, j, b.select(good, a.load(i, j), nan))
