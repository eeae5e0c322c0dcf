"""Data transport between the members of a group: by MPI's collectives, or by messages.

MPI's collectives require each member in a separate process. Messages also reach other devices of
the same process: their tags distinguish the devices of a process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hloc.lazy_dataclass import dataclass
from hloc.runtime.communicator.mpi.calls import (
    MESSAGE_BYTES,
    Buffer,
    Call,
    Handle,
    Operand,
    Part,
    Row,
    grain_of,
)


@dataclass(frozen=True, slots=True)
class Processes:
    """The devices of each process of the job: `per_process`, in the order of their ids."""

    devices: int
    per_process: int

    @property
    def count(self) -> int:
        return self.devices // self.per_process

    def process(self, device: int) -> int:
        """Return the process that runs `device`."""
        return device // self.per_process

    def of(self, process: int) -> range:
        """Return the devices of a process."""
        return range(process * self.per_process, (process + 1) * self.per_process)

    def are_apart(self, devices: Sequence[int]) -> bool:
        """True if no two of `devices` are in the same process."""
        return len({self.process(device) for device in devices}) == len(devices)

    def tag(self, source: int, target: int) -> int:
        """Return the tag of messages between two devices."""
        return source % self.per_process * self.per_process + target % self.per_process


_WORLD = Handle("world")


class Transport(Protocol):
    """Data transport to the other members of a group."""

    def all_gather(self, own: Part, parts: Row) -> tuple[Call, ...]:
        """Send `own` to all, receive that of rank k as part k."""

    def all_to_all(self, sent: Row, received: Row) -> tuple[Call, ...]:
        """Send part k to rank k, receive part k from rank k."""

    def broadcast(self, part: Part) -> tuple[Call, ...]:
        """Send `part` of rank 0, receive it at all others."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages between single devices.

    Attributes:
        group: its members by rank.
        rank: the rank of this device.
        channel: the communicator of all processes.
        most_bytes: most bytes of one message; larger data is sent in pieces.
    """

    processes: Processes
    group: tuple[int, ...]
    rank: int
    channel: Handle = _WORLD
    most_bytes: int = MESSAGE_BYTES

    def exchange(
        self, sent: Mapping[int, Part], received: Mapping[int, Part], grain: int = 1
    ) -> tuple[Call, ...]:
        """Send and receive by rank; parts without bytes are left out at both ends.

        `grain` is that of all parts (`grain_of`).
        """
        own, processes = self.group[self.rank], self.processes
        calls: list[Call] = []
        for function, parts in (("MPI_Irecv", received), ("MPI_Isend", sent)):
            for rank, part in parts.items():
                if not part.size_bytes:
                    continue
                other = self.group[rank]
                ends = (other, own) if function == "MPI_Irecv" else (own, other)
                place: tuple[Operand, ...] = (processes.process(other), processes.tag(*ends))
                for piece in part.cut(self.most_bytes, grain):
                    request = Buffer("requests", len(calls))
                    typed = piece.buffer, *piece.typed()
                    calls.append(Call(function, (*typed, *place, self.channel, request)))
        return (*calls, wait_for(len(calls))) if calls else ()

    def all_gather(self, own: Part, parts: Row) -> tuple[Call, ...]:
        ranks = range(len(self.group))
        received = {rank: parts.part(rank) for rank in ranks}
        return self.exchange(dict.fromkeys(ranks, own), received, grain_of(own, parts.first))

    def all_to_all(self, sent: Row, received: Row) -> tuple[Call, ...]:
        ranks = range(len(self.group))
        return self.exchange(
            {rank: sent.part(rank) for rank in ranks},
            {rank: received.part(rank) for rank in ranks},
            grain_of(sent.first, received.first),
        )

    def broadcast(self, part: Part) -> tuple[Call, ...]:
        if self.rank:
            return self.exchange({}, {0: part})
        return self.exchange(dict.fromkeys(range(1, len(self.group)), part), {})


@dataclass(frozen=True, slots=True)
class Collectives:
    """MPI's collectives on the communicator of a group."""

    group: tuple[int, ...]

    @property
    def communicator(self) -> Handle:
        return Handle("communicator", self.group)

    def all_gather(self, own: Part, parts: Row) -> tuple[Call, ...]:
        operands = (own.buffer, *own.typed(), *parts.operands, self.communicator)
        return (Call("MPI_Allgather", operands),)

    def all_to_all(self, sent: Row, received: Row) -> tuple[Call, ...]:
        return (Call("MPI_Alltoall", (*sent.operands, *received.operands, self.communicator)),)

    def broadcast(self, part: Part) -> tuple[Call, ...]:
        return (Call("MPI_Bcast", (part.buffer, *part.typed(), 0, self.communicator)),)


def wait_for(requests: int) -> Call:
    """Return the call that waits until the first `requests` are complete."""
    return Call("MPI_Waitall", (requests, Buffer("requests"), Buffer("statuses")))
