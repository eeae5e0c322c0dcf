"""The commands of one straight run on a device, as data: launches, library calls, copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc.codegen.gpu.kernel import GpuFunction, GpuKernel
from hloc.codegen.gpu.library_call import LibraryCall
from hloc.codegen.gpu.streams import StraightRun
from hloc.codegen.plan.plan import CopyStep
from hloc.codegen.plan.pointer_table import Place
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a function; `source` names the instruction that it computes."""

    function: GpuFunction
    arguments: tuple[int, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a library; `kernel` is the name of the kernel it replaces."""

    call: LibraryCall
    kernel: str
    arguments: tuple[int, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy within the device's memory."""

    target: int
    source_address: int
    size_bytes: int


Action: TypeAlias = Launch | Call | Copy


@dataclass(frozen=True, slots=True)
class Command:
    """The actions of one step of a run, in order, on one stream.

    Attributes:
        waits: numbers of earlier commands, on other streams, that must end before it.
    """

    actions: tuple[Action, ...]
    stream: int
    waits: tuple[int, ...]


def commands_of(
    run: StraightRun, kernels: Sequence[GpuKernel], address: Callable[[Place], int]
) -> list[Command]:
    """Return the commands of a run; `address` returns the address of a place."""
    result = []
    for placed in run.steps:
        step = placed.step
        actions: tuple[Action, ...]
        if isinstance(step, CopyStep):
            actions = (Copy(address(step.target), address(step.source), step.size_bytes),)
        else:
            kernel = kernels[step.kernel]
            arguments = tuple(map(address, step.arguments))
            actions = tuple(Launch(f, arguments, kernel.source) for f in kernel.functions)
            if kernel.library is not None:
                call = Call(kernel.library, kernel.name, arguments, kernel.source)
                actions = (call, *actions)
        result.append(Command(actions, placed.stream, placed.waits))
    return result
