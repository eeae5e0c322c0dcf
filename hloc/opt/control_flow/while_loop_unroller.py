"""Unroll short while loops."""

from __future__ import annotations

from hloc.analysis.trip_count import TripCount, trip_count
from hloc.ir.clone import copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import works_per_element
from hloc.opt.control_flow.leafwise import has_control_dependencies, remove_uncalled
from hloc.opt.control_flow.loop_plan import Effects
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class WhileLoopUnroller(RewritingPass):
    """Fully unroll loops with a small trip count and a small body.

    The counter, and with it the offsets of slices and updates, becomes constant once
    `constant-folding` and `algebraic-simplifier` have run. Inner loops first. Skips loops with an
    unknown trip count, a nested loop, a condition with a side effect, or control dependencies.

    Semantics: XLA's while_loop_unroller, full unrolling. Cost: O(instructions made).

    Attributes:
        max_trip_count: largest trip count.
        max_instructions: limit on the size of one unrolled loop.
        max_total_instructions: limit on the size of all unrolled loops of a run.
        maps_only: only loops that are elementwise over large arrays, or over few elements inside
            another loop, such as the rounds of a random number generator: the unrolled iterations
            fuse into one kernel and keep values in registers.
    """

    acts_on = frozenset({"while"})
    max_trip_count: int = 16
    max_instructions: int = 400
    max_total_instructions: int = 10_000
    maps_only: bool = False

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Unroll inner loops first."""
        effects = Effects()
        room = self.max_total_instructions
        for inst in each_instruction(module, context, "while"):
            if has_control_dependencies(inst):
                continue
            trips = trip_count(inst)
            refusal = self._refusal(inst, trips, effects, room)
            if refusal or trips is None:
                context.remark("missed", self.name, inst, refusal)
                continue
            room -= trips.count * len(inst.called[1])
            with context.rewriting(module, self.name):
                _unroll(inst, trips.count)

    def _refusal(
        self, loop: Instruction, trips: TripCount | None, effects: Effects, room: int
    ) -> str:
        """Return why `loop` is kept, "" if it is unrolled."""
        condition, body = loop.called
        if trips is None:
            return "its trip count is unknown"
        if trips.count > self.max_trip_count:
            return f"it runs {trips.count} times, more than {self.max_trip_count}"
        size = trips.count * len(body)
        if size > min(self.max_instructions, room):
            return f"it would become {size} instructions"
        if any(inst.is_a("while") for inst in body.instructions):
            return "there is a loop in its body"
        if self.maps_only and not (_maps_large_arrays(body) or _is_inner_map(loop)):
            return "its iterations are not elementwise over large arrays or inside another loop"
        if effects(condition):
            return "its condition has a side effect"
        if body.root.shape != loop.shape or loop.operands[0].shape != loop.shape:
            return "its state changes its layout or its dynamic dimensions"
        return ""


_LARGE = 1 << 12
"""Arrays of at least this many elements are better not stored between iterations."""


def _maps_large_arrays(body: Computation) -> bool:
    """True if `body` computes large arrays, all of them elementwise."""
    found = False
    for inst in body.instructions:
        if not isinstance(inst.shape, ArrayShape) or inst.is_a("parameter", "get-tuple-element"):
            continue
        if inst.array.elements >= _LARGE:
            if not (works_per_element(inst) or inst.is_a("broadcast", "iota")):
                return False
            found = found or bool(inst.operands)
        elif any(_is_large(o) for o in inst.operands):
            return False
    return found


_FEW = 16
"""Arrays of at most this many elements fit into registers."""


def _is_inner_map(loop: Instruction) -> bool:
    """True if `loop` is in the body of another one and computes few elements, elementwise."""
    if not any(caller.is_a("while") for caller in loop.computation.callers):
        return False
    for inst in loop.called[1].instructions:
        if inst.opcode.nop:
            continue
        if not isinstance(inst.shape, ArrayShape) or inst.array.elements > _FEW:
            return False
        if not (works_per_element(inst) or inst.opcode.data_movement or inst.is_a("iota")):
            return False
    return True


def _is_large(inst: Instruction) -> bool:
    return isinstance(inst.shape, ArrayShape) and inst.array.elements >= _LARGE


def _unroll(loop: Instruction, count: int) -> None:
    condition, body = loop.called
    computation = loop.computation
    value = loop.operands[0]
    for _ in range(count):
        value = copy_instructions(body, computation, {body.parameters[0]: value})[body.root]
    computation.replace(loop, value)
    computation.remove(loop)
    remove_uncalled(condition, body)
