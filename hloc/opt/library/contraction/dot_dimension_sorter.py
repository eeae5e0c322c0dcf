"""Sort the contracting dimensions of dots."""

from __future__ import annotations

from dataclasses import replace

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.contraction.dot_numbers import numbered, sides
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


class DotDimensionSorter(RewritingPass):
    """List contracted dimensions in the order of the lhs, or of the rhs if only that is sorted.

    The pairs stay the same, so the same products are summed. Two spellings of one dot become equal
    (`cse`). Cost: O(instructions). Not in -O2: kernels order their loops by the layout.
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Sort in every computation."""
        for inst in each_instruction(module, context, "dot"):
            if _is_unsorted(inst):
                with context.rewriting(module, self.name):
                    _sort(inst)


def _is_unsorted(inst: Instruction) -> bool:
    return all(list(side.contracting) != sorted(side.contracting) for side in sides(inst))


def _sort(inst: Instruction) -> None:
    lhs, rhs = sides(inst)
    pairs = sorted(zip(lhs.contracting, rhs.contracting, strict=True))
    lhs = replace(lhs, contracting=tuple(left for left, _ in pairs))
    rhs = replace(rhs, contracting=tuple(right for _, right in pairs))
    inst.computation.set_attributes(inst, numbered(inst.attributes, lhs, rhs))
