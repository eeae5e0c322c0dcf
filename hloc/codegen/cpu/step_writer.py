"""The LLVM text of one function of the control flow, which runs the steps of a plan in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from hloc.codegen.builder.values import REPRESENTATIONS
from hloc.codegen.cpu.kernel import Kernel
from hloc.codegen.cpu.loop_function import LoopFunction, arguments_text
from hloc.codegen.cpu.scaled_product import ScaledProduct
from hloc.codegen.cpu.side_by_side import group_name, group_scratch_bytes, group_split
from hloc.codegen.cpu.split_kernel import Split
from hloc.codegen.cpu.split_routine import split_numbers, split_routine
from hloc.codegen.cpu.subnormals import FloatMode
from hloc.codegen.plan.plan import (
    BranchStep,
    CallStep,
    CopyStep,
    ExchangeStep,
    HostStep,
    KernelStep,
    LoopStep,
    SideBySideStep,
    Step,
)
from hloc.codegen.plan.pointer_table import DEVICE_SLOT, STOP_SLOT, THREADS_SLOT, Place
from hloc.lazy_dataclass import dataclass

_MOST_PARTS_COPIED = 8
"""Most numbers that are copied one by one in a loop; a complex element is two."""


@dataclass(frozen=True, slots=True)
class Called:
    """What functions of the control flow call.

    Attributes:
        kernels: by number.
        loops: those that have a function of their own.
        mode: restored around host functions; None if everything runs in the default mode.
        exchanging: computations that exchange data, after which a run may be stopped.
    """

    kernels: Sequence[Kernel]
    loops: Mapping[LoopStep, LoopFunction]
    mode: FloatMode | None = None
    exchanging: frozenset[int] = frozenset()


LOOP_METADATA = ("!5 = distinct !{!5, !6}", '!6 = !{!"hloc.while"}')
"""The metadata of loops around inlined kernels; LLVM does not know the name.

Without metadata, a loop whose body ends with an unrolled loop would take over the request to
unroll, and LLVM would warn that it could not.
"""


def function_name(number: int) -> str:
    """Return the name of the function of a computation."""
    return f"computation_{number}"


@dataclass(slots=True)
class StepWriter:
    """Collects one function; pointers of the table are loaded once, at its start.

    Attributes:
        called: what the function may call.
        slots: slots of the table whose pointers are arguments instead of the table.
    """

    called: Called
    slots: Sequence[int] = ()
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
        """Add the code of one step."""
        match step:
            case KernelStep():
                self._kernel(step)
            case SideBySideStep():
                split = group_split(step, self.called.kernels)
                scratch_bytes = group_scratch_bytes(step, self.called.kernels)
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
        kernel = self.called.kernels[number]
        pointers = [f"ptr {self.pointer(place)}" for place in places]
        if kernel.scaled is None:
            self._run_kernel(kernel, pointers)
        else:
            self._run_scaled(kernel, kernel.scaled, pointers)

    def _run_scaled(self, kernel: Kernel, scaled: ScaledProduct, pointers: Sequence[str]) -> None:
        """Run a product; if an operand is tiny, of a scaled copy, and scale its result."""
        label, element = self._name(), REPRESENTATIONS[scaled.dtype].memory
        copy, slot = f"ptr %copy.{label}", f"ptr %slot.{label}"
        self.pointers.append(f"  %copy.{label} = alloca [{scaled.elements} x {element}], align 64")
        self.pointers.append(f"  %slot.{label} = alloca ptr")
        operand, given = pointers[scaled.operand], list(pointers)
        self._add(f"call void @{scaled.up}({operand}, {copy}, {slot}, i64 {scaled.elements})")
        given[scaled.operand] = f"ptr %chosen.{label}"
        self._add(f"%chosen.{label} = load ptr, {slot}")
        self._run_kernel(kernel, given)
        self._add(f"%same.{label} = icmp eq ptr %chosen.{label}, %copy.{label}")
        self._add(f"br i1 %same.{label}, label %down.{label}, label %after.{label}")
        self.lines.append(f"down.{label}:")
        self._add(f"call void @{scaled.down}({pointers[2]}, i64 {scaled.results})")
        self._add(f"br label %after.{label}")
        self.lines.append(f"after.{label}:")

    def _run_kernel(self, kernel: Kernel, pointers: Sequence[str]) -> None:
        """Call a kernel over its whole extent."""
        if kernel.split is None:
            arguments = ", ".join([*pointers, "i64 0", f"i64 {kernel.extent}"])
            self._add(f"call void @{kernel.name}({arguments})")
        else:
            self._share(kernel.name, kernel.extent, kernel.split, kernel.scratch_bytes, pointers)

    def _share(
        self, name: str, extent: int, split: Split, scratch_bytes: int, arrays: Sequence[str]
    ) -> None:
        """Call a function over its whole extent, on several threads."""
        routine = split_routine(len(arrays), self.called.mode)
        numbers = split_numbers(extent, split, scratch_bytes)
        given = [f"ptr {self._slot(THREADS_SLOT)}", f"ptr @{name}"]
        arguments = ", ".join([*given, *(f"i64 {x}" for x in numbers), *arrays])
        self._add(f"call void @{routine.name}({arguments})")

    def _loop(self, step: LoopStep) -> None:
        """Emit a loop: condition, exit, body; the loop also exits if the stop flag is set."""
        function = self.called.loops.get(step)
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
        self._add(f"br label %test.{label}" + (", !llvm.loop !5" if self.slots else ""))
        self.lines.append(f"after.{label}:")

    def _branch(self, step: BranchStep) -> None:
        """Add a `switch` over the branches; an index out of range runs the last one, as in XLA."""
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
        if self.called.mode is None:
            self.lines.append(call)
            return
        name = f"mode.{label}"
        self.pointers += self.called.mode.reserved(name)
        self.lines += [*self.called.mode.kept(name), call, *self.called.mode.restored(name)]

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
        self._add(f"call void @{function_name(computation)}({arguments})")
        if computation in self.called.exchanging:
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
