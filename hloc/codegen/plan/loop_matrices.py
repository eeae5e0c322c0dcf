"""Parameters that products in loops read again and again.

Vectors of a cache line that do not begin at one take two accesses each. Arrays of NumPy seldom
begin at a line; a copy that does is soon paid for by a loop. On an x86 processor with vectors of
512 bits, 300 steps of `tanh(s @ w)` take 0.57 of the time for w of f32[256,256] and f32[512,512],
0.6 for f32[128,128]; 0.85 to 0.95 with vectors of 256 bits.
"""

from __future__ import annotations

from hloc.codegen.kernels.gemm_problem import is_gemm
from hloc.codegen.plan.plan import LoopStep, Plan, called_by, kernel_steps

MIN_BYTES, MAX_BYTES = 1 << 12, 1 << 20
"""Sizes for which it pays: a matrix that the caches keep from step to step."""


def loop_matrices(plan: Plan) -> tuple[tuple[int, int], ...]:
    """Return the slot of each such parameter, and its bytes; none that an output may overwrite."""
    aliased = {plan.table.first_parameter + alias.parameter for alias in plan.assignment.aliases}
    parameters = range(plan.table.first_parameter, plan.table.first_output)
    found: dict[int, int] = {}
    for number in _repeated(plan):
        for step in kernel_steps(plan.computations[number]):
            inst = plan.kernels[step.kernel].inst
            if inst.is_a("fusion") or not is_gemm(inst):
                continue
            for operand, place in zip(inst.operand_arrays, step.arguments, strict=False):
                is_parameter = place.slot in parameters and place.slot not in aliased
                if is_parameter and MIN_BYTES <= operand.size_bytes <= MAX_BYTES:
                    found[place.slot] = operand.size_bytes
    return tuple(sorted(found.items()))


def _repeated(plan: Plan) -> set[int]:
    """Return the numbers of the computations that loops run."""
    steps = (step for steps in plan.computations for step in steps)
    pending = [step.body for step in steps if isinstance(step, LoopStep)]
    found: set[int] = set()
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            pending += [n for step in plan.computations[number] for n in called_by(step)]
    return found
