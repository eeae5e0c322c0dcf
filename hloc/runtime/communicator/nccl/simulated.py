"""NCCL on simulated GPUs: the work of a group runs when the group ends.

Reductions run from the last rank to the first, since NCCL guarantees no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from hloc.codegen.gpu.nccl_sums import OPERATIONS, TYPES
from hloc.dtypes import Array, dtype_named
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.runtime.gpu.device import Device

_OPERATIONS: dict[int, Callable[..., Any]] = {
    OPERATIONS["add"]: np.add,
    OPERATIONS["multiply"]: np.multiply,
    OPERATIONS["maximum"]: np.maximum,
    OPERATIONS["minimum"]: np.minimum,
}
_DTYPES = {number: dtype_named(name).numpy for name, number in reversed(TYPES.items())}


@dataclass(slots=True, eq=False)
class Group:
    """The devices of a group by rank, and the work that is collected for each.

    Attributes:
        sent, received: messages by sender and receiver: address and bytes.
        collectives: by rank; those at the same position belong together.
    """

    devices: list[Device]
    sent: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    received: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    collectives: list[list[tuple[Any, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.collectives = [[] for _ in self.devices]


Member: TypeAlias = tuple[Group, int]


class SimulatedNccl:
    """NCCL for simulated devices, by their number."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices
        self._groups: list[Group] = []

    def communicators(self, group: Sequence[int]) -> list[Member]:
        """Return new communicators of the members of a group, by rank."""
        joined = Group([self._devices[device] for device in group])
        self._groups.append(joined)
        return [(joined, rank) for rank in range(len(group))]

    def group_start(self) -> None:
        """Begin to collect work."""

    def group_end(self) -> None:
        """Run the collected work.

        Raises:
            HloError: the calls of the members do not match; real GPUs would hang.
        """
        for group in self._groups:
            _move(group)
            for asked in zip(*group.collectives, strict=True):
                _perform(group, asked)
            for own in group.collectives:
                own.clear()

    def send(self, comm: Member, source: int, size: int, peer: int) -> None:
        """Send to rank `peer`."""
        group, rank = comm
        group.sent.setdefault((rank, peer), []).append((source, size))

    def recv(self, comm: Member, target: int, size: int, peer: int) -> None:
        """Receive from rank `peer`."""
        group, rank = comm
        group.received.setdefault((peer, rank), []).append((target, size))

    def all_gather(self, comm: Member, source: int, target: int, size: int) -> None:
        """Send `size` bytes to all; receive those of rank k as piece k."""
        self._collect(comm, "all-gather", source, target, size)

    def broadcast(self, comm: Member, source: int, target: int, size: int) -> None:
        """Receive the data at `source` of rank 0."""
        self._collect(comm, "broadcast", source, target, size)

    def all_reduce(
        self, comm: Member, source: int, target: int, count: int, dtype: int, operation: int
    ) -> None:
        """Reduce `count` elements in any order."""
        self._collect(comm, "all-reduce", source, target, count, dtype, operation)

    def reduce_scatter(
        self, comm: Member, source: int, target: int, count: int, dtype: int, operation: int
    ) -> None:
        """Reduce arrays of `count` elements per member in any order; keep the own piece."""
        self._collect(comm, "reduce-scatter", source, target, count, dtype, operation)

    def close(self) -> None:
        """Forget all groups."""
        self._groups.clear()

    def _collect(self, comm: Member, *asked: Any) -> None:
        group, rank = comm
        group.collectives[rank].append(asked)


def _move(group: Group) -> None:
    if group.sent.keys() != group.received.keys():
        raise HloError("a message has no receiver, or none is sent to one")
    moved = []
    for (sender, receiver), messages in group.sent.items():
        pairs = zip(messages, group.received[sender, receiver], strict=True)
        for (source, size), (target, room) in pairs:
            if size != room:
                raise HloError(f"{size} bytes are sent to rank {receiver}, which expects {room}")
            moved.append((receiver, target, group.devices[sender].read(source, size)))
    for receiver, target, data in moved:
        if data.nbytes:
            group.devices[receiver].write(target, data)
    group.sent.clear()
    group.received.clear()


def _perform(group: Group, asked: Sequence[tuple[Any, ...]]) -> None:
    """Run one collective, given the call of each rank."""
    kind, _, _, count, *numbers = asked[0]
    if any((a[0], *a[3:]) != (kind, count, *numbers) for a in asked):
        raise HloError(f"the calls of the members differ: {asked}")
    members = len(asked)
    if kind in ("all-gather", "broadcast"):
        parts = [d.read(a[1], count) for d, a in zip(group.devices, asked, strict=True)]
        whole = np.concatenate(parts) if kind == "all-gather" else parts[0]
        results = [whole] * members
    else:
        dtype = np.dtype(_DTYPES[numbers[0]])
        scattered = members if kind == "reduce-scatter" else 1
        size = count * dtype.itemsize * scattered
        parts = [d.read(a[1], size) for d, a in zip(group.devices, asked, strict=True)]
        total: Array = parts[-1].view(dtype)
        for part in reversed(parts[:-1]):
            with np.errstate(all="ignore"):
                total = _OPERATIONS[numbers[1]](total, part.view(dtype))
        pieces = np.split(total, members) if scattered > 1 else [total] * members
        results = [piece.view(np.uint8) for piece in pieces]
    for device, own, result in zip(group.devices, asked, results, strict=True):
        if result.nbytes:
            device.write(own[2], np.ascontiguousarray(result))
