"""LLVM text of the control flow: one function per computation, which calls kernels in order.

    define void @NAME(ptr %table)

All memory is reached through the pointer table; there is no other state. Long computations are
split into several functions, since LLVM takes superlinear time for large ones. Loops of few
instructions are compiled in a unit of their own, see `loop_function`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from hloc.codegen.builder.loops import has_only_short_loops
from hloc.codegen.builder.values import REPRESENTATIONS
from hloc.codegen.cpu.kernel import Kernel
from hloc.codegen.cpu.loop_function import (
    LoopFunction,
    arguments_text,
    inner_text,
    parameters_text,
)
from hloc.codegen.cpu.side_by_side import (
    group_lines,
    group_name,
    group_scratch_bytes,
    group_split,
    groups_of,
)
from hloc.codegen.cpu.split_kernel import Split, split_numbers, split_routine
from hloc.codegen.cpu.subnormals import ATTRIBUTE, FloatMode
from hloc.codegen.llvm.object_file import with_attributes
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.plan.exchange import combiner_symbol
from hloc.codegen.plan.plan import (
    DEVICE_SLOT,
    STOP_SLOT,
    THREADS_SLOT,
    BranchStep,
    CallStep,
    CopyStep,
    ExchangeStep,
    HostStep,
    KernelStep,
    LoopStep,
    Place,
    Plan,
    SideBySideStep,
    Step,
    called_by,
    kernel_steps,
)
from hloc.codegen.plan.pointer_table import ENTRY as ENTRY
from hloc.lazy_dataclass import dataclass

_PART_STEPS = 256
_GROUP_ARRAYS = 2
"""Arguments of the function of a group beside its bounds: the table, and scratch memory."""

_MOST_PARTS_COPIED = 8
"""Most numbers that are copied one by one in a loop; a complex element is two."""
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
    lines = [
        f"declare void @{kernels[number].name}({'ptr, ' * count}i64, i64)"
        for number, count in _arguments(plan, loops).items()
        if kernels[number] not in beside
    ]
    combiners = {c for exchange in plan.exchanges for c in exchange.combiners}
    members = {c.kernel: c.members for c in sorted(combiners, key=lambda c: c.kernel)}
    lines += [
        f"declare void @{kernels[number].name}({'ptr, ' * (count + 1)}i64, i64)"
        for number, count in members.items()
        if kernels[number] not in beside
    ]
    lines += [d for r in split_routines(plan, kernels, loops, mode) for d in r.declarations]
    lines += [
        f"declare void @{loop.name}({', '.join(['ptr'] * len(loop.slots))})"
        for loop in loops.values()
    ]
    lines += [_MEMCPY, *(mode.declarations if mode else ())]
    lines += [d for kernel in beside for d in kernel.declarations]
    texts = (with_attributes(k.text, ATTRIBUTE) if mode else k.text for k in beside)
    lines = [*dict.fromkeys(lines), "", *texts]
    for group in groups_of(plan):
        lines += _group(group, kernels)
    exchanging = _exchanging(plan)
    for number, steps in _outside(plan, loops):
        lines += _computation(number, steps, kernels, loops, mode, exchanging)
    for number, count in members.items():
        lines += _combiner(number, count, kernels[number])
    if mode is not None:
        lines += _flushing_entry(mode)
    return "\n".join(lines) + "\n"


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
    writer = _Writer(kernels, {}, ())
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
    lines = list(dict.fromkeys(d for kernel in used.values() for d in kernel.declarations))
    lines += [_MEMCPY, ""]
    has_loops = not all(has_only_short_loops(kernel.text) for kernel in used.values())
    lines += [
        inner_text(kernel, inlined=number not in loop.called, noalias=has_loops)
        for number, kernel in used.items()
    ]
    for number in loop.computations:
        head = f"void @{_function_name(number)}({arguments_text(loop.slots)}) {attributes}"
        steps = plan.computations[number]
        head = f"define internal {head} alwaysinline {{"
        lines += _function(head, steps, kernels, {}, loop.slots)
    head = f"define void @{loop.name}({parameters_text(loop)}) {attributes} {{"
    lines += _function(head, [loop.step], kernels, {}, loop.slots)
    return "\n".join(lines) + "\n"


def _flushing_entry(mode: FloatMode) -> list[str]:
    """Return the entry function around computation 0, which sets the mode and restores it."""
    return [
        _head(f"void @{ENTRY}"),
        *mode.reserved("mode"),
        *mode.flushed("mode"),
        f"  call void @{_function_name(0)}(ptr %table)",
        *mode.restored("mode"),
        "  ret void",
        "}",
        "",
    ]


def _function_name(number: int) -> str:
    return f"computation_{number}"


def _computation(
    number: int,
    steps: Sequence[Step],
    kernels: Sequence[Kernel],
    loops: Mapping[LoopStep, LoopFunction],
    mode: FloatMode | None,
    exchanging: frozenset[int],
) -> list[str]:
    """Return the functions of one computation: its parts, if it is long, and itself."""
    parts = [steps[i : i + _PART_STEPS] for i in range(0, len(steps), _PART_STEPS)]
    is_entry = number == 0 and mode is None
    name = f"void @{ENTRY}" if is_entry else f"internal void @{_function_name(number)}"
    if len(parts) <= 1:
        return _function(_head(name), steps, kernels, loops, mode=mode, exchanging=exchanging)
    lines: list[str] = []
    for i, part in enumerate(parts):
        head = _head(f"internal void @part_{number}_{i}")
        lines += _function(head, part, kernels, loops, mode=mode, exchanging=exchanging)
    writer = _Writer(kernels, loops, (), mode, exchanging)
    for i in range(len(parts)):
        writer.lines.append(f"  call void @part_{number}_{i}(ptr %table)")
        if number in exchanging:
            writer.end_if_stopped()
    return [*lines, *writer.function(_head(name))]


def _head(name: str) -> str:
    return f"define {name}(ptr %table) nounwind {{"


def _function(
    head: str,
    steps: Sequence[Step],
    kernels: Sequence[Kernel],
    loops: Mapping[LoopStep, LoopFunction],
    slots: Sequence[int] = (),
    mode: FloatMode | None = None,
    exchanging: frozenset[int] = frozenset(),
) -> list[str]:
    """Return a function; its arguments are the pointers in `slots`, if any, else the table."""
    writer = _Writer(kernels, loops, slots, mode, exchanging)
    for step in steps:
        writer.step(step)
    return writer.function(head)


@dataclass(slots=True)
class _Writer:
    """Collects one function; pointers of the table are loaded once, at its start.

    Attributes:
        slots: slots of the table whose pointers are arguments instead of the table.
        mode: restored around host functions; None if everything runs in the default mode.
        exchanging: computations that exchange data, after which a run may be stopped.
    """

    kernels: Sequence[Kernel]
    loops: Mapping[LoopStep, LoopFunction]
    slots: Sequence[int]
    mode: FloatMode | None = None
    exchanging: frozenset[int] = frozenset()
    pointers: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _loaded: dict[int, str] = field(default_factory=dict)
    _places: dict[Place, str] = field(default_factory=dict)
    _values: int = 0

    def function(self, head: str) -> list[str]:
        """Return the lines of the whole function."""
        body = [head, "entry:", *self.pointers, *self.lines]
        return [*body, "  br label %done", "done:", "  ret void", "}", ""]

    def end_if_stopped(self) -> None:
        """Emit a return if the run has been stopped: results of an exchange are missing."""
        label = self._name()
        self._add(f"%stop.{label} = load volatile i32, ptr {self._slot(STOP_SLOT)}")
        self._return_unless_zero(f"%stop.{label}", label)

    def _return_unless_zero(self, value: str, label: str) -> None:
        self._add(f"%ends.{label} = icmp ne i32 {value}, 0")
        self._add(f"br i1 %ends.{label}, label %done, label %next.{label}")
        self.lines.append(f"next.{label}:")

    def step(self, step: Step) -> None:
        match step:
            case KernelStep():
                self._kernel(step)
            case SideBySideStep():
                split = group_split(step, self.kernels)
                scratch_bytes = group_scratch_bytes(step, self.kernels)
                arrays = ["ptr %table", "ptr null"]
                self._share(group_name(step), len(step.steps), split, scratch_bytes, arrays)
            case CopyStep():
                self._copy(step)
            case LoopStep():
                self._loop(step)
            case BranchStep():
                self._branch(step)
            case CallStep():
                self._run(step.computation)
            case HostStep():
                self._host(step)
            case ExchangeStep():
                self._exchange(step)

    def _copy(self, step: CopyStep) -> None:
        """Emit a memcpy; few elements are copied one by one, in the type that kernels use.

        This lets LLVM keep the state of a loop in registers.
        """
        source, target = self.pointer(step.source), self.pointer(step.target)
        part = REPRESENTATIONS[step.dtype]
        parts = step.size_bytes // part.bytes
        if not self.slots or parts > _MOST_PARTS_COPIED:
            self._add(
                f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, "
                f"i64 {step.size_bytes}, i1 false)"
            )
            return
        label = self._name()
        for kind, pointer in (("load", source), ("store", target)):
            for i in range(parts):
                at = f"%{kind}.{label}.{i}"
                self._add(f"{at} = getelementptr {part.memory}, ptr {pointer}, i64 {i}")
                if kind == "load":
                    self._add(f"%copied.{label}.{i} = load {part.memory}, ptr {at}")
                else:
                    self._add(f"store {part.memory} %copied.{label}.{i}, ptr {at}")

    def _kernel(self, step: KernelStep) -> None:
        if step.in_place is None:
            self._call_kernel(step.kernel, step.arguments)
            return
        label = self._name()
        parameter = self.pointer(step.in_place.parameter)
        output = self.pointer(step.in_place.output)
        self._add(f"%same.{label} = icmp eq ptr {parameter}, {output}")
        self._add(f"br i1 %same.{label}, label %within.{label}, label %apart.{label}")
        kernels = {"within": step.in_place.kernel, "apart": step.kernel}
        for name, number in kernels.items():
            self.lines.append(f"{name}.{label}:")
            self._call_kernel(number, step.arguments)
            self._add(f"br label %after.{label}")
        self.lines.append(f"after.{label}:")

    def _call_kernel(self, number: int, places: Sequence[Place]) -> None:
        kernel = self.kernels[number]
        pointers = [f"ptr {self.pointer(place)}" for place in places]
        if kernel.split is None:
            arguments = ", ".join([*pointers, "i64 0", f"i64 {kernel.extent}"])
            self._add(f"call void @{kernel.name}({arguments})")
        else:
            self._share(kernel.name, kernel.extent, kernel.split, kernel.scratch_bytes, pointers)

    def _share(
        self, name: str, extent: int, split: Split, scratch_bytes: int, arrays: Sequence[str]
    ) -> None:
        """Call a function over its whole extent, on several threads."""
        routine = split_routine(len(arrays), self.mode)
        numbers = split_numbers(extent, split, scratch_bytes)
        given = [f"ptr {self._slot(THREADS_SLOT)}", f"ptr @{name}"]
        arguments = ", ".join([*given, *(f"i64 {x}" for x in numbers), *arrays])
        self._add(f"call void @{routine.name}({arguments})")

    def _loop(self, step: LoopStep) -> None:
        """Emit a loop: condition, exit, body; the loop also exits if the stop flag is set."""
        function = self.loops.get(step)
        if function is not None:
            arguments = ", ".join(f"ptr {self._slot(slot)}" for slot in function.slots)
            self._add(f"call void @{function.name}({arguments})")
            return
        label = self._name()
        stop, predicate = self._slot(STOP_SLOT), self.pointer(step.predicate)
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
        selector = self.pointer(step.selector)
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
        """Call a function of the host with the pointers."""
        label = self._gathered(step.arguments)
        call = f"  call void {self._slot(step.slot)}(ptr %array.{label})"
        if self.mode is None:
            self.lines.append(call)
            return
        name = f"mode.{label}"
        self.pointers += self.mode.reserved(name)
        self.lines += [*self.mode.kept(name), call, *self.mode.restored(name)]

    def _exchange(self, step: ExchangeStep) -> None:
        """Call the engine through the state of the device; it may end the run."""
        state = self._slot(DEVICE_SLOT)
        label = self._gathered(step.arguments)
        self._add(f"%engine.{label} = load ptr, ptr {state}")
        arguments = f"ptr {state}, i64 {step.number}, ptr %array.{label}"
        self._add(f"%fault.{label} = call i32 %engine.{label}({arguments})")
        self._return_unless_zero(f"%fault.{label}", label)

    def _gathered(self, places: Sequence[Place]) -> str:
        """Store pointers in an array on the stack; return the suffix of its name."""
        label = self._name()
        count = max(1, len(places))
        self.pointers.append(f"  %array.{label} = alloca [{count} x ptr]")
        for i, place in enumerate(places):
            self._add(f"%at.{label}.{i} = getelementptr ptr, ptr %array.{label}, i64 {i}")
            self._add(f"store ptr {self.pointer(place)}, ptr %at.{label}.{i}")
        return label

    def _run(self, computation: int) -> None:
        arguments = arguments_text(self.slots) if self.slots else "ptr %table"
        self._add(f"call void @{_function_name(computation)}({arguments})")
        if computation in self.exchanging:
            self.end_if_stopped()

    def pointer(self, place: Place) -> str:
        """Return the name of a pointer to `place`."""
        pointer = self._places.get(place)
        if pointer is None:
            base = self._slot(place.slot)
            if place.offset == 0:
                pointer = base
            else:
                pointer = f"%p{len(self._places)}"
                self.pointers.append(
                    f"  {pointer} = getelementptr i8, ptr {base}, i64 {place.offset}"
                )
            self._places[place] = pointer
        return pointer

    def _slot(self, slot: int) -> str:
        """Return the name of the pointer in `slot` of the table."""
        if slot in self.slots:
            return f"%slot{slot}"
        pointer = self._loaded.get(slot)
        if pointer is None:
            pointer = self._loaded[slot] = f"%slot{slot}"
            self.pointers.append(f"  %at{slot} = getelementptr ptr, ptr %table, i64 {slot}")
            self.pointers.append(f"  {pointer} = load ptr, ptr %at{slot}")
        return pointer

    def _name(self) -> str:
        self._values += 1
        return str(self._values)

    def _add(self, text: str) -> None:
        self.lines.append("  " + text)
