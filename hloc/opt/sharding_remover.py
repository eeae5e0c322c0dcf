"""Remove sharding annotations."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction

TARGETS = frozenset(
    {
        "LayoutConstraint",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "Sharding",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
    }
)
"""Targets whose result is their operand."""


class ShardingRemover(RewritingPass):
    """Replace custom calls that annotate a sharding by their operand.

    Cost: one walk, O(instructions).
    """

    acts_on = frozenset({"custom-call"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Replace in every computation that is called."""
        for inst in each_instruction(module, context, "custom-call"):
            if _is_annotation(inst) and (inst.users or inst.is_root):
                with context.rewriting(module, self.name):
                    inst.computation.replace(inst, inst.operands[0])


def _is_annotation(inst: Instruction) -> bool:
    return (
        inst.attributes.custom_call_target in TARGETS
        and len(inst.operands) == 1
        and inst.shape == inst.operands[0].shape
        and not inst.control_predecessors
    )
