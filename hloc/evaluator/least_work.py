"""A lower bound on the instructions of a run, known before it: calls may double at each level."""

from __future__ import annotations

from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order
from hloc.limits import Limits, current_limits, limit_note


def check_work(entry: Computation) -> None:
    """Raise HloError if a run must exceed the limit, instead of after minutes of running."""
    limits = current_limits()
    counts: dict[Computation, int] = {}
    pending = [entry]
    while pending:
        computation = pending[-1]
        if computation in counts:
            pending.pop()
            continue
        missing = [
            called
            for inst in post_order(computation)
            for called in inst.called
            if called not in counts
        ]
        pending.extend(dict.fromkeys(missing))
        if not missing:
            counts[computation] = _least_count(computation, counts)
    if counts[entry] > limits.evaluated_instructions:
        raise too_much_work(entry, limits)


def _least_count(computation: Computation, counts: dict[Computation, int]) -> int:
    """Return the minimum number of instructions of one run; loops count their first condition."""
    return sum(1 + _called_count(inst, counts) for inst in post_order(computation))


def _called_count(inst: Instruction, counts: dict[Computation, int]) -> int:
    if not inst.called:
        return 0
    if inst.is_a("while"):
        return counts[inst.called[0]]
    if inst.is_a("conditional"):
        return min(counts[called] for called in inst.called)
    if inst.opcode.control_flow or inst.is_a("fusion"):
        return sum(counts[called] for called in inst.called)
    return 0


def too_much_work(computation: Computation, limits: Limits) -> HloError:
    """Return the error for a run with more instructions than the limit."""
    most = limits.evaluated_instructions
    return HloError(
        f"the reference evaluator runs at most {most} instructions; {computation.name} needs more",
        notes=("compiled code has no such limit", limit_note("evaluated-instructions")),
    )
