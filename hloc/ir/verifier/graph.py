"""Verify the graph: calls, operands and users, order, parameters."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.errors import Diagnostic
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order, reachable_computations
from hloc.ir.verifier.faults import fault


def check_call_graph(module: Module) -> Iterator[Diagnostic]:
    """Yield faults of calls: the entry called, recursion, inconsistent callers."""
    known = set(module.computations)
    if module.entry.callers:
        caller = next(iter(module.entry.callers))
        yield fault("HLOC0301", f"the entry computation is called by '{caller.name}'", caller)
    order = reachable_computations(*module.computations)
    position = {computation: i for i, computation in enumerate(order)}
    for computation in module.computations:
        at = position[computation]
        for inst in computation.instructions:
            for called in inst.called:
                if called not in known:
                    yield fault("HLOC0302", f"calls '{called.name}' of another module", inst)
                elif position[called] >= at:
                    yield fault("HLOC0303", f"computation '{called.name}' calls itself", inst)
                elif inst not in called.callers:
                    yield fault("HLOC0304", f"is missing among callers of '{called.name}'", inst)


def check_graph(computation: Computation) -> list[Diagnostic]:
    """Return faults of operands, users, order and parameters of `computation`."""
    if not computation.has_root:
        return [Diagnostic(f"computation '{computation.name}' has no root", code="HLOC0305")]
    faults: list[Diagnostic] = []
    instructions = computation.instructions
    seen: set[Instruction] = set()
    ordered = True
    uses = users = 0
    for inst in instructions:
        operands = inst.operands
        for operand in operands:
            if operand not in seen:
                ordered = False
            if inst not in operand.users:
                faults.append(_missing_user(inst, operand))
        for before in inst.control_predecessors:
            if before not in seen:
                ordered = False
        seen.add(inst)
        uses += len(operands) if len(operands) < 2 else len(set(operands))
        users += len(inst.users)
    if not ordered:
        outside = list(_outside(computation))
        faults += outside
        if not outside and not faults:
            faults += _check_order(computation)
    if uses != users:
        faults += _false_users(instructions)
    faults += _check_parameters(computation)
    return faults


def _missing_user(inst: Instruction, operand: Instruction) -> Diagnostic:
    return fault("HLOC0307", f"is missing among the users of '{operand.name}'", inst)


def _outside(computation: Computation) -> Iterator[Diagnostic]:
    """Yield a fault for every operand that is in another computation, or in none."""
    for inst in computation.instructions:
        for operand in (*inst.operands, *inst.control_predecessors):
            if operand not in computation:
                yield fault(
                    "HLOC0306", f"operand '{operand.name}' is not in '{computation.name}'", inst
                )


def _false_users(instructions: tuple[Instruction, ...]) -> Iterator[Diagnostic]:
    for inst in instructions:
        for user in inst.users:
            if inst not in user.operands:
                yield fault("HLOC0307", f"has user '{user.name}', which does not use it", inst)


def _check_order(computation: Computation) -> Iterator[Diagnostic]:
    """Yield a fault if operands or control predecessors form a cycle, or break the schedule."""
    order = post_order(computation)
    position = {inst: i for i, inst in enumerate(order)}
    for inst in computation.instructions:
        at = position.get(inst)
        for before in (*inst.operands, *inst.control_predecessors):
            if at is None or position[before] >= at:
                yield fault("HLOC0308", f"depends on itself through '{before.name}'", inst)
                return
    if computation.module.config.is_scheduled and not computation.is_fusion:
        yield from _check_schedule(computation)


def _check_schedule(computation: Computation) -> Iterator[Diagnostic]:
    """Yield a fault for each instruction of a scheduled computation before something it needs."""
    seen: set[Instruction] = set()
    for inst in computation.instructions:
        for before in (*inst.operands, *inst.control_predecessors):
            if before not in seen:
                yield fault("HLOC0315", f"is scheduled before '{before.name}', it needs it", inst)
        seen.add(inst)


def _check_parameters(computation: Computation) -> Iterator[Diagnostic]:
    parameters = computation.parameters
    numbers = [p.attributes.number for p in parameters]
    if numbers != list(range(len(numbers))):
        yield Diagnostic(
            f"parameters of '{computation.name}' are numbered {numbers}, "
            f"expected 0 to {len(numbers) - 1}, each once",
            parameters[0].span,
            code="HLOC0309",
        )
