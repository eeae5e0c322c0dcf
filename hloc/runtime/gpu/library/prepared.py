"""The protocols of prepared library calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class DeviceMemory(Protocol):
    """The memory functions of a device that calls need."""

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory."""

    def free(self, address: int) -> None:
        """Free memory after all work that was enqueued before."""

    def copy_on(self, stream: int, target: int, source: int, size_bytes: int) -> None:
        """Copy inside the device's memory, on a stream."""


class Prepared(Protocol):
    """A call that can run any number of times, on one stream at a time."""

    def run(self, arguments: Sequence[int], stream: int) -> None:
        """Enqueue it on a stream; `arguments` are the addresses of the kernel's arguments."""

    def close(self) -> None:
        """Free its resources."""
