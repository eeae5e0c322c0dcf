"""Plans the steps of a scheduled module, in the order they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import forwards
from hloc.codegen.plan.exchange import Exchange
from hloc.codegen.plan.host_calls import HostFunction, host_function, library_function
from hloc.codegen.plan.kernel_request import InstructionKeys, KernelRequest, kernel_key
from hloc.codegen.plan.plan import (
    BranchStep,
    CallStep,
    CopyStep,
    ExchangeStep,
    HostStep,
    InPlaceKernel,
    KernelStep,
    LoopStep,
    Plan,
    Step,
)
from hloc.codegen.plan.pointer_table import (
    ARENA_SLOT,
    DEVICE_SLOT,
    PARTITION_OFFSET,
    REPLICA_OFFSET,
    Place,
    TableLayout,
)
from hloc.dtypes import PRED
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.memory.assigned_buffers import BufferAssignment
from hloc.memory.schedule import Schedule
from hloc.ops.rows.custom_call import is_linalg
from hloc.ops.transfers import is_between_devices
from hloc.shapes import ShapeIndex, TupleShape, data_leaves

_DEVICE_NUMBERS = {"replica-id": REPLICA_OFFSET, "partition-id": PARTITION_OFFSET}


@dataclass(frozen=True, slots=True)
class PlannedExchange:
    """An exchange, and the kernels of its combiners."""

    exchange: Exchange
    combiners: tuple[KernelRequest, ...]


def computation_numbers(module: Module) -> dict[Computation, int]:
    """Return the number of each computation of a plan: the entry's is 0."""
    numbers = {module.entry: 0}
    for computation in control_flow_computations(module):
        numbers.setdefault(computation, len(numbers))
    return numbers


def plan_module(
    module: Module,
    schedule: Schedule,
    assignment: BufferAssignment,
    keys: InstructionKeys,
    requests: Mapping[Instruction, KernelRequest],
    exchanges: Mapping[Instruction, PlannedExchange] = MappingProxyType({}),
) -> Plan:
    """Return the steps of a scheduled module.

    Args:
        module: every instruction of it is supported by the target.
        schedule: the order of its computations.
        assignment: the memory of its arrays.
        keys: of the instructions.
        requests: the kernel of each instruction that needs one, without aliases.
        exchanges: the exchanges of collectives.
    """
    hosts = [
        inst
        for computation in schedule
        for inst in schedule.order(computation)
        if runs_as(inst) == "host" or (inst in requests and requests[inst].library_function)
    ]
    table = TableLayout(
        len(assignment.constants),
        len(assignment.parameters),
        len(assignment.outputs),
        len(hosts),
    )
    numbers = computation_numbers(module)
    planner = _Planner(assignment, table, numbers, keys, requests, exchanges)
    steps = {c: tuple(planner.steps(schedule.order(c))) for c in numbers}
    return Plan(
        tuple(steps[c] for c in numbers),
        tuple(planner.kernels),
        tuple(planner.kernel_numbers),
        tuple(planner.hosts),
        table,
        assignment,
        tuple(planner.exchanges),
    )


Form: TypeAlias = Literal["nothing", "control flow", "host", "copy", "kernel", "exchange", "number"]


def runs_as(inst: Instruction) -> Form:
    """Return the form of `inst` in a plan.

    An instruction that only names, groups or forwards arrays is `nothing`. A copy that changes the
    layout is a kernel; tuples are copied by leaf. A `number` is `replica-id` or `partition-id`.
    """
    opcode = inst.opcode
    if opcode.elementwise and opcode.name != "copy":
        return "kernel"
    if opcode.exchange is not None:
        return "exchange"
    if is_between_devices(inst):
        return "exchange" if inst.is_a("send", "recv-done") else "nothing"
    if opcode.name in _DEVICE_NUMBERS:
        return "number"
    if opcode.control_flow:
        return "control flow"
    if opcode.nop or opcode.name == "copy-start" or forwards(inst):
        return "nothing"
    if opcode.name == "custom-call":
        if not (
            inst.operands or data_leaves(inst.shape) or inst.attributes.custom_call_has_side_effect
        ):
            return "nothing"
        return "kernel" if is_linalg(inst) else "host"
    if opcode.name == "copy" and (
        isinstance(inst.shape, TupleShape)
        or inst.array.minor_to_major == inst.operands[0].array.minor_to_major
    ):
        return "copy"
    return "kernel"


@dataclass(slots=True)
class _Planner:
    """Collects kernels, host functions and exchanges while it plans the steps."""

    assignment: BufferAssignment
    table: TableLayout
    numbers: dict[Computation, int]
    keys: InstructionKeys
    requests: Mapping[Instruction, KernelRequest]
    planned_exchanges: Mapping[Instruction, PlannedExchange]
    kernels: list[KernelRequest] = field(default_factory=list)
    kernel_numbers: dict[str, int] = field(default_factory=dict)
    hosts: list[HostFunction] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)

    def steps(self, order: tuple[Instruction, ...]) -> list[Step]:
        result = (self._step(inst) for inst in order)
        return [step for step in result if step is not None]

    def _step(self, inst: Instruction) -> Step | None:
        """Return the step that runs `inst`, None if there is nothing to do at run time."""
        how = runs_as(inst)
        if how == "nothing":
            return None
        if how == "control flow":
            return self._control_flow(inst)
        if how == "host":
            return self._host_call(inst)
        if how == "exchange":
            return self._exchange(inst)
        if how == "number":
            source = Place(DEVICE_SLOT, _DEVICE_NUMBERS[inst.opcode.name])
            return CopyStep(source, self._place(inst), inst.array.dtype, 1)
        if not inst.opcode.side_effect and not any(
            shape.size_bytes for _, shape in data_leaves(inst.shape)
        ):
            return None
        return self._copy(inst) if how == "copy" else self._kernel(inst)

    def _control_flow(self, inst: Instruction) -> Step:
        called = tuple(self.numbers[c] for c in inst.called)
        if inst.is_a("while"):
            condition, body = called
            return LoopStep(condition, body, self._place(inst.called[0].root))
        if inst.is_a("conditional"):
            selector = inst.operands[0]
            return BranchStep(self._place(selector), selector.array.dtype is PRED, called)
        return CallStep(called[0])

    def _copy(self, inst: Instruction) -> Step | None:
        source, target = self._place(inst.operands[0]), self._place(inst)
        if source == target:
            return None
        return CopyStep(source, target, inst.array.dtype, inst.array.elements)

    def _kernel(self, inst: Instruction) -> Step:
        usual = self.assignment.aliased(inst)
        number = self._kernel_number(replace(self.requests[inst], aliased=usual))
        arguments = self._arguments(inst)
        function = self.requests[inst].library_function
        if function:
            arguments = (*arguments, Place(self._host_slot(library_function(inst, function))))
        scratch = self.assignment.scratch(inst)
        if scratch is not None:
            arguments = (*arguments, self.table.place(scratch))
        return KernelStep(number, arguments, self._in_place(inst))

    def _kernel_number(self, request: KernelRequest) -> int:
        number = self.kernel_numbers.setdefault(kernel_key(request, self.keys), len(self.kernels))
        if number == len(self.kernels):
            self.kernels.append(request)
        return number

    def _in_place(self, inst: Instruction) -> InPlaceKernel | None:
        """Return the kernel for donated arguments, None if it is the usual one.

        One pair is enough: the aliases of one instruction are donated together.
        """
        aliased = self.assignment.aliased(inst, given=True)
        usual = self.assignment.aliased(inst)
        if aliased == usual:
            return None
        output = next(
            i for i, pair in enumerate(zip(aliased, usual, strict=True)) if len({*pair}) > 1
        )
        operand = aliased[output]
        assert operand is not None
        places = self._arguments(inst)
        results = len(data_leaves(inst.shape))
        number = self._kernel_number(replace(self.requests[inst], aliased=aliased))
        return InPlaceKernel(number, places[operand], places[len(places) - results + output])

    def _host_call(self, inst: Instruction) -> Step:
        result = host_function(inst)
        assert result is not None, f"no host function runs {inst.name}"
        slot = self._host_slot(result)
        return HostStep(len(self.hosts) - 1, slot, self._arguments(inst))

    def _exchange(self, inst: Instruction) -> Step:
        planned = self.planned_exchanges[inst]
        numbers = [self._kernel_number(request) for request in planned.combiners]
        self.exchanges.append(planned.exchange.with_kernels(numbers))
        if inst.is_a("send"):
            arguments = self._leaf_places(inst.operands[:1])
        elif inst.is_a("recv-done"):
            arguments = self._leaf_places((inst,))
        else:
            arguments = self._arguments(inst)
        return ExchangeStep(len(self.exchanges) - 1, arguments)

    def _host_slot(self, function: HostFunction) -> int:
        """Return the slot of a function of the host."""
        self.hosts.append(function)
        return self.table.first_host_function + len(self.hosts) - 1

    def _arguments(self, inst: Instruction) -> tuple[Place, ...]:
        """Return the places of the operand leaves, then of the result leaves.

        A leaf without elements gets a pointer that is never dereferenced.
        """
        return self._leaf_places((*inst.operands, inst))

    def _leaf_places(self, owners: Sequence[Instruction]) -> tuple[Place, ...]:
        return tuple(
            self._place(owner, index) if shape.size_bytes else Place(ARENA_SLOT)
            for owner in owners
            for index, shape in data_leaves(owner.shape)
        )

    def _place(self, inst: Instruction, index: ShapeIndex = ()) -> Place:
        return self.table.place(self.assignment.slice_of(inst, index))
