"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from hloc.analysis.call_graph import effectful_computations, has_side_effect, perhaps_effectful
from hloc.analysis.divergence import fixed_collectives
from hloc.analysis.structures import Structures, inputs
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
    is_complete: ClassVar[bool] = True

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
        """Replace each instruction by the first that computes the same value, operands first.

        Operands are merged before their users are compared, so one walk finds whole equal
        expressions. Not merged: instructions with control dependencies or side effects, and
        collectives in `fixed`.
        """
        values = _Values(structures)
        effects = [i for i in perhaps_effectful(computation) if has_side_effect(i, effectful)]
        pinned = fixed.union(computation.controlled, computation.awaited, effects)
        merging = context.rewriting(computation.module, self.name)
        for inst in post_order(computation):
            name = inst.opcode.name
            if name == "parameter" or inst in pinned:
                continue
            if name == "constant" and inst.attributes.literal.is_elided:
                continue
            if not inst.users and not inst.is_root:
                continue  # otherwise the next run would swap the two
            context.at = inst
            same = values.first(inst)
            if same is not inst:
                if context.spent:
                    return
                with merging:
                    computation.replace(inst, same)


class _Values:
    """The values of a computation, each with the first instruction that computes it.

    Most differ from all others in opcode or operands: shapes, attributes and called computations
    are looked at only where these are equal.
    """

    def __init__(self, structures: Structures) -> None:
        self._structures = structures
        self._alone: dict[Hashable, Instruction | None] = {}
        self._first: dict[Hashable, Instruction] = {}

    def first(self, inst: Instruction) -> Instruction:
        """Return the first instruction with the value of `inst`, which may be `inst`."""
        reads = inputs(inst)
        other = self._alone.setdefault(reads, inst)
        if other is inst:
            return inst
        if other is not None:
            self._first[self._structures.key(other)] = other
            self._alone[reads] = None
        return self._first.setdefault(self._structures.key(inst), inst)
