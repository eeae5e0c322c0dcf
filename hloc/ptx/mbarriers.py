"""Barriers in shared memory (mbarrier): phases, arrivals, transactions, and bulk copies.

A bulk copy arrives as late as possible: when nothing else can run, or when somebody asks for its
barrier in vain. Source: PTX ISA, "Parallel Synchronization: mbarrier" and "cp.async.bulk".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hloc.ptx.clocks import WarpClocks
from hloc.ptx.faults import LaneFault
from hloc.ptx.threads import WARP, Geometry, Lanes, Threads, numbers_of
from hloc.ptx.value_types import Array


@dataclass(slots=True)
class _Barrier:
    expected: int
    pending: int
    known: Array  # clocks of those who arrived
    transactions: int = 0  # bytes still to come
    phase: int = 0  # completed phases


@dataclass(frozen=True, slots=True)
class _BulkCopy:
    """One copy under way; `lane` began it."""

    lane: int
    targets: Array  # addresses of its pieces of 16 bytes
    values: Array
    barrier: int


class Mbarriers:
    """All barriers in the shared memory of some blocks, by offset."""

    def __init__(self, geometry: Geometry, clocks: WarpClocks | None) -> None:
        self._geometry = geometry
        self._clocks = clocks
        self._barriers: dict[int, _Barrier] = {}
        self._copies: list[_BulkCopy] = []
        self.completions = 0  # phases completed so far, of all barriers

    def _place(self, threads: Threads, lane: int, address: int) -> int:
        one = slice(lane, lane + 1)
        return int(threads.spaces.shared.places(one, np.array([address], np.uint64), 8)[0])

    def _at(self, threads: Threads, lane: int, address: int, position: int) -> tuple[int, _Barrier]:
        place = self._place(threads, lane, address)
        if place not in self._barriers:
            raise LaneFault(f"no mbarrier was initialised at shared address {address}", position)
        return place, self._barriers[place]

    def initialise(self, threads: Threads, lanes: Lanes, addresses: Array, counts: Array) -> None:
        """mbarrier.init: expect so many arrivals per phase."""
        for lane, address, count in _each(lanes, addresses, counts):
            known = np.zeros(self._geometry.warps_per_block, np.int32)
            place = self._place(threads, lane, address)
            self._barriers[place] = _Barrier(count, count, known)

    def arrive(
        self, threads: Threads, lanes: Lanes, addresses: Array, counts: Array, bytes_: Array
    ) -> Array:
        """Arrive `counts` times and expect `bytes_` more; return the phase of each lane."""
        tokens = np.zeros(len(addresses), np.uint64)
        for i, (lane, address, count, more) in enumerate(_each(lanes, addresses, counts, bytes_)):
            _, barrier = self._at(threads, lane, address, i)
            tokens[i] = barrier.phase
            barrier.transactions += more
            barrier.pending -= count
            if barrier.pending < 0:
                raise LaneFault(f"more arrivals at an mbarrier than {barrier.expected}", i)
            if count:
                self._publish(barrier, lane)
            self._advance(barrier)
        return tokens

    def _publish(self, barrier: _Barrier, lane: int) -> None:
        if self._clocks is not None:
            block, warp = self._warp_of(lane)
            barrier.known = np.maximum(barrier.known, self._clocks.release(block, warp))

    def _warp_of(self, lane: int) -> tuple[int, int]:
        return lane // self._geometry.stride, lane % self._geometry.stride // WARP

    def _advance(self, barrier: _Barrier) -> None:
        if barrier.pending == 0 and barrier.transactions == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            self.completions += 1

    def passed(
        self, threads: Threads, lanes: Lanes, addresses: Array, phases: Array, by_parity: bool
    ) -> Array:
        """Return which lanes' phase is over; those lanes come after all who arrived."""
        over = np.zeros(len(addresses), bool)
        ordered = set()
        for i, (lane, address, phase) in enumerate(_each(lanes, addresses, phases)):
            place, barrier = self._at(threads, lane, address, i)
            over[i] = barrier.phase % 2 != phase % 2 if by_parity else barrier.phase > phase
            block, warp = self._warp_of(lane)
            if over[i] and self._clocks is not None and (place, warp) not in ordered:
                ordered.add((place, warp))
                self._clocks.acquire(block, warp, barrier.known)
        return over

    def begin(
        self, threads: Threads, lane: int, target: int, source: int, size: int, barrier: int
    ) -> None:
        """Begin a bulk copy from global to shared memory."""
        if (target | source | size) % 16:
            raise LaneFault("a bulk copy needs addresses and size in units of 16 bytes", None)
        steps = np.arange(0, size, 16, dtype=np.uint64)
        who = np.full(len(steps), lane)
        loaded = threads.spaces["global"].load(
            who, np.uint64(source) + steps, np.dtype(np.uint64), 2
        )
        targets = np.uint64(target) + steps
        threads.spaces.shared.begin_copy(who, targets, loaded)
        self._copies.append(_BulkCopy(lane, targets, loaded, barrier))

    def finish_a_copy(self, threads: Threads) -> bool:
        """Let the oldest bulk copy arrive; return False if none is under way."""
        if not self._copies:
            return False
        copy = self._copies.pop(0)
        who = np.full(len(copy.targets), copy.lane)
        threads.active = who
        threads.spaces.shared.store(who, copy.targets, copy.values)
        _, barrier = self._at(threads, copy.lane, copy.barrier, 0)
        barrier.transactions -= 16 * len(copy.targets)
        self._publish(barrier, copy.lane)
        self._advance(barrier)
        return True


def _each(lanes: Lanes, *values: Array) -> list[tuple[int, ...]]:
    return list(zip(numbers_of(lanes).tolist(), *(v.tolist() for v in values), strict=True))
