"""Expand triangular-solve into a loop over the rows of the solution."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static, working_type
from hloc.opt.library.counted_loop import counted_loop
from hloc.opt.library.linear_algebra.matrices import (
    conjugated,
    filled,
    place,
    products,
    spread,
    starts_at,
    swapped,
)


class TriangularSolveExpander(Expander):
    """Replace `triangular-solve` by a while loop of substitutions.

    Systems from the right, of an upper matrix or a transposed one are turned into a lower one from
    the left. The other triangle counts as zero, whatever it holds. Narrow floats are computed in
    f32. Cost: O(1) instructions, n rounds of O(n * k) work. Not in -O2: hloc has a kernel. Source:
    XLA's pass of this name, which inverts blocks.
    """

    acts_on = frozenset({"triangular-solve"})

    def when(self, inst: Instruction) -> bool:
        return is_static(inst) and all(x.array.elements for x in inst.operands)

    def expand(self, inst: Instruction) -> Instruction:
        """Bring the system into the form `a x = b` with a lower `a`, solve it, undo the changes.

        An upper triangle becomes a lower one by reversing rows and columns.
        """
        b, attributes = Builder(inst.computation), inst.attributes
        wide = working_type(inst.array.dtype)
        matrix, right = (b.convert(operand, wide) for operand in inst.operands)
        lower = attributes.lower
        if attributes.transpose_a != "NO_TRANSPOSE":
            matrix, lower = swapped(b, matrix), not lower
        if attributes.transpose_a == "ADJOINT":
            matrix = conjugated(b, matrix)
        if not attributes.left_side:  # x a = b is a^T x^T = b^T
            matrix, right, lower = swapped(b, matrix), swapped(b, right), not lower
        rows, columns = matrix.array.rank - 2, matrix.array.rank - 1
        if not lower:
            matrix, right = b.reverse(matrix, (rows, columns)), b.reverse(right, (rows,))
        found = _solved(b, inst, matrix, right)
        if not lower:
            found = b.reverse(found, (rows,))
        if not attributes.left_side:
            found = swapped(b, found)
        return b.convert(found, inst.array.dtype)


def _solved(b: Builder, inst: Instruction, matrix: Instruction, right: Instruction) -> Instruction:
    """Return x with `matrix x = right`; the matrices are lower triangular."""
    dims, rank = matrix.array.dims, matrix.array.rank
    unit = inst.attributes.unit_diagonal
    row_dims = (*dims[:-2], 1, dims[-1])
    value_dims = (*right.array.dims[:-2], 1, right.array.dims[-1])

    def step(d: Builder, row: Instruction, state: list[Instruction]) -> list[Instruction]:
        a, values, x = state
        start = starts_at(d, rank, row=row)
        coefficients = d.dynamic_slice(a, start, row_dims)
        known = d.compare(place(d, row_dims, rank - 1), spread(d, row, row_dims), "LT")
        before = d.select(known, coefficients, filled(d, coefficients, 0))
        value = d.subtract(d.dynamic_slice(values, start, value_dims), products(d, before, x))
        if not unit:
            corner = starts_at(d, rank, row=row, column=row)
            diagonal = d.reshape(d.dynamic_slice(a, corner, (*dims[:-2], 1, 1)), dims[:-2])
            value = d.divide(value, d.broadcast(diagonal, value_dims, range(rank - 2)))
        return [a, values, d.dynamic_update_slice(x, value, start)]

    return counted_loop(b, inst.name, dims[-1], [matrix, right, filled(b, right, 0)], step)[2]
