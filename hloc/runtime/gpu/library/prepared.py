"""What the calls of all libraries share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class DeviceMemory(Protocol):
    """What calls need of a device."""

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory."""

    def free(self, address: int) -> None:
        """Give memory back once all that was asked before has ended."""

    def copy_on(self, stream: int, target: int, source: int, size_bytes: int) -> None:
        """Copy inside the device's memory, on a stream."""


class Prepared(Protocol):
    """A call that can be made as often as one likes, on one stream at a time."""

    def run(self, arguments: Sequence[int], stream: int) -> None:
        """Ask for it on a stream; `arguments` are the addresses of those of a kernel."""

    def close(self) -> None:
        """Give back what it holds."""
