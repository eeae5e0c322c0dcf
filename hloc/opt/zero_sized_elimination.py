"""Replace arrays without elements by constants."""

from __future__ import annotations

import numpy as np

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.literal import MAX_EMPTY_GROUPS, Literal, empty_groups
from hloc.ops.builder import Builder
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape


class ZeroSizedElimination(RewritingPass):
    """Replace instructions whose result has no elements by an empty constant of that shape.

    Uses a broadcast of a scalar where the text of the constant would be long (`f32[3000000000,0]`
    has a pair of braces for each row). Side effects and control dependencies are kept. Cost: one
    walk, O(instructions).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Replace in every computation that is called."""
        effectful = effectful_computations(module)
        for computation in live_computations(module):
            insts = computation.instructions
            empty = [i for i in insts if isinstance(i.shape, ArrayShape) and not i.shape.elements]
            for inst in filter(_is_replaced, empty):
                context.at = inst
                if not has_side_effect(inst, effectful) and not context.spent:
                    with context.rewriting(module, self.name):
                        computation.replace(inst, _empty(computation, inst.array))


def _empty(computation: Computation, shape: ArrayShape) -> Instruction:
    """Add an empty array of `shape`."""
    b = Builder(computation)
    if empty_groups(shape.dims) > MAX_EMPTY_GROUPS:
        zero = b.constant(np.zeros((), shape.dtype.numpy), shape.dtype)
        return b.instruction("broadcast", (zero,), shape=shape, dimensions=())
    literal = Literal(shape.with_layout(None), np.zeros(shape.dims, shape.dtype.numpy))
    return make(computation, "constant", shape, literal=literal)


def _is_replaced(inst: Instruction) -> bool:
    """True if an array without elements is to become a constant."""
    shape = inst.array
    return (
        not shape.dtype.is_special
        and not shape.dynamic
        and inst.opcode.name not in ("parameter", "constant")
        and not _is_scalar_broadcast(inst)
        and not inst.control_predecessors
        and (bool(inst.users) or inst.is_root)
    )


def _is_scalar_broadcast(inst: Instruction) -> bool:
    """True for the result of `_empty` for a shape whose constant would be long."""
    is_long = empty_groups(inst.array.dims) > MAX_EMPTY_GROUPS
    return is_long and inst.is_a("broadcast") and inst.operands[0].is_a("constant")
