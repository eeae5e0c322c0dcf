"""Remove batch dimensions of size 1 from dots."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.contraction.dot_numbers import Side, dot_of, sides
from hloc.opt.expander import Expander, is_static


class BatchDotSimplification(Expander):
    """Reshape batch dimensions of size 1 away: `[1,m,k]` by `[1,k,n]` is a product of matrices.

    Exact. Cost: O(instructions). Not in -O2: hloc's kernels skip such dimensions by themselves.
    Source: XLA's pass of this name.
    """

    acts_on = frozenset({"dot"})

    def when(self, inst: Instruction) -> bool:
        lhs, _ = sides(inst)
        return is_static(inst) and 1 in lhs.sizes(lhs.batch)

    def expand(self, inst: Instruction) -> Instruction:
        b = Builder(inst.computation)
        left, right = (_without_single(b, side) for side in sides(inst))
        return b.reshape(dot_of(b, inst, left, right), inst.array.dims)


def _without_single(b: Builder, side: Side) -> Side:
    dims = side.operand.array.dims
    gone = [dim for dim in side.batch if dims[dim] == 1]
    kept = [dim for dim in range(len(dims)) if dim not in gone]
    array = b.reshape(side.operand, [dims[dim] for dim in kept])
    batch = tuple(kept.index(dim) for dim in side.batch if dim not in gone)
    return Side(array, batch, tuple(kept.index(dim) for dim in side.contracting))
