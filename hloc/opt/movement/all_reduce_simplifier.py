"""Remove collectives of one participant."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations, post_order
from hloc.ops.participants import participants
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import TupleShape

_COLLECTIVES = frozenset(
    {
        "all-gather",
        "all-reduce",
        "all-to-all",
        "collective-broadcast",
        "collective-permute",
        "reduce-scatter",
    }
)


class AllReduceSimplifier(RewritingPass):
    """Replace collectives of one participant by their operands.

    Covers all-reduce, all-gather, all-to-all, reduce-scatter, collective-broadcast, and a
    collective-permute from 0 to 0, in a module of one replica and one partition or with groups of
    one. Control dependencies keep a collective. Cost: O(instructions).
    """

    acts_on = _COLLECTIVES

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Replace in every computation that is called."""
        for computation in live_computations(module):
            order = post_order(computation)
            pinned = computation.awaited
            for inst in order:
                if context.spent:
                    return
                if inst in pinned or inst.control_predecessors or not _is_alone(inst):
                    continue
                if not inst.users and not inst.is_root:
                    continue
                context.at = inst
                with context.rewriting(module, self.name):
                    computation.replace(inst, _operands_of(inst))


def _is_alone(inst: Instruction) -> bool:
    name = inst.opcode.name
    if name not in _COLLECTIVES or _shapes(inst) != [o.shape for o in inst.operands]:
        return False
    if name == "collective-permute" and tuple(inst.attributes.source_target_pairs) != ((0, 0),):
        return False
    return participants(inst) == 1


def _shapes(inst: Instruction) -> list[object]:
    return list(inst.shape.elements) if isinstance(inst.shape, TupleShape) else [inst.shape]


def _operands_of(inst: Instruction) -> Instruction:
    if not isinstance(inst.shape, TupleShape):
        return inst.operands[0]
    return make(inst.computation, "tuple", inst.shape, *inst.operands)
