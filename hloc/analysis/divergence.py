"""Divergent computations: devices may run them different numbers of times.

All devices run one program on their own data. Straight-line code and loops of a known trip count
run alike on all of them; a branch or a loop whose end depends on data may not.
"""

from __future__ import annotations

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.trip_count import trip_count
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops import OPCODES

_EXCHANGES = frozenset(row.name for row in OPCODES.values() if row.exchange is not None)


def divergent_collectives(module: Module) -> frozenset[Computation]:
    """Return the computations whose collectives must keep their number and order.

    Another device may run the matching collective elsewhere, such as in the other branch of
    a conditional. In other computations all devices run the same collectives, so a pass may change
    them.
    """
    if not any(name in module.opcodes for name in _EXCHANGES):
        return frozenset()
    return divergent_computations(module)


def fixed_collectives(module: Module) -> frozenset[Instruction]:
    """Return the collectives of `divergent_collectives`, and the control flow among them."""
    return frozenset(
        inst
        for computation in divergent_collectives(module)
        for inst in computation.instructions
        if inst.opcode.exchange is not None or inst.opcode.control_flow
    )


def may_diverge(computation: Computation) -> bool:
    """True if a branch or a loop of unknown trip count runs `computation`, directly or not.

    Like `divergent_computations`, for one computation of a module that a pass is changing.
    """
    seen = {computation}
    waiting = [computation]
    while waiting:
        for caller in waiting.pop().callers:
            if caller.opcode.control_flow and _diverges(caller):
                return True
            if caller.computation not in seen:
                seen.add(caller.computation)
                waiting.append(caller.computation)
    return False


def divergent_computations(module: Module) -> frozenset[Computation]:
    """Return what branches and loops of unknown trip count run, directly or not."""
    return module.derived(_divergent_computations)


def _divergent_computations(module: Module) -> frozenset[Computation]:
    result: set[Computation] = set()
    for computation in reversed(control_flow_computations(module)):  # callers first
        for inst in computation.instructions:
            if inst.opcode.control_flow and (computation in result or _diverges(inst)):
                result.update(inst.called)
    return frozenset(result)


def _diverges(inst: Instruction) -> bool:
    if inst.is_a("conditional"):
        return not inst.operands[0].is_a("constant")
    if not inst.is_a("while"):
        return False
    trips = trip_count(inst)
    return trips is None or trips.variable is None
