"""The calls of C functions for an exchange, as data.

Operands name memory and MPI's handles; `handles.py` resolves them once MPI is initialised.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from hloc.lazy_dataclass import dataclass

MESSAGE_BYTES = 2**31 - 1
"""Most bytes of one message, and the largest count of an MPI function. Larger types or the large
counts of MPI 4 would allow more, but not all libraries support the latter, and their transports
fail or hang."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory at `offset` bytes of array `index` of the exchange, or of the device's own memory.

    The device's own memory is scratch memory, request `index`, or a status per request.
    """

    kind: Literal["array", "scratch", "requests", "statuses"]
    index: int = 0
    offset: int = 0

    def at(self, offset: int) -> Buffer:
        """Return the memory at a further offset in bytes."""
        return Buffer(self.kind, self.index, self.offset + offset)


@dataclass(frozen=True, slots=True)
class Handle:
    """A handle of MPI, or the address of a function.

    Kinds and their keys: `communicator` (the devices of a group by rank), `world`, `check`,
    `transfers` (all processes: data of collectives, checks, data of send and recv), `type` (a name
    of mpi4py), `strided` (blocks, bytes of a block, bytes from one to the next, extent), `op` (a
    name of mpi4py), `combiner` (its symbol), `function` (a name), `request bytes` (of one), `words`
    (numbers in memory).
    """

    kind: str
    key: str | tuple[int, ...] = ()


Operand: TypeAlias = int | Buffer | Handle


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `function` is of MPI, or of `machine.py` if its name does not begin with `MPI_`."""

    function: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of an array: `blocks` of `block_bytes`, `stride_bytes` from one to the next."""

    buffer: Buffer
    block_bytes: int
    blocks: int = 1
    stride_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return self.blocks * self.block_bytes

    @property
    def is_contiguous(self) -> bool:
        return self.blocks == 1 or self.stride_bytes == self.block_bytes

    def cut(self, most_bytes: int, grain: int) -> Iterator[Part]:
        """Yield parts of at most `most_bytes`, in order.

        Both ends of a message split it alike, whatever their strides, if they pass the same
        `grain`: the block size of the end that is strided, else 1.
        """
        if self.size_bytes <= most_bytes:
            yield self
            return
        blocks = self
        if self.is_contiguous:
            blocks = Part(self.buffer, grain, self.size_bytes // grain, grain)
        step = most_bytes // grain or 1
        for first in range(0, blocks.blocks, step):
            buffer = self.buffer.at(first * blocks.stride_bytes)
            count = min(step, blocks.blocks - first)
            yield from Part(buffer, grain, count, blocks.stride_bytes).cut(most_bytes, 1)

    def typed(self, extent_bytes: int = 0) -> tuple[int, Handle]:
        """Return count and type of one message; the type may have another extent."""
        assert self.size_bytes <= MESSAGE_BYTES, "larger parts are sent in pieces"
        if self.is_contiguous:
            return self.size_bytes, Handle("type", "BYTE")
        extent = extent_bytes or self.blocks * self.stride_bytes
        key = (self.blocks, self.block_bytes, self.stride_bytes, extent)
        return 1, Handle("strided", key)


@dataclass(frozen=True, slots=True)
class Row:
    """Equal parts of one array, one per rank, `spacing_bytes` from one to the next."""

    first: Part
    spacing_bytes: int

    def part(self, rank: int) -> Part:
        first = self.first
        buffer = first.buffer.at(rank * self.spacing_bytes)
        return Part(buffer, first.block_bytes, first.blocks, first.stride_bytes)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Address, count and type of one part, the arguments of MPI's collectives."""
        return (self.first.buffer, *self.first.typed(self.spacing_bytes))


def grain_of(*ends: Part) -> int:
    """Return the grain by which both ends of a message split it."""
    return next((end.block_bytes for end in ends if not end.is_contiguous), 1)


def contiguous_row(buffer: Buffer, part_bytes: int) -> Row:
    """Return contiguous parts."""
    return Row(Part(buffer, part_bytes), part_bytes)
