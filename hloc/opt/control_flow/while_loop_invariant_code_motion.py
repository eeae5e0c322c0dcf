"""Hoist loop-invariant instructions out of while loops."""

from __future__ import annotations

from hloc.analysis.dataflow import Position
from hloc.analysis.leaf_source import leaf_source
from hloc.analysis.loop_state import LoopState, leaf_classes, loop_state
from hloc.analysis.trip_count import trip_count
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order, reachable_computations
from hloc.opt.control_flow.leafwise import Copier, has_control_dependencies, part_of
from hloc.opt.control_flow.loop_plan import Effects
from hloc.opt.control_flow.rewrite_loop import NewState, rewrite_loop
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction
from hloc.shapes import ArrayShape, leaves

_EXPENSIVE = 4
"""Weight of a division; results at least this expensive are always hoisted."""

_SMALL_BYTES = 256


class WhileLoopInvariantCodeMotion(RewritingPass):
    """Hoist instructions that depend only on loop-invariant state and constants.

    Hoists dots, reductions, transcendental functions and the like with their operands. Shape
    changes, broadcasts and constants are not hoisted for their own sake, nor is cheap arithmetic
    whose result is larger than its operands, since recomputing it is cheaper than loading it. Skips
    loops that run at most once, instructions with side effects or control dependencies, and nested
    loops and branches. State read only by hoisted instructions is left to `while-loop-simplifier`.

    Semantics: XLA's while_loop_invariant_code_motion. Cost: O(body) a loop.
    """

    acts_on = frozenset({"while"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Hoist out of inner loops first, then out of outer ones."""
        effects = Effects()
        for inst in each_instruction(module, context, "while"):
            if not has_control_dependencies(inst):
                self._move(inst, effects, context)

    def _move(self, loop: Instruction, effects: Effects, context: PassContext) -> None:
        state = loop_state(loop)
        trips = trip_count(loop)
        if state is None or (trips is not None and trips.count <= 1):
            return
        found = _found(state, effects)
        if not found:
            return
        text = f"{len(found)} loop-invariant values are hoisted"
        context.remark("passed", self.name, loop, text)
        with context.rewriting(loop.computation.module, self.name):
            every = tuple(range(len(state)))
            hoisted = dict(zip(found, _copied_in_front(state, found), strict=True))
            rewrite_loop(state, NewState(every, every, hoisted=hoisted), effects)


def _found(state: LoopState, effects: Effects) -> list[Position]:
    """Return the values worth hoisting that a remaining instruction uses."""
    body = state.loop.called[1]
    order = post_order(body)
    movable, worth = _movable(state, order, frozenset(effects(body)))
    found: list[Position] = []
    staying: set[Instruction] = set()
    for inst in reversed(order):
        if inst in movable and inst is not body.root:
            if not any(user in staying for user in inst.users):
                continue
            if inst in worth:
                found.append(leaf_source(inst))
                continue
        staying.add(inst)
    return found[::-1]


def _movable(
    state: LoopState, order: list[Instruction], effectful: frozenset[Instruction]
) -> tuple[dict[Instruction, int], set[Instruction]]:
    """Return the hoistable instructions, with the bytes they read, and those worth hoisting."""
    invariant = leaf_classes(state).invariant
    pinned = state.loop.called[1].awaited
    movable: dict[Instruction, int] = {}
    worth: set[Instruction] = set()
    heavy: set[Instruction] = set()  # like `worth`, but with several results, hoisted by element
    for inst in order:
        source, index = leaf_source(inst)
        if source is state.parameter:
            n = state.number.get(index, -1)
            if n in invariant:
                movable[inst] = state.shapes[n].size_bytes
        elif source is not inst:
            if source in movable and isinstance(inst.shape, ArrayShape):
                movable[inst] = movable[source]
                if source in heavy:
                    worth.add(inst)
        elif all(operand in movable for operand in inst.operands) and _may_move(inst):
            if inst in effectful or inst in pinned:
                continue
            size = inst.shape.size_bytes
            read = sum(movable[operand] for operand in inst.operands)
            if _is_worth(inst, read):
                movable[inst] = size
                (worth if isinstance(inst.shape, ArrayShape) else heavy).add(inst)
            else:
                movable[inst] = size if inst.is_a("constant") else min(read, size)
    return movable, worth


def _may_move(inst: Instruction) -> bool:
    row = inst.opcode
    if row.control_flow or row.forwards or inst.is_a("parameter", "after-all"):
        return False  # a loop that hangs must hang only where the program reaches it
    if inst.control_predecessors or row.refusal or row.exchange is not None:
        return False  # an instruction that is refused, or waits, must stay where it is
    if any(i.is_a("while") for c in reachable_computations(*inst.called) for i in c.instructions):
        return False
    return all(
        isinstance(shape, ArrayShape) and not shape.dtype.is_special and not any(shape.dynamic)
        for _, shape in leaves(inst.shape)
    )


def _is_worth(inst: Instruction, read: int) -> bool:
    """True if loading the result is cheaper than computing it from `read` bytes."""
    if _is_free(inst):
        return False
    if inst.shape.size_bytes <= max(read, _SMALL_BYTES):
        return True
    return not inst.opcode.elementwise or inst.opcode.weight >= _EXPENSIVE


def _is_free(inst: Instruction) -> bool:
    """True if recomputing is cheaper than loading; hoisted only with its users."""
    moves = inst.opcode.data_movement and len(inst.operands) == 1
    return moves or inst.opcode.nop or inst.is_a("iota")


def _copied_in_front(state: LoopState, found: list[Position]) -> list[Instruction]:
    """Copy `found` and their operands into the loop's computation."""
    loop = state.loop
    copier = Copier(loop.computation, lambda index: part_of(loop.operands[0], index))
    copier.copy(found)
    return [copier.part(*at) for at in found]
