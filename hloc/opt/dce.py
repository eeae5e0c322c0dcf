"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Callable

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.analysis.divergence import fixed_collectives
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import (
    live_computations,
    post_order_from,
    reachable_computations,
    without_users,
)
from hloc.opt.pass_base import PassContext, RewritingPass


class DeadCodeElimination(RewritingPass):
    """Remove dead instructions without side effects, then uncalled computations.

    Parameters stay, except those of fusions, which are dropped with their operands. So do
    collectives that devices may not reach equally often. Expects verified IR. Cost: one walk,
    O(instructions).
    """

    name = "dce"

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Remove dead instructions, callers first, so that their callees die with them."""
        fixed, effectful = fixed_collectives(module), effectful_computations(module)

        def is_kept(inst: Instruction) -> bool:
            return has_side_effect(inst, effectful) or inst in fixed

        for computation in reversed(live_computations(module)):
            if computation.callers or computation is module.entry:
                self._remove_dead(computation, is_kept, context)
        self._remove_uncalled(module, context)

    def _remove_dead(
        self,
        computation: Computation,
        is_kept: Callable[[Instruction], bool],
        context: PassContext,
    ) -> None:
        """Remove dead instructions, users before operands, then dead parameters of a fusion."""
        dead = _dead_instructions(computation, is_kept)
        if not dead:
            return
        parameters = [i for i in dead if i.opcode.name == "parameter"]
        dead = [i for i in dead if i.opcode.name != "parameter"]
        removal = context.rewriting(computation.module, self.name)
        for inst in reversed(operands_first(dead)):
            if context.spent:
                return
            with removal:
                computation.remove(inst)
        if parameters and len(computation.callers) == 1 and computation.is_fusion:
            (fusion,) = computation.callers
            _drop_fusion_parameters(computation, fusion, parameters, context)

    def _remove_uncalled(self, module: Module, context: PassContext) -> None:
        reachable = set(live_computations(module))
        dead = [c for c in module.computations if c not in reachable]
        removal = context.rewriting(module, self.name)
        for computation in _callers_first(dead):
            if context.spent:
                return
            with removal:
                module.remove_computation(computation)


def _dead_instructions(
    computation: Computation, is_kept: Callable[[Instruction], bool]
) -> list[Instruction]:
    """Return what neither the root nor a kept instruction needs, in stored order.

    Dead are the instructions without users, then those that only dead ones use, and so on: what is
    alive is not walked over.
    """
    root = computation.root
    unused = without_users(computation)
    if unused == [root]:
        return []
    followers: dict[Instruction, int] = {}
    for inst in computation.controlled:
        for predecessor in dict.fromkeys(inst.control_predecessors):
            followers[predecessor] = followers.get(predecessor, 0) + 1
    left: dict[Instruction, int] = {}  # users and followers that are not known to be dead
    waiting = [inst for inst in unused if inst not in followers]
    dead: set[Instruction] = set()
    while waiting:
        inst = waiting.pop()
        if inst is root or is_kept(inst):
            continue
        dead.add(inst)
        for needed in (inst.operands, inst.control_predecessors):
            for before in dict.fromkeys(needed):
                count = left.get(before, len(before.users) + followers.get(before, 0)) - 1
                left[before] = count
                if not count:
                    waiting.append(before)
    return [inst for inst in computation.instructions if inst in dead] if dead else []


def operands_first(members: list[Instruction]) -> list[Instruction]:
    """Return `members`, a set closed under users, with operands before users."""
    inside = set(members)
    needed = {o for i in members for o in (*i.operands, *i.control_predecessors)}
    last = (i for i in members if inside.isdisjoint(i.users))
    return post_order_from(last, without=needed - inside)


def _callers_first(dead: list[Computation]) -> list[Computation]:
    unwanted = set(dead)
    return [c for c in reversed(reachable_computations(*dead)) if c in unwanted]


def _drop_fusion_parameters(
    body: Computation, fusion: Instruction, unused: list[Instruction], context: PassContext
) -> None:
    """Remove unused parameters of a fusion and the matching operands."""
    if context.spent or fusion.attributes.output_to_operand_aliasing:
        return
    numbers = {inst.attributes.number for inst in unused}
    kept = [inst for inst in body.parameters if inst.attributes.number not in numbers]
    with context.rewriting(body.module, DeadCodeElimination.name):
        for inst in unused:
            body.remove(inst)
        for number, inst in enumerate(kept):
            body.set_attributes(inst, type(inst.attributes)(number=number))
        fusion.computation.set_operands(
            fusion, [o for i, o in enumerate(fusion.operands) if i not in numbers]
        )
