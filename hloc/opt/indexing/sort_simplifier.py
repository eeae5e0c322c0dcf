"""Remove sorts along dimensions of size 0 or 1."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


class SortSimplifier(RewritingPass):
    """Replace a sort along a dimension of size 0 or 1 by its operands.

    Cost: one walk, O(instructions).
    """

    acts_on = frozenset({"sort"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Replace in every computation that is called."""
        for inst in each_instruction(module, context, "sort"):
            if not _sorts_nothing(inst) or not (inst.users or inst.is_root):
                continue
            with context.rewriting(module, self.name):
                result = inst.operands[0]
                if len(inst.operands) > 1:
                    result = make(inst.computation, "tuple", inst.shape, *inst.operands)
                inst.computation.replace(inst, result)


def _sorts_nothing(inst: Instruction) -> bool:
    if inst.control_predecessors:
        return False
    (dim,) = inst.attributes.dimensions
    shape = inst.operands[0].array
    if shape.dims[dim] > 1 or shape.dynamic:
        return False
    return len(inst.operands) > 1 or inst.shape == shape
