"""Simplify while loops: trip counts of 0 and 1, and unneeded state."""

from __future__ import annotations

import numpy as np

from hloc.analysis.call_graph import has_opcode
from hloc.analysis.liveness import Liveness, analyse_liveness
from hloc.analysis.loop_state import loop_state
from hloc.analysis.trip_count import TripCount, trip_count
from hloc.analysis.value_range import body_ranges, decided
from hloc.ir.clone import clone_computation, copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.control_flow.leafwise import has_control_dependencies, remove_uncalled
from hloc.opt.control_flow.loop_plan import Effects, plan_loop
from hloc.opt.control_flow.rewrite_loop import rewrite_loop
from hloc.opt.make import constant
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ShapeIndex


class WhileLoopSimplifier(RewritingPass):
    """Remove loops that run at most once, and unneeded state of the others.

    - `never`, `once`: the trip count is known to be 0 or 1, and the condition has no side effect.
    - `compare`: a compare in the body whose result the counter's range decides becomes a constant.
    - `final`: the final counter of a loop with a known trip count becomes a constant.
    - `state`: nested tuples are flattened; elements that are always equal are merged; invariant
      elements are read from the initial value, and inside the loop too if they are constants;
      elements that no condition, side effect or used result depends on are removed. A loop without
      remaining state or with an unused result is removed, even if it would not terminate.

    Skips loops with control dependencies, dynamic dimensions or differing layouts.
    Semantics: XLA's while_loop_simplifier and while_util. Cost: a few walks over each body.
    """

    acts_on = frozenset({"while"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Simplify inner loops first."""
        if not has_opcode(module, "while"):
            return
        effects = Effects()
        liveness = analyse_liveness(module)
        for inst in each_instruction(module, context, "while"):
            if not has_control_dependencies(inst):
                self._simplify(inst, effects, liveness, context)

    def _simplify(
        self, loop: Instruction, effects: Effects, liveness: Liveness, context: PassContext
    ) -> None:
        trips = trip_count(loop)
        if trips is not None and trips.count <= 1 and self._inline(loop, trips, effects, context):
            return
        if trips is not None and trips.variable is not None and not context.spent:
            self._write_final_value(loop, trips, trips.variable, context)
        if context.spent:
            return
        smaller = self._shrink(loop, effects, liveness, context)
        if smaller is not None:
            self._decide_compares(smaller, context)

    def _shrink(
        self, loop: Instruction, effects: Effects, liveness: Liveness, context: PassContext
    ) -> Instruction | None:
        """Shrink the state; return the loop, None if it was removed."""
        state = loop_state(loop)
        if state is None:
            text = "its state has dynamic dimensions or changes its layout"
            context.remark("missed", self.name, loop, text)
            return loop
        new = plan_loop(
            state,
            effects,
            lambda n: liveness.is_live(loop, state.indices[n]),
            known=lambda inst: inst.is_a("constant"),
        )
        if new is None:
            return loop
        with context.rewriting(loop.computation.module, f"{self.name}/state"):
            return rewrite_loop(state, new, effects)

    def _inline(
        self, loop: Instruction, trips: TripCount, effects: Effects, context: PassContext
    ) -> bool:
        """Replace a loop that runs at most once; False if it cannot be replaced."""
        condition, body = loop.called
        computation, module = loop.computation, loop.computation.module
        (init,) = loop.operands
        result_shape = body.root.shape if trips.count else init.shape
        if effects(condition) or result_shape != loop.shape:
            return False
        rule = "once" if trips.count else "never"
        with context.rewriting(module, f"{self.name}/{rule}"):
            result = init
            if trips.count:
                copies = copy_instructions(body, computation, {body.parameters[0]: init})
                result = copies[body.root]
            computation.replace(loop, result)
            computation.remove(loop)
            remove_uncalled(condition, body)
        return True

    def _write_final_value(
        self, loop: Instruction, trips: TripCount, variable: ShapeIndex, context: PassContext
    ) -> None:
        """Replace uses of the final counter by its constant value."""
        computation = loop.computation
        readers = (
            [loop]
            if not variable
            else [
                user
                for user in loop.users
                if user.is_a("get-tuple-element") and (user.attributes.index,) == variable
            ]
        )
        readers = [
            inst
            for inst in readers
            if (inst.users or inst.is_root) and not has_control_dependencies(inst)
        ]
        if not readers:
            return
        with context.rewriting(computation.module, f"{self.name}/final"):
            dtype = readers[0].array.dtype
            value = constant(computation, np.asarray(trips.final(dtype)).astype(dtype.numpy))
            for inst in readers:
                computation.replace(inst, value)

    def _decide_compares(self, loop: Instruction, context: PassContext) -> None:
        """Replace compares in the body that have the same result in every iteration."""
        condition, body = loop.called
        trips = trip_count(loop)
        if trips is None or context.spent or not _decided_compares(body, trips):
            return
        with context.rewriting(body.module, f"{self.name}/compare"):
            if len(body.callers) > 1 or condition is body:
                body = clone_computation(body)
                loop.computation.set_called(loop, (condition, body))
            for inst, answer in _decided_compares(body, trips):
                body.replace(inst, constant(body, np.bool_(answer)))


def _decided_compares(body: Computation, trips: TripCount) -> list[tuple[Instruction, bool]]:
    """Return the compares with the same result in every iteration, and that result."""
    compares = [inst for inst in body.instructions if inst.opcode.name == "compare"]
    ranges = body_ranges(body, trips) if compares else {}
    found = []
    for inst in compares:
        if not all(operand in ranges for operand in inst.operands):
            continue
        left, right = (ranges[operand] for operand in inst.operands)
        answer = decided(inst.attributes.direction, left, right)
        if answer is None or has_control_dependencies(inst):
            continue
        if inst.users or inst.is_root:
            found.append((inst, answer))
    return found
