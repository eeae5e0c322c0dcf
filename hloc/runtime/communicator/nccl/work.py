"""The NCCL calls of a collective, once all members of a group have arrived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.codegen.gpu.nccl_sums import TYPES, nccl_operation
from hloc.codegen.plan.exchange import Exchange
from hloc.dtypes import dtype_named
from hloc.lazy_dataclass import dataclass
from hloc.runtime.communicator.faults import rows_outside
from hloc.runtime.communicator.nccl.interface import Nccl, grouped
from hloc.runtime.gpu.device import Device


@dataclass(frozen=True, slots=True)
class Task:
    """One collective of one group.

    Attributes:
        group: flattened ids by rank; `devices`, `comms` and `arrays` are by rank, too.
        arrays: addresses of the operands, then the results.
    """

    nccl: Nccl
    exchange: Exchange
    group: tuple[int, ...]
    devices: Sequence[Device]
    comms: Sequence[Any]
    arrays: Sequence[Sequence[int]]

    @property
    def ranks(self) -> range:
        return range(len(self.group))

    def operand(self, rank: int, number: int) -> int:
        """Return the address of an operand."""
        return self.arrays[rank][number]

    def result(self, rank: int, number: int) -> int:
        """Return the address of a result."""
        return self.arrays[rank][len(self.exchange.operands) + number]

    def send(self, source: int, address: int, target: int, place: int, size: int) -> None:
        """Send bytes from rank to rank."""
        if size:
            self.nccl.send(self.comms[source], address, size, target)
            self.nccl.recv(self.comms[target], place, size, source)


def ask_for(task: Task) -> None:
    """Enqueue a collective, as one group of calls.

    Raises:
        HloError: rows of a ragged all-to-all are out of bounds; NCCL fails.
    """
    if task.exchange.opcode == "ragged-all-to-all":
        _ragged(task)
        return
    if task.exchange.opcode == "collective-permute":
        _zeros_for_those_without_a_source(task)
    with grouped(task.nccl):
        if task.exchange.opcode == "collective-permute":
            _permute(task)
            return
        for number, operand in enumerate(task.exchange.operands):
            assert operand.outer == 1, "the exchange form has whole pieces only"
            if operand.size_bytes:
                _one_array(task, number)


def _one_array(task: Task, number: int) -> None:
    """Enqueue the transfers of operand `number` of every member."""
    exchange, nccl = task.exchange, task.nccl
    size = exchange.operands[number].size_bytes
    for rank in task.ranks:
        comm, source = task.comms[rank], task.operand(rank, number)
        match exchange.opcode:
            case "all-gather":
                nccl.all_gather(comm, source, task.result(rank, number), size)
            case "collective-broadcast":
                nccl.broadcast(comm, source, task.result(rank, number), size)
            case "all-reduce" | "reduce-scatter":
                _reduce(task, rank, number)
            case "all-to-all" if exchange.operands[number].count == 1 < len(task.group):
                task.send(rank, source, number, task.result(number, rank), size)
            case "all-to-all":
                piece = size // len(task.group)
                for peer in task.ranks:
                    place = task.result(peer, number) + rank * piece
                    task.send(rank, source + peer * piece, peer, place, piece)


def _reduce(task: Task, rank: int, number: int) -> None:
    exchange = task.exchange
    pieces = exchange.operands[number]
    dtype = dtype_named(pieces.dtype)
    operation = nccl_operation(dtype, exchange.reducer, len(task.group), fast=True)
    assert operation is not None, "the exchange form has only sums that NCCL can do"
    count = exchange.results[number].size_bytes // dtype.storage_bytes
    source, target = task.operand(rank, number), task.result(rank, number)
    ask = task.nccl.all_reduce if exchange.opcode == "all-reduce" else task.nccl.reduce_scatter
    ask(task.comms[rank], source, target, count, TYPES[dtype.name], operation)


def _zeros_for_those_without_a_source(task: Task) -> None:
    targets = {target for _, target in task.exchange.pairs}
    for rank, device in enumerate(task.group):
        if device not in targets:
            write_zeros(task.devices[rank], task.exchange, task.arrays[rank])


def write_zeros(device: Device, exchange: Exchange, arrays: Sequence[int]) -> None:
    """Clear the results of a device to which no other device sends data."""
    for number, result in enumerate(exchange.results):
        if result.size_bytes:
            address = arrays[len(exchange.operands) + number]
            device.write(address, np.zeros(result.size_bytes, np.uint8))


def _permute(task: Task) -> None:
    for source, target in task.exchange.pairs:
        if source in task.group:
            s, t = task.group.index(source), task.group.index(target)
            for number, operand in enumerate(task.exchange.operands):
                place = task.result(t, number)
                task.send(s, task.operand(s, number), t, place, operand.size_bytes)


def _ragged(task: Task) -> None:
    """Read the targets of rows, then send them; the host waits for the streams of all members."""
    exchange = task.exchange
    source, output, starts, *_ = exchange.operands
    dtype, members = dtype_named(starts.dtype), len(task.group)
    row = source.inner_bytes

    def numbers(rank: int, which: int) -> list[int]:
        data = task.devices[rank].read(task.operand(rank, which), starts.size_bytes)
        found: list[int] = data.view(dtype.numpy).tolist()
        return found

    sent = [[numbers(rank, which) for which in (2, 3, 4)] for rank in task.ranks]
    for rank, device in enumerate(task.devices):
        device.copy(task.result(rank, 0), task.operand(rank, 1), output.size_bytes)
    moves = []
    for rank in task.ranks:
        updates = len(sent[rank][0]) // members
        for i, (start, count, place) in enumerate(zip(*sent[rank], strict=True)):
            if min(start, count, place) < 0 or start + count > source.outer:
                raise rows_outside(exchange, task.group[rank], (count, start, place))
            if place + count > output.outer:
                raise rows_outside(exchange, task.group[rank], (count, start, place))
            moves.append((rank, start, i // updates, place, count))
    with grouped(task.nccl):
        for rank, start, peer, place, count in moves:
            address = task.operand(rank, 0) + start * row
            task.send(rank, address, peer, task.result(peer, 0) + place * row, count * row)
