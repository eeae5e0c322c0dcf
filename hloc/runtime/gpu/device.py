"""What an executable needs of a GPU: memory, copies and launches, in order of the calls.

A CUDA device and the interpreter both offer this, so that all above it is tested without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from hloc.codegen.gpu.kernel import GpuFunction

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Device(Protocol):
    """One GPU. Addresses are those of its memory; sizes are in bytes."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def load(self, ptx: str) -> Any:
        """Return the code of a PTX file, ready to be launched.

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
        """Run a function of `code` on pointers."""

    def synchronize(self) -> None:
        """Wait for all that was asked; raises HloError if a kernel went wrong."""
