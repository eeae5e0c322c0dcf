"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.analysis.divergence import fixed_collectives
from hloc.analysis.structures import Structures
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations, post_order
from hloc.opt.pass_base import PassContext, RewritingPass


class CommonSubexpressionElimination(RewritingPass):
    """Merge instructions of a computation that compute the same value.

    Compares opcode, shape with layout, attributes, result accuracy, operands (in any order if
    commutative) and the structure of called computations; constants bit for bit. The channels of
    collectives may differ; collectives that devices may not reach equally often are left alone.
    Leaves the duplicates dead. Cost: one walk, O(instructions).
    """

    name = "cse"

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Merge duplicates in every computation that is called."""
        effectful = effectful_computations(module)
        fixed = fixed_collectives(module)
        structures = Structures()
        for computation in live_computations(module):
            if len(computation) - len(computation.parameters) < 2:
                continue  # fewer than two instructions to merge
            self._run_on(computation, structures, effectful, context, fixed)

    def _run_on(
        self,
        computation: Computation,
        structures: Structures,
        effectful: frozenset[Computation],
        context: PassContext,
        fixed: frozenset[Instruction],
    ) -> None:
        first: dict[Hashable, Instruction] = {}
        order = post_order(computation)
        ordered = {p for inst in order for p in inst.control_predecessors}
        for inst in order:
            if context.spent:
                return
            if inst in ordered or inst.control_predecessors or not _may_merge(inst, effectful):
                continue
            if inst in fixed:
                continue
            if not inst.users and not inst.is_root:
                continue  # otherwise the next run would swap the two
            context.at = inst
            same = first.setdefault(structures.key(inst), inst)
            if same is not inst:
                with context.rewriting(computation.module, self.name):
                    computation.replace(inst, same)


def _may_merge(inst: Instruction, effectful: frozenset[Computation]) -> bool:
    name = inst.opcode.name
    if name == "constant":
        return not inst.attributes.literal.is_elided
    return name != "parameter" and not has_side_effect(inst, effectful)
