"""What a device does for an exchange: a list of calls of C functions, as data.

Operands name memory and MPI's handles; `handles.py` turns them into addresses when MPI is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hloc.errors import UnsupportedError

MAX_COUNT = 2**31 - 1
"""The largest count that an MPI function takes, and the most bytes that go in one message: MPI
libraries fail or hang with more, whatever types describe it."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory at `offset` bytes of array `index` of the exchange, or of the device's own memory.

    That is scratch memory, request `index`, or as many statuses as there are requests.
    """

    kind: Literal["array", "scratch", "requests", "statuses"]
    index: int = 0
    offset: int = 0

    def at(self, offset: int) -> Buffer:
        """Return the memory that begins `offset` bytes later."""
        return Buffer(self.kind, self.index, self.offset + offset)


@dataclass(frozen=True, slots=True)
class Handle:
    """A handle of MPI, or the address of a function.

    Kinds and their keys: `communicator` (the devices of a group by rank), `world`, `check` (all
    processes; data and checks), `type` (a name of mpi4py), `contiguous` (bytes), `strided` (blocks,
    bytes of a block, bytes from one to the next, extent), `op` (a name of mpi4py), `combiner` (its
    symbol), `function` (a name), `request bytes` (of one), `words` (numbers in memory).
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

    def typed(self, extent_bytes: int = 0) -> tuple[int, Handle]:
        """Return a count and the type of one message, whose extent may be given.

        Raises:
            UnsupportedError: it is too large.
        """
        if self.size_bytes > MAX_COUNT:
            raise UnsupportedError(
                f"{self.size_bytes:,} bytes are more than the {MAX_COUNT:,} of a message over MPI"
            )
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
        """Address, count and type of one part, as a collective of MPI wants them."""
        return (self.first.buffer, *self.first.typed(self.spacing_bytes))


def contiguous_row(buffer: Buffer, part_bytes: int) -> Row:
    """Return parts that follow each other."""
    return Row(Part(buffer, part_bytes), part_bytes)
