"""Loops of few instructions, compiled as one function with their kernels inlined.

A short loop body must not call kernels through memory in each iteration. The function receives the
table's pointers as arguments, so that LLVM sees which memory cannot alias and keeps the loop state
in registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hloc.codegen.builder.loops import has_only_short_loops
from hloc.codegen.cpu.kernel import Kernel
from hloc.codegen.plan.plan import (
    BranchStep,
    CopyStep,
    ExchangeStep,
    HostStep,
    KernelStep,
    LoopStep,
    Plan,
    Step,
    called_by,
)
from hloc.codegen.plan.pointer_table import STOP_SLOT, Place
from hloc.lazy_dataclass import dataclass

_MOST_LINES = 1200
"""Most lines of the kernels of such a loop."""

_MOST_COPIED_LINES, _MOST_COPIED_NANOSECONDS = 200, 50
"""Most lines of a kernel of which each of several steps has a copy; longest estimated time if it
has loops that are not unrolled.

A call takes some 2 ns, and the results of the kernels around it go through memory. LLVM takes as
long for each copy as for the kernel: the gradient of a neural differential equation then compiles
in half of the time.
"""


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """A loop in a function of its own.

    Attributes:
        slots: slots of the table that the loop uses, in the order of its arguments.
        shared: slots whose pointers may alias.
        computations: numbers of all computations that it runs.
        kernels: numbers of the kernels, inlined unless they are in `called`.
        called: long kernels of several steps, which would each have a copy.
    """

    step: LoopStep
    slots: tuple[int, ...]
    shared: frozenset[int]
    computations: tuple[int, ...]
    kernels: tuple[int, ...]
    called: frozenset[int]

    @property
    def name(self) -> str:
        """The name of the function."""
        return f"loop_{self.step.body}"


def loop_functions(plan: Plan, kernels: Sequence[Kernel]) -> dict[LoopStep, LoopFunction]:
    """Return the loops of `plan` that become functions, outermost ones only."""
    # A kernel that calls routines or runs on several threads counts as long.
    lines = [
        _MOST_LINES + 1 if k.routines or k.split is not None else k.text.count("\n")
        for k in kernels
    ]
    result: dict[LoopStep, LoopFunction] = {}
    pending = [0]
    seen = {0}
    while pending:
        for step in plan.computations[pending.pop()]:
            if isinstance(step, LoopStep):
                loop = _loop_function(plan, kernels, lines, step)
                if loop is not None:
                    result[step] = loop
                    continue
            new = [number for number in called_by(step) if number not in seen]
            seen.update(new)
            pending += new
    return result


def _loop_function(
    plan: Plan, kernels: Sequence[Kernel], lines: Sequence[int], step: LoopStep
) -> LoopFunction | None:
    """Return the function of a loop, None if it has large kernels, or calls host or engine."""
    computations: list[int] = []
    calls: Counter[int] = Counter()
    slots = {STOP_SLOT, step.predicate.slot}
    pending = [step.body, step.condition]
    while pending:
        number = pending.pop()
        if number in computations:
            continue
        computations.append(number)
        for inner in plan.computations[number]:
            if isinstance(inner, HostStep | ExchangeStep):
                return None
            if isinstance(inner, KernelStep):
                calls[inner.kernel] += 1
                if sum(lines[kernel] for kernel in calls) > _MOST_LINES:
                    return None
            slots.update(place.slot for place in _places(inner))
            pending += called_by(inner)
    if not calls:
        return None
    return LoopFunction(
        step,
        tuple(sorted(slots)),
        _shared_slots(plan),
        tuple(computations),
        tuple(sorted(calls)),
        frozenset(k for k, n in calls.items() if n > 1 and _is_long(kernels[k])),
    )


def _is_long(kernel: Kernel) -> bool:
    """True if steps that share a kernel call it, instead of having a copy each."""
    if kernel.text.count("\n") > _MOST_COPIED_LINES:
        return True
    is_slow = kernel.nanoseconds > _MOST_COPIED_NANOSECONDS
    return is_slow and not has_only_short_loops(kernel.text)


def _shared_slots(plan: Plan) -> frozenset[int]:
    """Return the slots of outputs, and of the donated parameters that they may alias."""
    pairs = [a for a in plan.assignment.aliases if a.how == "overwritten"]
    outputs = {plan.table.first_output + pair.output for pair in pairs}
    return frozenset(outputs | {plan.table.first_parameter + pair.parameter for pair in pairs})


def _places(step: Step) -> Iterator[Place]:
    match step:
        case KernelStep():
            yield from step.arguments
        case CopyStep():
            yield from (step.source, step.target)
        case LoopStep():
            yield step.predicate
        case BranchStep():
            yield step.selector


def parameters_text(loop: LoopFunction) -> str:
    """Return the parameters of a loop's functions.

    Only outputs and the parameters that they overwrite alias. The caller may pass an array for two
    parameters of the module, but then nothing is written to it.
    """
    return ", ".join(
        f"ptr {'' if slot in loop.shared else 'noalias '}%slot{slot}" for slot in loop.slots
    )


def arguments_text(slots: Sequence[int]) -> str:
    """Return the pointers as arguments that are passed on, or as parameters of what is inlined."""
    return ", ".join(f"ptr %slot{slot}" for slot in slots)


def inner_text(kernel: Kernel, *, inlined: bool, noalias: bool) -> str:
    """Return the definition of a kernel of a loop, with attributes for or against inlining.

    Without `noalias`, LLVM keeps no record of what each inlined copy promised: straight code needs
    none, since its places are constant offsets from the arguments of the loop's function.
    """
    head, mark, rest = kernel.text.partition(" nounwind ")
    head = head.replace("define void", "define internal void", 1)
    # `optsize` suits a kernel that runs alone, not a loop around it.
    head = head.removesuffix(" optsize")
    head = head if noalias else head.replace(" noalias", "")
    return f"{head} {'alwaysinline' if inlined else 'noinline'}{mark}{rest}"


def only_inlined(plan: Plan, loops: Mapping[LoopStep, LoopFunction]) -> frozenset[int]:
    """Return the numbers of kernels that nothing outside the functions of `loops` calls."""
    inside = {number for loop in loops.values() for number in loop.computations}
    called = {
        step.kernel
        for number, steps in enumerate(plan.computations)
        if number not in inside
        for step in steps
        if isinstance(step, KernelStep)
    }
    within = {kernel for loop in loops.values() for kernel in loop.kernels}
    return frozenset(within - called)
