"""The call graph: which computations are control flow, and which are applied inside a kernel."""

from __future__ import annotations

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import Opcode, opcode_row
from hloc.ir.traversal import live_computations, post_order_from


def control_flow_computations(module: Module) -> tuple[Computation, ...]:
    """Return the entry and what loops, branches and calls reach from it, callees first.

    Fusion bodies, reducers and comparators are left out: they run inside a kernel.
    """
    return module.derived(_control_flow_computations)


def _control_flow_computations(module: Module) -> tuple[Computation, ...]:
    running = {module.entry}
    order = live_computations(module)
    for computation in reversed(order):  # callers before callees
        if computation in running:
            running.update(
                called
                for inst in computation.calling
                if inst.opcode.control_flow
                for called in inst.called
            )
    return tuple(c for c in order if c in running)


def effectful_computations(module: Module) -> frozenset[Computation]:
    """Return the computations that have a side effect, in themselves or in what they call."""
    return module.derived(_effectful_computations)


def _effectful_computations(module: Module) -> frozenset[Computation]:
    found: set[Computation] = set()
    if not module.derived(_has_effectful_opcode):
        return frozenset()
    for computation in live_computations(module):
        if any(has_side_effect(i, found) for i in perhaps_effectful(computation)):
            found.add(computation)
    return frozenset(found)


def perhaps_effectful(computation: Computation) -> list[Instruction]:
    """Return the instructions that may have a side effect, and all collectives."""
    return computation.derived(_perhaps_effectful)


def _perhaps_effectful(computation: Computation) -> list[Instruction]:
    if not computation.module.derived(_has_effectful_opcode):
        return list(computation.calling)
    return [inst for inst in computation.instructions if inst.called or _is_suspect(inst.opcode)]


def _has_effectful_opcode(module: Module) -> bool:
    return any(_is_suspect(opcode_row(name)) for name in module.opcodes)


def _is_suspect(opcode: Opcode) -> bool:
    return opcode.side_effect or opcode.exchange is not None or opcode.name == "custom-call"


def has_side_effect(
    inst: Instruction, effectful: frozenset[Computation] | set[Computation]
) -> bool:
    """True if `inst` has a side effect, given the computations that have one."""
    opcode = inst.opcode
    if opcode.side_effect:
        return True
    if opcode.name == "custom-call" and inst.attributes.custom_call_has_side_effect:
        return True
    return bool(inst.called) and any(called in effectful for called in inst.called)


def live_instructions(computation: Computation) -> list[Instruction]:
    """Return what the root or a side effect needs, operands before users."""
    effectful = effectful_computations(computation.module)
    roots = [computation.root]
    candidates = perhaps_effectful(computation)
    roots += [i for i in candidates if has_side_effect(i, effectful)]
    return post_order_from(roots)


def has_opcode(module: Module, *names: str) -> bool:
    """True if an instruction of `module` has one of the opcodes `names`."""
    return not module.opcodes.keys().isdisjoint(names)
