"""The interface of a GPU for executables: memory, copies and launches, in order of the calls.

A CUDA device and the interpreter both implement it, so that everything above is tested without a
GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from hloc.codegen.gpu.backend import GpuModule
from hloc.codegen.gpu.kernel import GpuFunction
from hloc.codegen.gpu.library_call import LibraryCall
from hloc.dtypes import Array
from hloc.runtime.gpu.commands import Command


class Device(Protocol):
    """One GPU. Addresses are those of its memory; sizes are in bytes."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def load(self, compiled: GpuModule) -> Any:
        """Return the code of a module's kernels, ready to be launched.

        Raises:
            HloError: the device does not take it.
        """

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def write(self, address: int, data: Array) -> None:
        """Copy a contiguous array to the device."""

    def read(self, address: int, size_bytes: int) -> Array:
        """Return bytes of the device's memory, after all that was asked of it before."""

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Copy inside the device's memory; the ranges do not overlap."""

    def launch(self, code: Any, function: GpuFunction, arguments: Sequence[int]) -> None:
        """Run a function of `code` on pointers.

        Behind them goes a description of the device's own for each `TensorMapArgument`.
        """

    def synchronize(self) -> None:
        """Wait for all that was asked; raises HloError if a kernel went wrong."""


@runtime_checkable
class LibraryDevice(Device, Protocol):
    """A device that libraries know."""

    def call(self, code: Any, call: LibraryCall, kernel: str, arguments: Sequence[int]) -> None:
        """Let a library do what the kernel called `kernel` would, with the same arguments."""


@runtime_checkable
class RecordingDevice(Device, Protocol):
    """A device that takes runs of many launches at once, and keeps memory between calls."""

    @property
    def records(self) -> bool:
        """Whether it is worth while to record at this time."""

    def record(self, code: Any, commands: Sequence[Command]) -> Any:
        """Return commands, at least one, as a graph that can be replayed; nothing runs yet."""

    def replay(self, graph: Any) -> None:
        """Run a graph after all that was asked before; commands in the order of their waits."""

    def discard(self, graph: Any) -> None:
        """Give a graph back; it is not running."""

    def unload(self, code: Any) -> None:
        """Unload code that is no longer used."""
