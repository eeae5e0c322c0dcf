"""Split layout changes off reshapes and reductions, as copies."""

from __future__ import annotations

from hloc.analysis.dataflow import forwards
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.make import like, make
from hloc.opt.movement.walk import candidates
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape, Layout


class ReshapeDecomposer(RewritingPass):
    """Leave only reshapes that are bitcasts; copies change the layouts before and after.

    The copies can be shared, or be written by the dots before them (`layout-assignment`). Not part
    of -O2: a reshape that moves bytes takes as long as the copy. Cost: O(instructions).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Rewrite every reshape that moves bytes."""
        for inst in candidates(module, context, "reshape"):
            if forwards(inst):
                continue
            with context.rewriting(module, self.name):
                computation = inst.computation
                plain = in_layout(inst.operands[0], None)
                shape = inst.array.with_layout(None)
                reshape = make(computation, "reshape", shape, plain)
                computation.replace(inst, in_layout(reshape, inst.array.layout))


class ReduceDecomposer(RewritingPass):
    """Let a reduce keep the order of its operand's dimensions; a copy changes the layout after it.

    Not part of -O2: kernels of reductions write any layout. Cost: O(instructions).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Rewrite every reduce of one array whose result has another dimension order."""
        for inst in candidates(module, context, "reduce"):
            shape = _natural_shape(inst)
            if shape == inst.shape:
                continue
            with context.rewriting(module, self.name):
                computation = inst.computation
                reduced = like(computation, inst, *inst.operands, shape=shape)
                computation.replace(inst, in_layout(reduced, inst.array.layout))


def _natural_shape(inst: Instruction) -> ArrayShape:
    operand, reduced = inst.operands[0].array, inst.attributes.dimensions
    kept = [dim for dim in range(operand.rank) if dim not in reduced]
    order = tuple(kept.index(dim) for dim in operand.minor_to_major if dim not in reduced)
    return inst.array.with_layout(Layout(order))


def in_layout(inst: Instruction, layout: Layout | None) -> Instruction:
    """Return `inst`, copied if its layout differs."""
    shape = inst.array.with_layout(layout)
    return inst if shape == inst.shape else make(inst.computation, "copy", shape, inst)
