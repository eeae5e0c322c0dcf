"""Short loops written out step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hloc.analysis.trip_count import TripCount, trip_count
from hloc.ir.clone import copy_instructions
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.control_flow.leafwise import has_control_dependencies, remove_uncalled
from hloc.opt.control_flow.loop_plan import Effects
from hloc.opt.pass_base import PassContext, Remark
from hloc.opt.walk import each_instruction


@dataclass(frozen=True)
class WhileLoopUnroller:
    """Replace a loop of few steps and a small body by its steps, one after another.

    The counter is a constant in every step then, and so are the places of slices and updates, once
    `constant-folding` and `algebraic-simplifier` have run. Inner loops go first. Loops that stay:
    those whose number of steps is not known, whose body holds another loop, whose condition has a
    side effect, and those with control dependencies.

    Semantics: XLA's while_loop_unroller, full unrolling. Cost: O(instructions made).

    Attributes:
        max_trip_count: most steps.
        max_instructions: most instructions that one loop may become.
        max_total_instructions: most instructions that all loops of a run may become.
    """

    name: ClassVar[str] = "while-loop-unroller"
    max_trip_count: int = 16
    max_instructions: int = 400
    max_total_instructions: int = 10_000

    def run(self, module: Module, context: PassContext) -> bool:
        """Unroll inner loops first."""
        before = context.rewrites
        effects = Effects()
        room = self.max_total_instructions
        for inst in each_instruction(module, context):
            if not inst.is_a("while") or has_control_dependencies(inst):
                continue
            trips = trip_count(inst)
            refusal = self._refusal(inst, trips, effects, room)
            if refusal or trips is None:
                if context.remarks is not None:
                    context.remarks.append(Remark("missed", self.name, inst.name, refusal))
                continue
            room -= trips.count * len(inst.called[1])
            with context.rewriting(module, self.name):
                _unroll(inst, trips.count)
        return context.rewrites > before

    def _refusal(
        self, loop: Instruction, trips: TripCount | None, effects: Effects, room: int
    ) -> str:
        """Return why `loop` stays, "" if it goes."""
        condition, body = loop.called
        if trips is None:
            return "the number of its steps is not known"
        if trips.count > self.max_trip_count:
            return f"it runs {trips.count} times, more than {self.max_trip_count}"
        size = trips.count * len(body)
        if size > min(self.max_instructions, room):
            return f"it would become {size} instructions"
        if any(inst.is_a("while") for inst in body.instructions):
            return "there is a loop in its body"
        if effects(condition):
            return "its condition has a side effect"
        if body.root.shape != loop.shape or loop.operands[0].shape != loop.shape:
            return "its state changes its layout or its dynamic dimensions"
        return ""


def _unroll(loop: Instruction, count: int) -> None:
    condition, body = loop.called
    computation = loop.computation
    value = loop.operands[0]
    for _ in range(count):
        value = copy_instructions(body, computation, {body.parameters[0]: value})[body.root]
    computation.replace(loop, value)
    computation.remove(loop)
    remove_uncalled(condition, body)
