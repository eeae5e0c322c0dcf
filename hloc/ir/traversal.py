"""Walks over instructions and computations; all iterative, since real graphs are 3,700 deep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module


def post_order_from(
    roots: Iterable[Instruction], *, without: Iterable[Instruction] = ()
) -> list[Instruction]:
    """Return `roots` and their transitive operands, operands before users, each once.

    The walk ends at the instructions of `without`, which are left out.

    The order is XLA's (format reference, 13.3): operands first to last, after the control
    predecessors, whose last one comes first.
    """
    order: list[Instruction] = []
    seen = set(without)
    entered: list[tuple[Instruction | None, Iterator[Instruction]]] = []
    inst, needed = None, iter(roots)  # no instruction needs the roots
    while True:
        for before in needed:
            if before in seen:
                continue
            seen.add(before)
            needs = before.operands
            if before.control_predecessors:
                needs = (*reversed(before.control_predecessors), *needs)
            if needs:
                entered.append((inst, needed))
                inst, needed = before, iter(needs)
                break
            order.append(before)
        else:
            if inst is None:
                return order
            order.append(inst)
            inst, needed = entered.pop()


def post_order(computation: Computation) -> list[Instruction]:
    """Return all instructions of `computation`, operands before users, dead ones too."""
    return list(computation.derived(_post_order))


def without_users(computation: Computation) -> list[Instruction]:
    """Return the instructions that no other reads, in stored order."""
    return computation.derived(_without_users)


def _without_users(computation: Computation) -> list[Instruction]:
    return [inst for inst in computation.instructions if not inst.users]


def _post_order(computation: Computation) -> list[Instruction]:
    return post_order_from(without_users(computation))


def live_order(computation: Computation) -> list[Instruction]:
    """Return the root of `computation` and its transitive operands, operands before users."""
    return list(computation.derived(_live_order))


def _live_order(computation: Computation) -> list[Instruction]:
    return post_order_from((computation.root,))


def reachable_computations(*roots: Computation) -> list[Computation]:
    """Return `roots` and every computation they call, directly or not, each once, callees first."""
    order: list[Computation] = []
    state: dict[Computation, bool] = {}
    for root in roots:
        stack = [root]
        while stack:
            computation = stack[-1]
            seen = state.get(computation)
            if seen is None and (calls := computation.calling):
                state[computation] = False
                calls = calls[::-1]  # the first call ends on top
                stack.extend([c for i in calls for c in reversed(i.called) if c not in state])
                continue
            stack.pop()
            if not seen:
                state[computation] = True
                order.append(computation)
    return order


def live_computations(module: Module) -> tuple[Computation, ...]:
    """Return the entry and every computation it calls, directly or not, callees first."""
    return module.derived(_live_computations)


def _live_computations(module: Module) -> tuple[Computation, ...]:
    return tuple(reachable_computations(module.entry))


def all_instructions(module: Module) -> Iterator[Instruction]:
    """Yield every instruction of `module`, computations and instructions in text order."""
    for computation in module.computations:
        yield from computation.instructions
