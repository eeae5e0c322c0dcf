"""Split vector start indices of dynamic slices into scalars."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.opt.expander import is_static
from hloc.opt.library.counted_loop import scalars_of
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction

_FIRST_INDEX = {"dynamic-slice": 1, "dynamic-update-slice": 2}


class DynamicIndexSplitter(RewritingPass):
    """Give `dynamic-slice` and `dynamic-update-slice` one scalar per dimension.

    Exact. Cost: O(instructions + dimensions). It lets rules and analyses see single indices.
    Source: XLA's pass of this name.
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Split in every computation."""
        for inst in each_instruction(module, context):
            if inst.is_a(*_FIRST_INDEX) and _has_vector(inst):
                with context.rewriting(module, self.name):
                    _split(inst)


def _has_vector(inst: Instruction) -> bool:
    indices = inst.operands[_FIRST_INDEX[inst.opcode.name] :]
    return len(indices) == 1 and indices[0].array.rank == 1 and is_static(inst)


def _split(inst: Instruction) -> None:
    *arrays, vector = inst.operands
    scalars = scalars_of(Builder(inst.computation), vector)
    inst.computation.set_operands(inst, [*arrays, *scalars])
