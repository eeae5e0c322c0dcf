"""XLA's print order of computations and instructions (format reference, 13.2 and 13.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloc.ir.async_chain import async_start_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction

if TYPE_CHECKING:
    from hloc.ir.module import Module


def computation_order(module: Module) -> list[Computation]:
    """Return the printed computations, called ones first, without wrappers shown as sugar."""
    order: list[Computation] = []
    visited: set[Computation] = set()
    for root in module.computations:
        if not root.callers:
            _visit(root, order, visited)
    return [c for c in order if not _shown_as_sugar(c)]


def _visit(root: Computation, order: list[Computation], visited: set[Computation]) -> None:
    """Append the callees of `root` and then `root`, depth first."""
    visited.add(root)
    stack = [(root, iter(root.instructions))]
    pending: list[Computation] = []
    bases: list[int] = [0]
    while stack:
        computation, instructions = stack[-1]
        if len(pending) > bases[-1]:
            callee = pending.pop()
            stack.append((callee, iter(callee.instructions)))
            bases.append(len(pending))
            continue
        inst = next(instructions, None)
        if inst is None:
            stack.pop()
            bases.pop()
            order.append(computation)
            continue
        for callee in reversed(_callees(inst)):
            if callee not in visited:
                visited.add(callee)
                pending.append(callee)


def _callees(inst: Instruction) -> tuple[Computation, ...]:
    """Return the called computations in XLA's order, which has a loop's body first."""
    return inst.called[::-1] if inst.opcode.name == "while" else inst.called


def instruction_order(computation: Computation, scheduled: bool = True) -> list[Instruction]:
    """Return the instructions in print order: the schedule, or post-order from unused ones.

    With `scheduled` False a schedule is ignored, as in bodies that are printed inline.
    """
    if scheduled and computation.module.config.is_scheduled and not computation.is_fusion:
        return list(computation.instructions)
    order: list[Instruction] = []
    seen: set[Instruction] = set()
    done: set[Instruction] = set()
    for root in computation.instructions:
        if root.users:
            continue
        stack = [root]
        while stack:
            inst = stack[-1]
            if inst in done:
                stack.pop()
            elif inst in seen:
                stack.pop()
                done.add(inst)
                order.append(inst)
            else:
                seen.add(inst)
                for operand in reversed(inst.operands):
                    if operand not in done:
                        stack.append(operand)
                for predecessor in inst.control_predecessors:
                    if predecessor not in done:
                        stack.append(predecessor)
    return order


def sugar_of(inst: Instruction) -> tuple[str, Instruction | None]:
    """Return the printed opcode of `inst`, and the instruction that an async-start wraps."""
    name = inst.opcode.name
    if not name.startswith("async-"):
        return name, None
    start = async_start_of(inst)
    if start is None or not start.called or not _is_wrapper(start.called[0]):
        return name, None
    inside = start.called[0].root
    half = name.removeprefix("async")
    return inside.opcode.name + half, inside if inst is start else None


def _is_wrapper(computation: Computation) -> bool:
    """Tell whether a computation consists of parameters and one instruction on them."""
    root = computation.root
    if root.opcode.name == "parameter" or len(computation) != len(root.operands) + 1:
        return False
    return all(
        operand.opcode.name == "parameter" and operand.attributes.number == number
        for number, operand in enumerate(root.operands)
    )


def _shown_as_sugar(computation: Computation) -> bool:
    return bool(computation.callers) and all(
        caller.opcode.name == "async-start" and _is_wrapper(computation)
        for caller in computation.callers
    )
