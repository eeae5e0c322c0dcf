"""MPI in one process, for tests without it: performs the call lists of devices on NumPy arrays.

Each device is a thread. Messages are queues by communicator, sender, receiver and tag, which is
what MPI promises: two messages between the same processes with one tag arrive in order.
"""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.runtime.communicator.mpi.call_lists import CallList
from hloc.runtime.communicator.mpi.calls import Buffer, Call, Handle, Operand
from hloc.runtime.communicator.mpi.transport import Processes
from tests.waiting import PATIENCE, all_at_once

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Bytes: TypeAlias = Array
Combiners: TypeAlias = Mapping[str, Callable[[Sequence[Bytes]], Bytes]]

_NUMPY: dict[Operand, Any] = {
    Handle("type", "FLOAT"): np.float32,
    Handle("type", "INT32_T"): np.int32,
    Handle("type", "UINT8_T"): np.uint8,
}
_OPS: dict[Operand, Any] = {
    Handle("op", "SUM"): np.add,
    Handle("op", "PROD"): np.multiply,
    Handle("op", "MAX"): np.maximum,
    Handle("op", "MIN"): np.minimum,
    Handle("op", "BOR"): np.bitwise_or,
    Handle("op", "BAND"): np.bitwise_and,
}


class Job:
    """The messages under way between the processes of a job."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self._queues: defaultdict[Any, queue.Queue[Any]] = defaultdict(queue.Queue)
        self._lock = threading.Lock()

    def queue(self, *key: Any) -> queue.Queue[Any]:
        with self._lock:
            return self._queues[key]

    def perform(
        self, lists: Sequence[CallList], arrays: Sequence[list[Array]], combiners: Combiners
    ) -> list[BaseException | None]:
        """Perform the list of each device on its arrays, all at the same time.

        Args:
            lists: by device.
            arrays: per device the operands and then the results, which are written.
            combiners: what the reductions do, from the parts of all members to their sum.

        Returns:
            What each device failed with, if it did.
        """
        faults: list[BaseException | None] = [None] * len(lists)

        def run(device: int) -> None:
            try:
                _Device(self, device, lists[device], arrays[device], combiners).run()
            except BaseException as fault:
                faults[device] = fault

        all_at_once(len(lists), run)
        return faults


class _Device:
    def __init__(
        self,
        job: Job,
        device: int,
        calls: CallList,
        arrays: list[Array],
        combiners: Combiners,
    ) -> None:
        self.job, self.device, self.calls, self.combiners = job, device, calls, combiners
        self.process = job.processes.process(device)
        self.arrays = [array.reshape(-1).view(np.uint8) for array in arrays]
        self.scratch = np.full(calls.scratch_bytes, 0xAA, np.uint8)
        self.requests: dict[int, Callable[[], None]] = {}

    def run(self) -> None:
        for call in self.calls.calls:
            getattr(self, f"_{call.function}")(*call.operands)

    # ---- memory

    def _bytes(self, buffer: Operand, size: int) -> Bytes:
        assert isinstance(buffer, Buffer)
        memory = self.arrays[buffer.index] if buffer.kind == "array" else self.scratch
        assert 0 <= buffer.offset <= len(memory) - size, f"{size} bytes at {buffer}"
        return memory[buffer.offset : buffer.offset + size]

    def _blocks(self, buffer: Operand, count: Operand, type_: Operand, place: int) -> list[Bytes]:
        """Return the blocks of bytes of item number `place` of a type, or of `count` bytes."""
        assert isinstance(buffer, Buffer)
        match type_:
            case Handle("type", "BYTE"):
                assert isinstance(count, int)
                return [self._bytes(buffer.at(place * count), count)]
            case Handle("strided", tuple() as key):
                blocks, size, stride, extent = map(int, key)
                first = buffer.at(place * extent)
                return [self._bytes(first.at(i * stride), size) for i in range(blocks)]
        raise AssertionError(type_)

    def _read(self, *part: Any, place: int = 0) -> Bytes:
        buffer, count, type_ = part
        return np.concatenate(self._blocks(buffer, count, type_, place))

    def _write(self, data: Bytes, *part: Any, place: int = 0) -> None:
        buffer, count, type_ = part
        for block in self._blocks(buffer, count, type_, place):
            block[:], data = data[: len(block)], data[len(block) :]
        assert not len(data)

    # ---- MPI

    def _MPI_Isend(self, *operands: Any) -> None:
        *part, target, tag, channel, request = operands
        self.job.queue(channel, self.process, target, tag).put(self._read(*part))
        self.requests[request.index] = lambda: None

    def _MPI_Irecv(self, *operands: Any) -> None:
        *part, source, tag, channel, request = operands
        messages = self.job.queue(channel, source, self.process, tag)
        self.requests[request.index] = lambda: self._write(messages.get(timeout=PATIENCE), *part)

    def _MPI_Waitall(self, count: int, requests: Buffer, _statuses: Buffer) -> None:
        assert requests.index == 0
        assert sorted(self.requests) == list(range(count))
        assert count <= self.calls.requests
        for complete in self.requests.values():
            complete()
        self.requests.clear()

    def _gathered(self, communicator: Operand, sent: Sequence[Bytes]) -> list[Bytes]:
        """Send item k of `sent` to rank k; return what each rank sent here."""
        assert isinstance(communicator, Handle)
        group = communicator.key
        assert isinstance(group, tuple)
        assert self.job.processes.are_apart(group)
        for target, data in zip(group, sent, strict=True):
            self.job.queue(communicator, self.device, target).put(data)
        return [
            self.job.queue(communicator, source, self.device).get(timeout=PATIENCE)
            for source in group
        ]

    def _MPI_Allgather(self, *operands: Any) -> None:
        sent, received, communicator = operands[:3], operands[3:6], operands[6]
        data = [self._read(*sent)] * len(communicator.key)
        for rank, found in enumerate(self._gathered(communicator, data)):
            self._write(found, *received, place=rank)

    def _MPI_Alltoall(self, *operands: Any) -> None:
        sent, received, communicator = operands[:3], operands[3:6], operands[6]
        data = [self._read(*sent, place=rank) for rank in range(len(communicator.key))]
        for rank, found in enumerate(self._gathered(communicator, data)):
            self._write(found, *received, place=rank)

    def _MPI_Bcast(self, *operands: Any) -> None:
        *part, root, communicator = operands
        data = [self._read(*part)] * len(communicator.key)
        self._write(self._gathered(communicator, data)[root], *part)

    def _MPI_Allreduce(self, *operands: Any) -> None:
        source, target, count, type_, op, communicator = operands
        size = count * np.dtype(_NUMPY[type_]).itemsize
        data = [self._bytes(source, size).copy()] * len(communicator.key)
        arrays = [a.view(_NUMPY[type_]) for a in self._gathered(communicator, data)]
        arrays.reverse()  # MPI promises no order
        self._bytes(target, size)[:] = _total(_OPS[op], arrays).view(np.uint8)

    def _MPI_Reduce_scatter_block(self, *operands: Any) -> None:
        source, target, count, type_, op, communicator = operands
        size = count * np.dtype(_NUMPY[type_]).itemsize
        members = range(len(communicator.key))
        data = [self._bytes(source.at(rank * size), size).copy() for rank in members]
        arrays = [a.view(_NUMPY[type_]) for a in self._gathered(communicator, data)]
        self._bytes(target, size)[:] = _total(_OPS[op], arrays).view(np.uint8)

    # ---- machine.py

    def _copy(self, target: Operand, source: Operand, size: int) -> None:
        self._bytes(target, size)[:] = self._bytes(source, size)

    def _set_zero(self, target: Operand, size: int) -> None:
        self._bytes(target, size)[:] = 0

    def _set_word(self, target: Operand, number: int) -> None:
        self._bytes(target, 8).view(np.int64)[0] = number

    def _compare_words(self, words: Operand, count: int, number: int) -> None:
        found = self._bytes(words, 8 * count).view(np.int64)
        if (found != number).any():
            raise ValueError(f"others are at {found.tolist()}, not {number}")

    def _combine(self, *operands: Any) -> None:
        combiner, members, first, spacing, rank, own, result, count, element = operands
        size = count * element
        parts = [self._bytes(first.at(k * spacing), size) for k in range(members)]
        if own:
            parts[rank] = self._bytes(own, size)
        self._bytes(result, size)[:] = self.combiners[combiner.key](parts)

    def _exchange_rows(self, *operands: Any) -> None:
        (members, updates, width, rank, peers, tags_to, tags_from, channel, _, row) = operands[:10]
        (source, _, starts, counts, result, _, receives, places) = operands[10:18]
        dtype = np.dtype(f"{'i' if width < 0 else 'u'}{abs(width)}")
        numbers = [
            self._bytes(array, members * updates * abs(width)).view(dtype).tolist()
            for array in (starts, counts, receives, places)
        ]
        for i, (start, count, _, _) in enumerate(zip(*numbers, strict=True)):
            data = self._bytes(source.at(start * row), count * row).copy()
            peer = i // updates
            self.job.queue(channel, self.process, peers.key[peer], tags_to.key[peer]).put(data)
        for i, (_, _, count, place) in enumerate(zip(*numbers, strict=True)):
            peer = i // updates
            messages = self.job.queue(channel, peers.key[peer], self.process, tags_from.key[peer])
            self._bytes(result.at(place * row), count * row)[:] = messages.get(timeout=PATIENCE)
        assert peers.key[rank] == self.process


def _total(op: Any, arrays: Sequence[Array]) -> Array:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total = op(total, array)
    return total


def functions(calls: CallList) -> list[str]:
    """Return the names of the functions that are called, in their order."""

    def name(call: Call) -> str:
        return call.function

    return [name(call) for call in calls.calls]
