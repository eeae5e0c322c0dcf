"""cp.async: copies from global to shared memory, executed as late as a wait allows.

Reading the target earlier is a fault, which detects a missing wait. Source: PTX ISA, "Data Movement
and Conversion Instructions: Asynchronous copy".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.frame import Frame
from hloc.ptx.instructions.mbarrier_access import decode_bulk
from hloc.ptx.instructions.memory_access import address_reader
from hloc.ptx.lanes import Geometry, Lanes, count_of, lanes_of, numbers_of
from hloc.ptx.operation import Decoder, Operation
from hloc.ptx.program import Immediate, Instruction
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array

_WORD: dict[int, tuple[np.dtype[Any], int]] = {
    4: (np.dtype(np.uint32), 1),
    8: (np.dtype(np.uint64), 1),
    16: (np.dtype(np.uint64), 2),
}


@dataclass(frozen=True, slots=True)
class _Copy:
    """Pending copies of some lanes; `group` is the number of each lane's group."""

    lanes: Array
    targets: Array
    values: Array
    group: Array

    def only(self, mask: Array) -> _Copy:
        """Return the copies of some of the lanes."""
        if mask.all():
            return self
        return _Copy(self.lanes[mask], self.targets[mask], self.values[mask], self.group[mask])


class AsyncCopies:
    """The pending copies, and the number of groups that each lane has committed."""

    def __init__(self, geometry: Geometry) -> None:
        self._committed = np.zeros(geometry.lanes, np.int64)
        self._pending: list[_Copy] = []

    def start(self, threads: Threads, lanes: Lanes, targets: Array, values: Array) -> None:
        """Begin to copy values to shared memory, which must not be accessed until they arrive."""
        threads.spaces.shared.begin_copy(lanes, targets, values)
        group = self._committed[lanes].copy()
        self._pending.append(_Copy(numbers_of(lanes), targets.copy(), values, group))

    def commit(self, lanes: Lanes) -> None:
        """Close the group of each lane."""
        self._committed[lanes] += 1

    def wait(self, threads: Threads, lanes: Lanes, allowed: int | None) -> None:
        """Finish all groups of these lanes but the last `allowed`; None: also the open group."""
        waits = np.zeros(len(self._committed), bool)
        waits[lanes] = True
        kept: list[_Copy] = []
        for copy in self._pending:
            due = waits[copy.lanes]
            if allowed is not None:
                due &= copy.group < self._committed[copy.lanes] - allowed
            if due.any():
                arrived = copy.only(due)
                threads.active = lanes_of(arrived.lanes)
                threads.spaces.shared.store(threads.active, arrived.targets, arrived.values)
            if not due.all():
                kept.append(copy.only(~due))
        self._pending = kept
        threads.active = lanes


def _read(threads: Threads, lanes: Lanes, sources: Array, lengths: Array, size: int) -> Array:
    """Return the data of the lanes: `lengths` bytes of global memory each, then zeros."""
    dtype, columns = _WORD[size]
    space = threads.spaces["global"]
    whole = lengths == size
    if whole.all():
        return space.load(lanes, sources, dtype, columns)
    numbers = numbers_of(lanes)
    bytes_ = np.zeros((len(numbers), size), np.uint8)
    if whole.any():
        threads.active = lanes_of(numbers[whole])
        found = space.load(threads.active, sources[whole], dtype, columns)
        bytes_[whole] = np.ascontiguousarray(found).view(np.uint8).reshape(-1, size)
    for i in range(size):
        part = ~whole & (lengths > i)
        if part.any():
            threads.active = lanes_of(numbers[part])
            at = sources[part] + np.uint64(i)
            bytes_[part, i] = space.load(threads.active, at, np.dtype(np.uint8), 1)
    threads.active = lanes
    values = bytes_.view(dtype)
    return values if columns > 1 else values[:, 0]


def decode_copy(instruction: Instruction, frame: Frame) -> Operation:
    """cp.async, its commit and its waits."""
    if instruction.parts[:3] == ("cp", "async", "bulk"):
        return decode_bulk(instruction, frame)
    if instruction.parts[:2] != ("cp", "async"):
        raise frame.fault(f"unknown opcode {instruction.opcode}")
    if instruction.has("commit_group"):
        return lambda threads, lanes: threads.copies.commit(lanes)
    if instruction.has("wait_all"):
        return lambda threads, lanes: threads.copies.wait(threads, lanes, None)
    if instruction.has("wait_group"):
        (count,) = instruction.operands
        if not isinstance(count, Immediate):
            raise frame.fault("cp.async.wait_group needs a constant")
        allowed = count.value
        return lambda threads, lanes: threads.copies.wait(threads, lanes, allowed)
    if instruction.has("mbarrier"):
        return _arrive_when_done(instruction, frame)
    return _start(instruction, frame)


def _arrive_when_done(instruction: Instruction, frame: Frame) -> Operation:
    """cp.async.mbarrier.arrive: arrive at a barrier once the lane's copies are complete.

    Without .noinc, the barrier first expects one more arrival, which is this one.
    """
    read = address_reader(instruction.operands[0], frame)
    count = int(instruction.has("noinc"))

    def run(threads: Threads, lanes: Lanes) -> None:
        threads.copies.wait(threads, lanes, None)
        addresses = read(threads, lanes)
        counts = np.full(len(addresses), count)
        threads.mbarriers.arrive(threads, lanes, addresses, counts, np.zeros_like(counts))

    return run


def _start(instruction: Instruction, frame: Frame) -> Operation:
    """Return the operation that starts copies: it reads, and keeps the values until a wait."""
    target, source, size, *rest = instruction.operands
    if not isinstance(size, Immediate) or size.value not in _WORD:
        raise frame.fault("the size of cp.async must be 4, 8 or 16")
    bytes_ = size.value
    read_target, read_source = address_reader(target, frame), address_reader(source, frame)
    length = None
    if rest and not instruction.has("cache_hint"):
        length = frame.source(rest[0], TYPES["u32"])

    def run(threads: Threads, lanes: Lanes) -> None:
        sources = read_source(threads, lanes)
        targets = read_target(threads, lanes)
        threads.count_access("global", lanes, sources, bytes_)
        threads.count_access("shared", lanes, targets, bytes_)
        if length is None:
            lengths = np.full(count_of(lanes), bytes_)
        else:
            lengths = np.minimum(threads.rows[length][lanes], bytes_)
        values = _read(threads, lanes, sources, lengths, bytes_)
        threads.copies.start(threads, lanes, targets, values)

    return run


DECODERS: dict[str, Decoder] = {"cp": decode_copy}
