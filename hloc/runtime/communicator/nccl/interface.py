"""The interface to NCCL, implemented by the library and by a simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from hloc.errors import HloError


class Nccl(Protocol):
    """NCCL for the devices of a run, which are numbered from 0; sizes are in bytes.

    Work between `group_start` and `group_end` starts together. It runs on the stream of each
    device, after all work that was enqueued there before.
    """

    def communicators(self, group: Sequence[int]) -> list[Any]:
        """Return new communicators of the members of a group, by rank.

        Raises:
            HloError: NCCL fails.
        """

    def group_start(self) -> None:
        """Begin to collect work."""

    def group_end(self) -> None:
        """Enqueue the collected work."""

    def send(self, comm: Any, source: int, size: int, peer: int) -> None:
        """Send to rank `peer`."""

    def recv(self, comm: Any, target: int, size: int, peer: int) -> None:
        """Receive from rank `peer`."""

    def all_gather(self, comm: Any, source: int, target: int, size: int) -> None:
        """Send `size` bytes to all; receive those of rank k as piece k."""

    def broadcast(self, comm: Any, source: int, target: int, size: int) -> None:
        """Receive the data at `source` of rank 0."""

    def all_reduce(
        self, comm: Any, source: int, target: int, count: int, dtype: int, operation: int
    ) -> None:
        """Reduce `count` elements in any order."""

    def reduce_scatter(
        self, comm: Any, source: int, target: int, count: int, dtype: int, operation: int
    ) -> None:
        """Reduce arrays of `count` elements per member in any order; keep the own piece."""

    def close(self) -> None:
        """Free all communicators."""


@contextmanager
def grouped(nccl: Nccl) -> Iterator[None]:
    """Collect the work of a block and enqueue it; nothing is enqueued if the block fails."""
    nccl.group_start()
    try:
        yield
    except BaseException:
        with suppress(HloError):  # NCCL drops the collected work and repeats the error
            nccl.group_end()
        raise
    nccl.group_end()
