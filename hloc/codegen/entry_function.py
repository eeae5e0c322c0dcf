"""LLVM text of the control flow: one function per computation, which calls kernels in order.

    define void @NAME(ptr %table)

Everything is found through the table of pointers; there is no other state. Long computations are
cut into parts, since LLVM takes more than linear time for one large function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hloc.codegen.kernel import Kernel
from hloc.codegen.plan import (
    STOP_SLOT,
    BranchStep,
    CallStep,
    CopyStep,
    HostStep,
    KernelStep,
    LoopStep,
    Place,
    Plan,
    Step,
)

ENTRY = "hloc_entry"
"""The one function that is called from outside."""

_PART_STEPS = 256
_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def entry_text(plan: Plan, kernels: Sequence[Kernel]) -> str:
    """Return the LLVM text of all control flow of `plan`; `kernels` by number."""
    arguments = {
        step.kernel: len(step.arguments)
        for steps in plan.computations
        for step in steps
        if isinstance(step, KernelStep)
    }
    lines = [
        f"declare void @{kernels[number].name}({'ptr, ' * count}i64, i64)"
        for number, count in sorted(arguments.items())
    ]
    lines += [_MEMCPY, ""]
    for number, steps in enumerate(plan.computations):
        lines += _computation(number, steps, kernels)
    return "\n".join(lines) + "\n"


def _function_name(number: int) -> str:
    return ENTRY if number == 0 else f"computation_{number}"


def _computation(number: int, steps: Sequence[Step], kernels: Sequence[Kernel]) -> list[str]:
    """Return the functions of one computation: its parts, if it is long, and itself."""
    parts = [steps[i : i + _PART_STEPS] for i in range(0, len(steps), _PART_STEPS)]
    linkage = "" if number == 0 else "internal "
    name = _function_name(number)
    if len(parts) <= 1:
        return _function(f"{linkage}void @{name}", steps, kernels)
    lines: list[str] = []
    for i, part in enumerate(parts):
        lines += _function(f"internal void @part_{number}_{i}", part, kernels)
    calls = [f"  call void @part_{number}_{i}(ptr %table)" for i in range(len(parts))]
    return [*lines, f"define {linkage}void @{name}(ptr %table) {{", *calls, "  ret void", "}", ""]


def _function(head: str, steps: Sequence[Step], kernels: Sequence[Kernel]) -> list[str]:
    writer = _Writer(kernels)
    for step in steps:
        writer.step(step)
    return [
        f"define {head}(ptr %table) nounwind {{",
        "entry:",
        *writer.pointers,
        *writer.lines,
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]


@dataclass(slots=True)
class _Writer:
    """Collects one function; pointers of the table are loaded once, at its start."""

    kernels: Sequence[Kernel]
    pointers: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _loaded: dict[int, str] = field(default_factory=dict)
    _places: dict[Place, str] = field(default_factory=dict)
    _values: int = 0

    def step(self, step: Step) -> None:
        match step:
            case KernelStep():
                self._kernel(step)
            case CopyStep():
                source, target = self._pointer(step.source), self._pointer(step.target)
                self._add(
                    f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, "
                    f"i64 {step.size_bytes}, i1 false)"
                )
            case LoopStep():
                self._loop(step)
            case BranchStep():
                self._branch(step)
            case CallStep():
                self._run(step.computation)
            case HostStep():
                self._host(step)

    def _kernel(self, step: KernelStep) -> None:
        kernel = self.kernels[step.kernel]
        arguments = "".join(f"ptr {self._pointer(place)}, " for place in step.arguments)
        self._add(f"call void @{kernel.name}({arguments}i64 0, i64 {kernel.extent})")

    def _loop(self, step: LoopStep) -> None:
        """Run the condition, then leave or run the body; the stop flag counts as false."""
        label = self._name()
        stop, predicate = self._slot(STOP_SLOT), self._pointer(step.predicate)
        self._add(f"br label %test.{label}")
        self.lines.append(f"test.{label}:")
        self._run(step.condition)
        self._add(f"%stop.{label} = load volatile i32, ptr {stop}")
        self._add(f"%asked.{label} = icmp eq i32 %stop.{label}, 0")
        self._add(f"%byte.{label} = load i8, ptr {predicate}")
        self._add(f"%holds.{label} = icmp ne i8 %byte.{label}, 0")
        self._add(f"%more.{label} = and i1 %asked.{label}, %holds.{label}")
        self._add(f"br i1 %more.{label}, label %body.{label}, label %after.{label}")
        self.lines.append(f"body.{label}:")
        self._run(step.body)
        self._add(f"br label %test.{label}")
        self.lines.append(f"after.{label}:")

    def _branch(self, step: BranchStep) -> None:
        label = self._name()
        selector = self._pointer(step.selector)
        kind = "i8" if step.is_predicate else "i32"
        last = len(step.branches) - 1
        self._add(f"%select.{label} = load {kind}, ptr {selector}")
        if step.is_predicate:  # branch 0 runs when the predicate is true
            cases = f"i8 0, label %branch.{label}.1"
            default = 0
        else:
            cases = " ".join(f"i32 {i}, label %branch.{label}.{i}" for i in range(last))
            default = last
        self._add(f"switch {kind} %select.{label}, label %branch.{label}.{default} [{cases}]")
        for i, computation in enumerate(step.branches):
            self.lines.append(f"branch.{label}.{i}:")
            self._run(computation)
            self._add(f"br label %after.{label}")
        self.lines.append(f"after.{label}:")

    def _host(self, step: HostStep) -> None:
        """Gather the pointers in an array on the stack and hand it to the host."""
        label = self._name()
        count = max(1, len(step.arguments))
        self.pointers.append(f"  %array.{label} = alloca [{count} x ptr]")
        for i, place in enumerate(step.arguments):
            self._add(f"%at.{label}.{i} = getelementptr ptr, ptr %array.{label}, i64 {i}")
            self._add(f"store ptr {self._pointer(place)}, ptr %at.{label}.{i}")
        self._add(f"call void {self._slot(step.slot)}(ptr %array.{label})")

    def _run(self, computation: int) -> None:
        self._add(f"call void @{_function_name(computation)}(ptr %table)")

    def _pointer(self, place: Place) -> str:
        """Return the name of a pointer to `place`."""
        found = self._places.get(place)
        if found is None:
            base = self._slot(place.slot)
            if place.offset == 0:
                found = base
            else:
                found = f"%p{len(self._places)}"
                self.pointers.append(
                    f"  {found} = getelementptr i8, ptr {base}, i64 {place.offset}"
                )
            self._places[place] = found
        return found

    def _slot(self, slot: int) -> str:
        """Return the name of the pointer in `slot` of the table."""
        found = self._loaded.get(slot)
        if found is None:
            found = self._loaded[slot] = f"%slot{slot}"
            self.pointers.append(f"  %at{slot} = getelementptr ptr, ptr %table, i64 {slot}")
            self.pointers.append(f"  {found} = load ptr, ptr %at{slot}")
        return found

    def _name(self) -> str:
        self._values += 1
        return str(self._values)

    def _add(self, text: str) -> None:
        self.lines.append("  " + text)
