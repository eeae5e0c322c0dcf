"""Barriers in shared memory (mbarrier): phases, arrivals, transactions, and bulk copies.

A bulk copy completes as late as possible: when nothing else can run, or when a test of its barrier
fails; those that no thread waits for are the last. Source: PTX ISA, "Parallel Synchronization:
mbarrier" and "cp.async.bulk".
"""

from __future__ import annotations

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.clocks import WarpClocks
from hloc.ptx.faults import LaneFault
from hloc.ptx.lanes import WARP, Geometry, Lanes, numbers_of
from hloc.ptx.program import Instruction
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import Array


@dataclass(slots=True)
class _Barrier:
    expected: int
    pending: int
    known: Array  # clocks of those who arrived
    transactions: int = 0  # bytes still to come
    phase: int = 0  # completed phases


@dataclass(frozen=True, slots=True, eq=False)
class BulkCopy:
    """One pending copy to shared memory, issued by `lane` with `instruction`."""

    instruction: Instruction
    lane: int
    targets: Array  # addresses of its pieces of 16 bytes
    values: Array  # [pieces, 2]
    barrier: int


class Mbarriers:
    """All barriers in the shared memory of some blocks, by offset."""

    def __init__(self, geometry: Geometry, clocks: WarpClocks | None) -> None:
        self._geometry = geometry
        self._clocks = clocks
        self._barriers: dict[int, _Barrier] = {}
        self._copies: list[BulkCopy] = []
        self.completions = 0  # phases completed so far, of all barriers
        self._awaited: set[int] = set()  # places of barriers whose test failed

    def _place(self, threads: Threads, lane: int, address: int) -> int:
        one = slice(lane, lane + 1)
        return int(threads.spaces.shared.places(one, np.array([address], np.uint64), 8)[0])

    def _at(self, threads: Threads, lane: int, address: int, position: int) -> tuple[int, _Barrier]:
        place = self._place(threads, lane, address)
        return place, self._known(place, address, position)

    def _known(self, place: int, address: int, position: int) -> _Barrier:
        if place not in self._barriers:
            raise LaneFault(f"no mbarrier was initialised at shared address {address}", position)
        return self._barriers[place]

    def initialise(self, threads: Threads, lanes: Lanes, addresses: Array, counts: Array) -> None:
        """mbarrier.init: set the number of arrivals per phase."""
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
            block, thread = divmod(lane, self._geometry.stride)
            barrier.known = np.maximum(barrier.known, self._clocks.release(block, thread // WARP))

    def _advance(self, barrier: _Barrier) -> None:
        if barrier.pending == 0 and barrier.transactions == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            self.completions += 1

    def passed(
        self, threads: Threads, lanes: Lanes, addresses: Array, phases: Array, by_parity: bool
    ) -> Array:
        """Return the lanes whose phase is complete, and order them after all arrivals."""
        over = np.zeros(len(addresses), bool)
        places = threads.spaces.shared.places(lanes, addresses, 8)
        numbers = numbers_of(lanes)
        for place in np.unique(places).tolist():
            here = places == place
            first = int(np.argmax(here))
            barrier = self._known(place, int(addresses[first]), first)
            if by_parity:
                over[here] = phases[here] % 2 != barrier.phase % 2
            else:
                over[here] = phases[here] < barrier.phase
            if not over[here].all():
                self._awaited.add(place)
            if self._clocks is not None:
                for block, warp in self._warps_of(numbers[here & over]):
                    self._clocks.acquire(block, warp, barrier.known)
        return over

    def _warps_of(self, lanes: Array) -> list[tuple[int, int]]:
        """Return the distinct pairs of block and warp of some lanes."""
        found = lanes // self._geometry.stride, lanes % self._geometry.stride // WARP
        return list(dict.fromkeys(zip(*(numbers.tolist() for numbers in found), strict=True)))

    def begin(self, threads: Threads, copy: BulkCopy) -> None:
        """Begin a copy, whose target must not be read until it is complete."""
        threads.active = np.array([copy.lane])
        self._at(threads, copy.lane, copy.barrier, 0)  # it must be initialised now
        threads.active = who = np.full(len(copy.targets), copy.lane)
        threads.spaces.shared.begin_bulk_copy(who, copy.targets, copy.values)
        self._copies.append(copy)

    def finish_a_copy(self, threads: Threads) -> bool:
        """Complete the oldest bulk copy that a thread waits for, or else the oldest of all.

        Returns:
            False if none is pending.

        Raises:
            LaneFault: its target was accessed; names the instruction that issued it.
        """
        if not self._copies:
            return False
        awaited = (copy for copy in self._copies if self._is_awaited(copy, threads))
        copy = next(awaited, self._copies[0])
        self._copies.remove(copy)
        try:
            self._arrive_with(copy, threads)
        except LaneFault as fault:
            raise LaneFault(fault.what, fault.lane, copy.instruction) from None
        return True

    def _is_awaited(self, copy: BulkCopy, threads: Threads) -> bool:
        return self._place(threads, copy.lane, copy.barrier) in self._awaited

    def forget_waits(self) -> None:
        """Forget which barriers are waited for: all who wait are about to test again."""
        self._awaited.clear()

    def _arrive_with(self, copy: BulkCopy, threads: Threads) -> None:
        who = np.full(len(copy.targets), copy.lane)
        threads.active = who
        threads.spaces.shared.store_asynchronously(who, copy.targets, copy.values)
        _, barrier = self._at(threads, copy.lane, copy.barrier, 0)
        barrier.transactions -= 16 * len(copy.targets)
        self._publish(barrier, copy.lane)
        self._advance(barrier)


def _each(lanes: Lanes, *values: Array) -> list[tuple[int, ...]]:
    return list(zip(numbers_of(lanes).tolist(), *(v.tolist() for v in values), strict=True))
