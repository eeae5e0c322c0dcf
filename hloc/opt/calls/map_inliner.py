"""Inline maps of elementwise functions."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.scalar_body import applied, is_elementwise_body
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape


class MapInliner(RewritingPass):
    """Replace a `map` whose body is elementwise by the body on whole arrays.

    Expects calls inlined; does not change other maps. Cost: O(instructions made).
    """

    acts_on = frozenset({"map"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Inline in every computation that is called."""
        for inst in each_instruction(module, context, "map"):
            if _is_plain(inst):
                b, (body,) = Builder(inst.computation), inst.called
                with context.rewriting(module, self.name):
                    (result,) = applied(b, body, inst.operands, inst.array)
                    inst.computation.replace(inst, result)


def _is_plain(inst: Instruction) -> bool:
    (body,) = inst.called
    return (
        isinstance(inst.shape, ArrayShape)
        and not inst.shape.dynamic
        and bool(inst.users or inst.is_root)
        and not inst.control_predecessors
        and is_elementwise_body(body)
    )
