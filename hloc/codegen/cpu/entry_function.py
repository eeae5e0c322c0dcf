"""LLVM text of the control flow: one function per computation, which calls kernels in order.

    define void @NAME(ptr %table)

All memory is reached through the pointer table; there is no other state. Long computations are
split into several functions, since LLVM takes superlinear time for large ones. Loops of few
instructions are compiled in a unit of their own, see `loop_function`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hloc.codegen.builder.loops import has_only_short_loops
from hloc.codegen.cpu.kernel import Kernel
from hloc.codegen.cpu.loop_function import (
    LoopFunction,
    arguments_text,
    inner_text,
    parameters_text,
)
from hloc.codegen.cpu.side_by_side import group_lines, group_name, groups_of
from hloc.codegen.cpu.split_routine import split_routine
from hloc.codegen.cpu.step_writer import LOOP_METADATA, Called, StepWriter, function_name
from hloc.codegen.cpu.subnormals import ATTRIBUTE, FloatMode
from hloc.codegen.llvm.object_file import with_attributes
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.plan.exchange import combiner_symbol
from hloc.codegen.plan.plan import (
    ExchangeStep,
    LoopStep,
    Plan,
    SideBySideStep,
    Step,
    called_by,
    kernel_steps,
)
from hloc.codegen.plan.pointer_table import ENTRY

_PART_STEPS = 256
_GROUP_ARRAYS = 2
"""Arguments of the function of a group beside its bounds: the table, and scratch memory."""

_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def entry_text(
    plan: Plan,
    kernels: Sequence[Kernel],
    loops: Mapping[LoopStep, LoopFunction],
    mode: FloatMode | None = None,
    beside: Collection[Kernel] = (),
) -> str:
    """Return the LLVM text of the control flow of `plan` without `loops`; `kernels` by number.

    With a `mode`, everything except host functions runs with subnormals flushed. The text includes
    the kernels in `beside`.
    """
    combiners = {c for exchange in plan.exchanges for c in exchange.combiners}
    members = {c.kernel: c.members for c in sorted(combiners, key=lambda c: c.kernel)}
    arrays = _arguments(plan, loops) | {number: count + 1 for number, count in members.items()}
    lines = [
        f"declare void @{kernels[number].name}({'ptr, ' * count}i64, i64)"
        for number, count in arrays.items()
        if kernels[number] not in beside
    ]
    lines += _other_declarations(plan, kernels, loops, mode)
    lines += [d for kernel in beside for d in kernel.declarations]
    lines += [f for number in arrays if (s := kernels[number].scaled) for f in s.functions]
    texts = (with_attributes(k.text, ATTRIBUTE) if mode else k.text for k in beside)
    lines = [*dict.fromkeys(lines), "", *texts]
    for group in groups_of(plan):
        lines += _group(group, kernels)
    called = Called(kernels, loops, mode, _exchanging(plan))
    for number, steps in _outside(plan, loops):
        lines += _computation(number, steps, called)
    for number, count in members.items():
        lines += _combiner(number, count, kernels[number])
    if mode is not None:
        lines += _flushing_entry(mode)
    return "\n".join(lines) + "\n"


def _other_declarations(
    plan: Plan,
    kernels: Sequence[Kernel],
    loops: Mapping[LoopStep, LoopFunction],
    mode: FloatMode | None,
) -> list[str]:
    """Return the declarations of what is called besides kernels."""
    routines = split_routines(plan, kernels, loops, mode)
    return [
        *(declaration for routine in routines for declaration in routine.declarations),
        *(
            f"declare void @{loop.name}({', '.join(['ptr'] * len(loop.slots))})"
            for loop in loops.values()
        ),
        _MEMCPY,
        *(mode.declarations if mode else ()),
    ]


def split_routines(
    plan: Plan,
    kernels: Sequence[Kernel],
    loops: Mapping[LoopStep, LoopFunction],
    mode: FloatMode | None = None,
) -> tuple[Routines, ...]:
    """Return the routines through which the text of `entry_text` calls kernels on threads."""
    counts = {n for i, n in _arguments(plan, loops).items() if kernels[i].split is not None}
    if groups_of(plan):
        counts.add(_GROUP_ARRAYS)
    return tuple(split_routine(count, mode) for count in sorted(counts))


def _exchanging(plan: Plan) -> frozenset[int]:
    """Return the numbers of the computations that exchange data, directly or in callees."""
    callers: dict[int, list[int]] = {}
    pending = []
    for number, steps in enumerate(plan.computations):
        if any(isinstance(step, ExchangeStep) for step in steps):
            pending.append(number)
        for step in steps:
            for called in called_by(step):
                callers.setdefault(called, []).append(number)
    result: set[int] = set()
    while pending:
        number = pending.pop()
        if number not in result:
            result.add(number)
            pending += callers.get(number, ())
    return frozenset(result)


def _combiner(number: int, members: int, kernel: Kernel) -> list[str]:
    """Return the function through which the engine calls the kernel of a reduction."""
    lines = [f"define void @{combiner_symbol(number)}(ptr %arrays, i64 %count) nounwind {{"]
    for i in range(members + 1):
        lines.append(f"  %at{i} = getelementptr ptr, ptr %arrays, i64 {i}")
        lines.append(f"  %array{i} = load ptr, ptr %at{i}")
    arrays = ", ".join(f"ptr %array{i}" for i in range(members + 1))
    return [
        *lines,
        f"  call void @{kernel.name}({arrays}, i64 0, i64 %count)",
        "  ret void",
        "}",
        "",
    ]


def _group(group: SideBySideStep, kernels: Sequence[Kernel]) -> list[str]:
    """Return the function of kernels that run side by side; a part is a kernel."""
    writer = StepWriter(Called(kernels, {}))
    writer.lines += group_lines(group, kernels, writer.pointer)
    arguments = "ptr %table, ptr %scratch, i64 %begin, i64 %end"
    return writer.function(f"define internal void @{group_name(group)}({arguments}) nounwind {{")


def _outside(
    plan: Plan, loops: Mapping[LoopStep, LoopFunction]
) -> list[tuple[int, tuple[Step, ...]]]:
    """Return numbers and steps of the computations that are not part of `loops`."""
    inside = {number for loop in loops.values() for number in loop.computations}
    return [item for item in enumerate(plan.computations) if item[0] not in inside]


def _arguments(plan: Plan, loops: Mapping[LoopStep, LoopFunction]) -> dict[int, int]:
    """Return the number of arrays of each kernel that is called outside of `loops`, by number."""
    calls = {
        number: len(step.arguments)
        for _, steps in _outside(plan, loops)
        for step in kernel_steps(steps)
        for number in step.kernels
    }
    return dict(sorted(calls.items()))


def loop_text(plan: Plan, kernels: Sequence[Kernel], loop: LoopFunction, attributes: str) -> str:
    """Return the LLVM text of a loop, its computations and its kernels."""
    used = {number: kernels[number] for number in loop.kernels}
    lines = [d for kernel in used.values() for d in kernel.declarations]
    lines += [f for kernel in used.values() if kernel.scaled for f in kernel.scaled.functions]
    lines = list(dict.fromkeys(lines))
    lines += [_MEMCPY, *LOOP_METADATA, ""]
    has_loops = not all(has_only_short_loops(kernel.text) for kernel in used.values())
    lines += [
        inner_text(kernel, inlined=number not in loop.called, noalias=has_loops)
        for number, kernel in used.items()
    ]
    called = Called(kernels, {})
    for number in loop.computations:
        head = f"void @{function_name(number)}({arguments_text(loop.slots)}) {attributes}"
        steps = plan.computations[number]
        head = f"define internal {head} alwaysinline {{"
        lines += _function(head, steps, called, loop.slots)
    head = f"define void @{loop.name}({parameters_text(loop)}) {attributes} {{"
    lines += _function(head, [loop.step], called, loop.slots)
    return "\n".join(lines) + "\n"


def _flushing_entry(mode: FloatMode) -> list[str]:
    """Return the entry function around computation 0, which sets the mode and restores it."""
    return [
        _head(f"void @{ENTRY}"),
        *mode.reserved("mode"),
        *mode.flushed("mode"),
        f"  call void @{function_name(0)}(ptr %table)",
        *mode.restored("mode"),
        "  ret void",
        "}",
        "",
    ]


def _computation(number: int, steps: Sequence[Step], called: Called) -> list[str]:
    """Return the functions of one computation: its parts, if it is long, and itself."""
    parts = [steps[i : i + _PART_STEPS] for i in range(0, len(steps), _PART_STEPS)]
    is_entry = number == 0 and called.mode is None
    name = f"void @{ENTRY}" if is_entry else f"internal void @{function_name(number)}"
    if len(parts) <= 1:
        return _function(_head(name), steps, called)
    lines: list[str] = []
    for i, part in enumerate(parts):
        lines += _function(_head(f"internal void @part_{number}_{i}"), part, called)
    writer = StepWriter(called)
    for i in range(len(parts)):
        writer.lines.append(f"  call void @part_{number}_{i}(ptr %table)")
        if number in called.exchanging:
            writer.end_if_stopped()
    return [*lines, *writer.function(_head(name))]


def _head(name: str) -> str:
    return f"define {name}(ptr %table) nounwind {{"


def _function(
    head: str, steps: Sequence[Step], called: Called, slots: Sequence[int] = ()
) -> list[str]:
    """Return a function; its arguments are the pointers in `slots`, if any, else the table."""
    writer = StepWriter(called, slots)
    for step in steps:
        writer.step(step)
    return writer.function(head)
