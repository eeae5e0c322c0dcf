"""Unroll loops by two, so that their state alternates between two buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hloc.analysis.cost import costs_of
from hloc.analysis.dataflow import Position, forwards, nonempty_leaves
from hloc.analysis.in_place import may_overwrite
from hloc.analysis.leaf_source import leaf_source
from hloc.analysis.trip_count import TripCount, trip_count
from hloc.ir.clone import clone_computation, copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.opt.control_flow.leafwise import has_control_dependencies
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape


@dataclass(frozen=True)
class DoubleBufferLoopUnrolling(RewritingPass):
    """Unroll loops by two whose steps would copy much of their state.

    A step that reads neighbours of an element, or exchanges two leaves, cannot write the new state
    over the old one: it writes to other memory and copies the result back. In a body of two steps
    the second one reads that memory and writes to the buffer of the state, so nothing is copied.
    With an odd trip count the first step runs before the loop. Skips loops with an unknown trip
    count, an inner loop, side effects or collectives.

    Semantics: XLA's double-buffer-loop-unrolling, which unrolls loops of any state. Cost: linear in
    the instructions of loop bodies, and in the instructions made.

    Attributes:
        min_bytes: least number of bytes that are copied in each step.
        max_instructions: limit on the size of a body, without the bodies of fusions.
    """

    acts_on = frozenset({"while"})
    min_bytes: int = 4096
    max_instructions: int = 200

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Unroll the loops that it pays for."""
        for loop in each_instruction(module, context, "while"):
            if not self._pays(loop.called[1]):
                continue
            trips = trip_count(loop)
            refusal = self._refusal(loop, trips)
            if refusal or trips is None:
                context.remark("missed", self.name, loop, refusal)
                continue
            with context.rewriting(module, self.name):
                _unroll(loop, first_alone=trips.count % 2 == 1)

    def _refusal(self, loop: Instruction, trips: TripCount | None) -> str:
        """Return why `loop` is kept, "" if it is unrolled."""
        body = loop.called[1]
        if trips is None:
            return "its trip count is unknown"
        if trips.count < 2:
            return "it runs less than twice"
        if len(body) > self.max_instructions:
            return f"its body has {len(body)} instructions"
        if any(inst.is_a("while") for inst in body.instructions):
            return "there is a loop in its body"
        if has_control_dependencies(loop) or _has_effects(loop):
            return "it has side effects, collectives or control dependencies"
        if body.root.shape != loop.shape or loop.operands[0].shape != loop.shape:
            return "its state changes its layout or its dynamic dimensions"
        return ""

    def _pays(self, body: Computation) -> bool:
        """True if copies of state take a good part of the time of a step."""
        copied = _copied_bytes(body)
        if copied < self.min_bytes:
            return False
        cost = costs_of([*reachable_computations(body)])[body]
        operations = cost.flops + _TRANSCENDENTAL_OPERATIONS * cost.transcendentals
        return 2 * copied * _LEAST_SHARE >= cost.bytes + operations


_TRANSCENDENTAL_OPERATIONS = 10
_LEAST_SHARE = 16
"""Copies of at least this part of the bytes and operations of a step are worth unrolling."""


def _has_effects(loop: Instruction) -> bool:
    """True if a second copy of the body, or another order of its steps, could be observed."""
    return any(
        inst.opcode.side_effect
        or inst.opcode.exchange is not None
        or (inst.is_a("custom-call") and inst.attributes.custom_call_has_side_effect)
        for called in loop.called
        for computation in reachable_computations(called)
        for inst in computation.instructions
    )


def _copied_bytes(body: Computation) -> int:
    """Return the bytes of the new state that a step cannot write over the old state."""
    (state,) = body.parameters
    readers: dict[Position, list[tuple[Instruction, int]]] = {}
    for inst in body.instructions:
        if inst.is_a("tuple", "get-tuple-element") or forwards(inst):
            continue
        for number, operand in enumerate(inst.operands):
            readers.setdefault(_source(operand), []).append((inst, number))
    copied = 0
    for index, shape in nonempty_leaves(body.root.shape):
        at = _source(body.root, index)
        old = (state, index)
        if at != old and (at[0] is state or _outlives(readers.get(old, []), at)):
            copied += shape.size_bytes
    return copied


def _outlives(readers: list[tuple[Instruction, int]], new: Position) -> bool:
    """True if old state with these `readers` is needed when `new` is written."""
    inst, index = new
    if any(reader is inst and not may_overwrite(inst, n, index) for reader, n in readers):
        return True
    later = set(_users(inst))
    return any(reader in later for reader, _ in readers)


def _users(inst: Instruction) -> Iterator[Instruction]:
    """Yield the instructions that depend on `inst`."""
    seen: set[Instruction] = set()
    stack = [inst]
    while stack:
        for user in stack.pop().users:
            if user not in seen:
                seen.add(user)
                stack.append(user)
                yield user


def _source(inst: Instruction, index: tuple[int, ...] = ()) -> Position:
    """Return what defines part `index` of `inst`, looking through tuples and bitcasts."""
    while True:
        inst, index = leaf_source(inst, index)
        if index or not isinstance(inst.shape, ArrayShape) or not forwards(inst):
            return inst, index
        inst = inst.operands[0]


def _unroll(loop: Instruction, *, first_alone: bool) -> None:
    """Make the body of `loop` two steps; the first step of all runs before it if `first_alone`."""
    computation = loop.computation
    condition, body = loop.called
    if first_alone:
        copies = copy_instructions(body, computation, {body.parameters[0]: loop.operands[0]})
        computation.set_operands(loop, [copies[body.root]])
    if len(body.callers) > 1:
        body = clone_computation(body)
        computation.set_called(loop, [condition, body])
    copies = copy_instructions(body, body, {body.parameters[0]: body.root})
    body.set_root(copies[body.root])
    # XLA's record of the trip count no longer holds.
    computation.set_common(loop, replace(loop.common, backend_config=None))
