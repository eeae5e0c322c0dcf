"""The execution plan: kernel calls, copies, loops, branches, host calls and exchanges.

The last form before machine code that is independent of LLVM; its steps are what XLA calls thunks.
They name memory by slots of the pointer table that the entry function receives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from hloc.codegen.plan.exchange import Exchange
from hloc.codegen.plan.host_calls import HostFunction
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.codegen.plan.pointer_table import (
    DEVICE_SLOT,
    Place,
    TableLayout,
)
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.assigned_buffers import BufferAssignment


@dataclass(frozen=True, slots=True)
class InPlaceKernel:
    """Kernel `kernel`, for runs in which the places `parameter` and `output` have one address."""

    kernel: int
    parameter: Place
    output: Place


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Call kernel `kernel` (a number) over its whole extent.

    Attributes:
        in_place: runs instead where an output has the address of the parameter it may overwrite.
    """

    kernel: int
    arguments: tuple[Place, ...]
    in_place: InPlaceKernel | None = None

    @property
    def kernels(self) -> tuple[int, ...]:
        """The numbers of all kernels it may call."""
        return (self.kernel,) if self.in_place is None else (self.kernel, self.in_place.kernel)


@dataclass(frozen=True, slots=True)
class SideBySideStep:
    """Call independent kernels, in any order or at the same time.

    Attributes:
        number: that of the step among those of its kind.
    """

    number: int
    steps: tuple[KernelStep, ...]


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copy `elements` elements between places that do not overlap."""

    source: Place
    target: Place
    dtype: DType
    elements: int

    @property
    def size_bytes(self) -> int:
        """Bytes that are copied."""
        return self.elements * self.dtype.storage_bytes


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Run computation `condition`, and `body` as long as `predicate` holds after it."""

    condition: int
    body: int
    predicate: Place


@dataclass(frozen=True, slots=True)
class BranchStep:
    """Run one of `branches`: by index (the last if out of range) or predicate (first if true)."""

    selector: Place
    is_predicate: bool
    branches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CallStep:
    """Run a computation."""

    computation: int


@dataclass(frozen=True, slots=True)
class HostStep:
    """Call host function `function` (a number), whose address is in `slot`."""

    function: int
    slot: int
    arguments: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class ExchangeStep:
    """Take part in exchange `number` of the plan, with the operands, then the results."""

    number: int
    arguments: tuple[Place, ...]


Step: TypeAlias = (
    KernelStep
    | SideBySideStep
    | CopyStep
    | LoopStep
    | BranchStep
    | CallStep
    | HostStep
    | ExchangeStep
)


def kernel_steps(steps: Iterable[Step]) -> Iterator[KernelStep]:
    """Yield the calls of kernels among `steps`, those side by side included."""
    for step in steps:
        if isinstance(step, KernelStep):
            yield step
        elif isinstance(step, SideBySideStep):
            yield from step.steps


def called_by(step: Step) -> tuple[int, ...]:
    """Return the numbers of the computations that a step runs."""
    match step:
        case LoopStep():
            return step.condition, step.body
        case BranchStep():
            return step.branches
        case CallStep():
            return (step.computation,)
    return ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps per computation, the entry's first, and the distinct kernels they call.

    Attributes:
        exchanges: between devices, in the order of the steps; their combiners are kernels too.
    """

    computations: tuple[tuple[Step, ...], ...]
    kernels: tuple[KernelRequest, ...]
    keys: tuple[str, ...]
    host_functions: tuple[HostFunction, ...]
    table: TableLayout
    assignment: BufferAssignment
    exchanges: tuple[Exchange, ...] = ()

    @property
    def tells_devices(self) -> bool:
        """True if it exchanges data, or copies the number of the device."""
        return any(
            isinstance(step, ExchangeStep)
            or (isinstance(step, CopyStep) and step.source.slot == DEVICE_SLOT)
            for steps in self.computations
            for step in steps
        )
