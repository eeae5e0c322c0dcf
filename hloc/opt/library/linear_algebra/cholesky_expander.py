"""Expand cholesky into a loop over the columns of the factor."""

from __future__ import annotations

import numpy as np

from hloc.dtypes import PRED
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static, working_type
from hloc.opt.library.counted_loop import counted_loop
from hloc.opt.library.linear_algebra.matrices import (
    as_complex,
    conjugated,
    filled,
    place,
    products,
    real_part,
    spread,
    starts_at,
    swapped,
)


class CholeskyExpander(Expander):
    """Replace `cholesky` by a while loop over the columns of the factor.

    Column j is that of the matrix less the products of the columns before it, divided by the root
    of its diagonal element. Only the triangle that the opcode reads counts. A matrix without a
    factor becomes NaN as a whole. Narrow floats are computed in f32. Cost: O(1) instructions, n
    rounds of O(n * n) work. Not in -O2: hloc calls a library routine. Source: XLA's pass of this
    name, which works in blocks.
    """

    acts_on = frozenset({"cholesky"})

    def when(self, inst: Instruction) -> bool:
        return is_static(inst) and inst.array.elements > 0

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        matrix = b.convert(inst.operands[0], working_type(inst.array.dtype))
        if not inst.attributes.lower:
            matrix = conjugated(b, swapped(b, matrix))
        size = matrix.array.dims[-1]
        state = [matrix, filled(b, matrix, 0)]
        factor = _checked(b, counted_loop(b, inst.name, size, state, _column)[1])
        if not inst.attributes.lower:
            factor = conjugated(b, swapped(b, factor))
        return b.convert(factor, inst.array.dtype)


def _column(d: Builder, at: Instruction, state: list[Instruction]) -> list[Instruction]:
    """Add one round: fill column `at` of the factor."""
    matrix, factor = state
    dims, rank = matrix.array.dims, matrix.array.rank
    column_dims = (*dims[:-1], 1)
    start = starts_at(d, rank, column=at)
    row = d.dynamic_slice(factor, starts_at(d, rank, row=at), (*dims[:-2], 1, dims[-1]))
    before = products(d, factor, swapped(d, conjugated(d, row)))
    rest = d.subtract(d.dynamic_slice(matrix, start, column_dims), before)
    corner = d.dynamic_slice(rest, starts_at(d, rank, row=at), (*dims[:-2], 1, 1))
    root = as_complex(d, d.sqrt(real_part(d, corner)), matrix)
    diagonal = d.broadcast(d.reshape(root, dims[:-2]), column_dims, range(rank - 2))
    rows, here = place(d, column_dims, rank - 2), spread(d, at, column_dims)
    below = d.select(d.compare(rows, here, "GT"), d.divide(rest, diagonal), filled(d, rest, 0))
    column = d.select(d.compare(rows, here, "EQ"), diagonal, below)
    return [matrix, d.dynamic_update_slice(factor, column, start)]


def _checked(b: Builder, factor: Instruction) -> Instruction:
    """Return NaN for every matrix whose factor has a diagonal element that is not positive."""
    dims, rank = factor.array.dims, factor.array.rank
    real = real_part(b, factor)
    is_diagonal = b.compare(place(b, dims, rank - 2), place(b, dims, rank - 1), "EQ")
    positive = b.logical_and(
        b.compare(real, filled(b, real, 0), "GT"), b.instruction("is-finite", (real,))
    )
    good = b.logical_or(b.logical_not(is_diagonal), positive)
    both = b.scalar_function("and", PRED, "both")
    every = b.reduce([good], [b.constant(True, PRED)], [rank - 2, rank - 1], both)
    mask = b.broadcast(every, dims, range(rank - 2))
    return b.select(mask, factor, filled(b, factor, np.nan))
