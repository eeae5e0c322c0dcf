"""The verifier of plans: numbers, slots, sizes, and the memory that steps read and write."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from hloc.codegen.plan.areas import Area, leaves_of
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.codegen.plan.plan import (
    BranchStep,
    CopyStep,
    ExchangeStep,
    HostStep,
    InPlaceKernel,
    KernelStep,
    LoopStep,
    Plan,
    Step,
    called_by,
)
from hloc.codegen.plan.pointer_table import ARENA_SLOT, DEVICE_SLOT, FIRST_SLOT, Place
from hloc.errors import InternalError
from hloc.ir.instruction import Instruction

_STATE_BYTES = 16
"""The part of the state of a device that programs read."""

_PREDICATE_BYTES, _INDEX_BYTES = 1, 4
"""Sizes of the selectors of loops and branches: `pred[]` and `s32[]`."""


def check_plan(plan: Plan, stack_bytes: int = 0) -> None:
    """Raise `InternalError`, which names the step, unless a program can run `plan`.

    Args:
        plan: the plan of a module.
        stack_bytes: scratch memory up to this size is on the kernel's stack, not an argument.
    """
    _Checker(plan, stack_bytes).run()


class _Fault(Exception):
    """The error in a step."""


class _Checker:
    def __init__(self, plan: Plan, stack_bytes: int) -> None:
        self.plan, self.stack_bytes = plan, stack_bytes
        memory, first = plan.assignment, FIRST_SLOT
        self.sizes = {ARENA_SLOT: memory.arena_bytes, DEVICE_SLOT: _STATE_BYTES}
        arrays = (*(c.shape for c in memory.constants), *memory.parameters, *memory.outputs)
        self.sizes.update((first + n, shape.size_bytes) for n, shape in enumerate(arrays))
        self.read_only = {DEVICE_SLOT, *range(first, first + len(memory.constants))}
        self.areas: dict[int, tuple[list[tuple[int, int]], int]] = {}

    def run(self) -> None:
        """Check the plan as a whole, then step by step."""
        plan, memory, table = self.plan, self.plan.assignment, self.plan.table
        counts = (table.constants, table.parameters, table.outputs, table.host_functions)
        arrays = (memory.constants, memory.parameters, memory.outputs, plan.host_functions)
        if counts != tuple(map(len, arrays)):
            raise InternalError(f"plan: the pointer table has wrong counts: {counts}")
        if len(plan.keys) != len(plan.kernels) or len(set(plan.keys)) != len(plan.keys):
            raise InternalError("plan: kernels and keys do not correspond")
        for number, steps in enumerate(plan.computations):
            for position, step in enumerate(steps):
                try:
                    self._step(step)
                except _Fault as fault:
                    where = f"plan: step {position} of computation {number}"
                    raise InternalError(f"{where}: {fault}: {step}") from None
        self._check_calls()

    def _step(self, step: Step) -> None:
        """Check one step: its areas lie in their slots, and what it calls exists."""
        match step:
            case KernelStep():
                self._kernel(step)
            case CopyStep():
                source = Area(step.source, step.size_bytes)
                target = Area(step.target, step.size_bytes)
                self._check_areas([source], [target])
                if step.size_bytes <= 0 or source.overlaps(target):
                    raise _Fault("source and target overlap, or have no bytes")
            case LoopStep():
                self._check_areas([Area(step.predicate, _PREDICATE_BYTES)], [])
            case BranchStep():
                size = _PREDICATE_BYTES if step.is_predicate else _INDEX_BYTES
                self._check_areas([Area(step.selector, size, size)], [])
                if not step.branches or (step.is_predicate and len(step.branches) != 2):
                    raise _Fault(f"{len(step.branches)} branches")
            case HostStep():
                self._host(step)
            case ExchangeStep():
                self._exchange(step)
        last = len(self.plan.computations) - 1
        if any(not 0 < number <= last for number in called_by(step)):
            raise _Fault(f"calls a computation that is not one of 1 to {last}")

    # ---- kernels and functions of the host

    def _kernel(self, step: KernelStep) -> None:
        """Check that what a kernel writes overlaps nothing else that it reads or writes.

        The one exception is a result that shares the whole memory of an operand, as its request
        says.
        """
        if any(not 0 <= number < len(self.plan.kernels) for number in step.kernels):
            raise _Fault(f"there are {len(self.plan.kernels)} kernels")
        request = self.plan.kernels[step.kernel]
        inputs, outputs, scratch = self._arguments(step.kernel, request, step.arguments)
        self._check_areas(inputs, outputs)
        self._check_areas([], scratch)
        for number, output in enumerate(outputs):
            shared = request.aliased[number]
            if shared is not None and inputs[shared].place != output.place:
                raise _Fault(f"result {number} does not share the place of operand {shared}")
            for operand in inputs:
                if operand.overlaps(output) and (shared is None or operand != inputs[shared]):
                    raise _Fault(f"result {number} overlaps an operand that it may not overwrite")
        written = [*outputs, *scratch]
        for number, area in enumerate(written):
            if any(area.overlaps(other) for other in written[:number]):
                raise _Fault("two results, or a result and scratch memory, overlap")
        if any(area.overlaps(operand) for area in scratch for operand in inputs):
            raise _Fault("scratch memory overlaps an operand")
        if step.in_place is not None:
            self._check_in_place(request, step.in_place, inputs, outputs)

    def _arguments(
        self, number: int, request: KernelRequest, places: Sequence[Place]
    ) -> tuple[list[Area], list[Area], list[Area]]:
        """Return the areas of operands, results and scratch memory."""
        leaves, operands = self._leaves(number, request.inst)
        scratch, rest = request.scratch_bytes, list(places[len(leaves) :])
        if request.library_function and rest:
            self._check_function(rest.pop(0))
        room = [Area(place, scratch) for place in rest]
        if len(places) < len(leaves) or len(room) != (scratch > self.stack_bytes):
            raise _Fault(f"{len(places)} arguments for {len(leaves)} arrays, {scratch} bytes more")
        areas = [Area(place, *leaf) for place, leaf in zip(places, leaves, strict=False)]
        return areas[:operands], areas[operands:], room

    def _check_function(self, place: Place) -> None:
        first = self.plan.table.first_host_function
        if place.offset or not first <= place.slot < self.plan.table.size:
            raise _Fault(f"slot {place.slot} holds no function")

    def _leaves(self, number: int, inst: Instruction) -> tuple[list[tuple[int, int]], int]:
        """Return size and element size of the leaves of operands and results of a kernel.

        The second result is the number of operand leaves.
        """
        known = self.areas.get(number)
        if known is None:
            known = self.areas[number] = leaves_of(inst)
        return known

    def _check_in_place(
        self,
        usual: KernelRequest,
        in_place: InPlaceKernel,
        inputs: Sequence[Area],
        outputs: Sequence[Area],
    ) -> None:
        """Check that the in-place kernel has the same arguments, and its places are an alias."""
        request = self.plan.kernels[in_place.kernel]
        if leaves_of(request.inst) != leaves_of(usual.inst):
            raise _Fault(f"kernel {in_place.kernel} has other arguments")
        pairs = [
            (inputs[shared].place, outputs[number].place)
            for number, shared in enumerate(request.aliased)
            if shared is not None and shared != usual.aliased[number]
        ]
        if (in_place.parameter, in_place.output) not in pairs:
            raise _Fault(f"kernel {in_place.kernel} writes no result over these places")

    def _host(self, step: HostStep) -> None:
        functions = self.plan.host_functions
        if not 0 <= step.function < len(functions):
            raise _Fault(f"there are {len(functions)} host functions")
        if step.slot != self.plan.table.first_host_function + step.function:
            raise _Fault(f"slot {step.slot} is not that of host function {step.function}")
        leaves, operands = leaves_of(functions[step.function].inst)
        if len(step.arguments) != len(leaves):
            raise _Fault(f"{len(step.arguments)} arguments, not {len(leaves)}")
        areas = [Area(place, *leaf) for place, leaf in zip(step.arguments, leaves, strict=True)]
        self._check_areas(areas[:operands], areas[operands:])

    def _exchange(self, step: ExchangeStep) -> None:
        if not 0 <= step.number < len(self.plan.exchanges):
            raise _Fault(f"there are {len(self.plan.exchanges)} exchanges")
        exchange = self.plan.exchanges[step.number]
        arrays = (*exchange.operands, *exchange.results)
        if len(step.arguments) != len(arrays):
            raise _Fault(f"{len(step.arguments)} arguments, not {len(arrays)}")
        areas = [Area(p, a.size_bytes) for p, a in zip(step.arguments, arrays, strict=True)]
        operands, results = areas[: len(exchange.operands)], areas[len(exchange.operands) :]
        self._check_areas(operands, results)
        for number, result in enumerate(results):
            if any(result.overlaps(other) for other in (*operands, *results[:number])):
                raise _Fault("a result overlaps an operand or another result")
        if any(not 0 <= c.kernel < len(self.plan.kernels) for c in exchange.combiners):
            raise _Fault("a combiner is not a kernel")

    # ---- places

    def _check_areas(self, read: Sequence[Area], written: Sequence[Area]) -> None:
        for area in (*read, *written):
            place, size = area.place, area.size
            if place.slot not in self.sizes:
                raise _Fault(f"slot {place.slot} holds no array")
            if place.offset % area.align:
                raise _Fault(f"offset {place.offset} is not a multiple of {area.align} bytes")
            if size and not 0 <= place.offset <= self.sizes[place.slot] - size:
                room = self.sizes[place.slot]
                raise _Fault(f"{size} bytes at {place.offset} of slot {place.slot} of {room} bytes")
        if any(area.size and area.place.slot in self.read_only for area in written):
            raise _Fault("writes to a constant or to the numbers of the device")

    def _check_calls(self) -> None:
        """Check that no computation calls itself, directly or through others."""
        graph = {
            number: {called for step in steps for called in called_by(step)}
            for number, steps in enumerate(self.plan.computations)
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as e:
            raise InternalError(f"plan: computations {e.args[1]} call each other") from None
