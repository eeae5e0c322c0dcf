"""C text of a plan's steps: one function per computation of control flow, and the entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloc.codegen.plan.plan import (
    BranchStep,
    CallStep,
    CopyStep,
    HostStep,
    KernelStep,
    LoopStep,
    Plan,
    Step,
)
from hloc.codegen.plan.pointer_table import STOP_SLOT, Place


def control_flow_text(plan: Plan) -> str:
    """Return all functions of `plan` but its kernels, which are `kernel_0`, `kernel_1` ..."""
    heads = [f"static void computation_{n}(void **table)" for n in range(len(plan.computations))]
    lines = [f"{head};" for head in heads]
    for head, steps in zip(heads, plan.computations, strict=True):
        lines += [f"\n{head} {{", *(f"  {line}" for step in steps for line in _lines(step)), "}"]
    return "\n".join([*lines, "\nvoid hloc_entry(void **table) { computation_0(table); }\n"])


def _lines(step: Step) -> Iterator[str]:
    """Yield the C statements of one step; an index out of range runs the last branch."""
    match step:
        case KernelStep(kernel, places, in_place):
            if in_place is not None:
                same = f"{_at(in_place.parameter)} == {_at(in_place.output)}"
                yield f"if ({same}) {_call(in_place.kernel, places)} else"
            yield _call(kernel, places)
        case CopyStep(source, target):
            yield f"memcpy({_at(target)}, {_at(source)}, {step.size_bytes});"
        case LoopStep(condition, body, predicate):
            yield f"for (computation_{condition}(table);"
            yield f"     !*(volatile int32_t *)table[{STOP_SLOT}] && *(bool *){_at(predicate)};"
            yield f"     computation_{condition}(table)) computation_{body}(table);"
        case BranchStep(selector, True, branches):
            first, second = (f"computation_{branch}(table)" for branch in branches)
            yield f"if (*(bool *){_at(selector)}) {first}; else {second};"
        case BranchStep(selector, False, branches):
            yield f"switch (*(int32_t *){_at(selector)}) {{"
            for number, branch in enumerate(branches):
                label = f"case {number}" if number + 1 < len(branches) else "default"
                yield f"  {label}: computation_{branch}(table); break;"
            yield "}"
        case CallStep(computation):
            yield f"computation_{computation}(table);"
        case HostStep(_, slot, places):
            pointers = ", ".join(_at(place) for place in places) or "0"
            yield f"((void (*)(void **))table[{slot}])((void *[]){{{pointers}}});"


def _call(kernel: int, places: Sequence[Place]) -> str:
    return f"kernel_{kernel}({', '.join(_at(place) for place in places)});"


def _at(place: Place) -> str:
    """Return a pointer to `place`."""
    pointer = f"table[{place.slot}]"
    return f"((char *){pointer} + {place.offset})" if place.offset else pointer
