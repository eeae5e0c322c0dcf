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
        """Its name in messages."""

    def load(self, compiled: GpuModule) -> Any:
        """Return the code of a module's kernels, ready to be launched.

        Raises:
            HloError: the device rejects it.
        """

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes."""

    def free(self, address: int) -> None:
        """Free memory."""

    def write(self, address: int, data: Array) -> None:
        """Copy a contiguous array to the device."""

    def read(self, address: int, size_bytes: int) -> Array:
        """Return bytes of the device's memory, after all work that was enqueued before."""

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Copy inside the device's memory; the ranges do not overlap."""

    def launch(self, code: Any, function: GpuFunction, arguments: Sequence[int]) -> None:
        """Run a function of `code` on pointers.

        The device appends its tensor map for each `TensorMapArgument`.
        """

    def synchronize(self) -> None:
        """Wait for all enqueued work; raises HloError if a kernel failed."""


@runtime_checkable
class LibraryDevice(Device, Protocol):
    """A device that supports library calls."""

    def call(self, code: Any, call: LibraryCall, kernel: str, arguments: Sequence[int]) -> None:
        """Run the library call that replaces the kernel `kernel`, with the same arguments."""


@runtime_checkable
class RecordingDevice(Device, Protocol):
    """A device that replays recorded runs of many launches, in memory that calls share."""

    @property
    def records(self) -> bool:
        """Whether to record at present."""

    def record(self, code: Any, commands: Sequence[Command]) -> Any:
        """Return commands, at least one, as a graph that can be replayed; nothing runs yet."""

    def replay(self, graph: Any) -> None:
        """Run a graph after all enqueued work; commands run in the order of their waits."""

    def discard(self, graph: Any) -> None:
        """Destroy a graph that is not running."""

    def unload(self, code: Any) -> None:
        """Unload code that is no longer used."""
