"""Canonical form of dots, `[batch..., m, k]` times `[batch..., k, n]`."""

from __future__ import annotations

from math import prod

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.contraction.dot_numbers import Side, dot_of, resized, sides
from hloc.opt.expander import Expander, is_static


class DotDecomposer(Expander):
    """Bring dots into the form `[batch..., m, k]` by `[batch..., k, n]`.

    Batch dimensions come first, all contracted dimensions are merged into one, and so are the free
    ones of each side; transposes and reshapes do that, and a reshape restores the result. The same
    products are summed. Cost: O(instructions); the transposes may copy. Not in -O2: hloc's kernels
    take any dimension numbers without copies. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"dot"})

    def when(self, inst: Instruction) -> bool:
        lhs, rhs = sides(inst)
        count = len(lhs.batch)
        canonical = (
            lhs.batch == rhs.batch == tuple(range(count))
            and lhs.operand.array.rank == rhs.operand.array.rank == count + 2
            and lhs.contracting == (count + 1,)
            and rhs.contracting == (count,)
        )
        return is_static(inst) and not canonical

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        lhs, rhs = sides(inst)
        count = len(lhs.batch)
        batch = tuple(range(count))
        left = Side(_merged(b, lhs, lhs.free, lhs.contracting), batch, (count + 1,))
        right = Side(_merged(b, rhs, rhs.contracting, rhs.free), batch, (count,))
        return resized(b, dot_of(b, inst, left, right), inst.array.dims)


def _merged(b: Builder, side: Side, rows: tuple[int, ...], columns: tuple[int, ...]) -> Instruction:
    """Return the operand as `[batch..., rows, columns]`."""
    order = (*side.batch, *rows, *columns)
    array = side.operand
    if order != tuple(range(len(order))):
        array = b.transpose(array, order)
    dims = [*side.sizes(side.batch), prod(side.sizes(rows)), prod(side.sizes(columns))]
    return resized(b, array, dims)
