"""Barriers of a block: which threads have arrived, which wait, and when all continue.

Source: PTX ISA, "bar, barrier".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hloc.ptx.clocks import WarpClocks
from hloc.ptx.code import BlockBarrier
from hloc.ptx.faults import LaneFault
from hloc.ptx.lanes import WARP, Geometry, Lanes, lanes_of, numbers_of, union
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import Array

Place = tuple[int, ...]


class _Barrier:
    """One barrier number, in all blocks at once."""

    def __init__(self, blocks: int) -> None:
        self.waiting: dict[Place, tuple[BlockBarrier, Lanes]] = {}
        self.arrived: list[Array] = []  # lanes that arrived without waiting
        self.counts = np.zeros(blocks, np.int64)


class Barriers:
    """All barriers of some blocks."""

    def __init__(self, geometry: Geometry, clocks: WarpClocks | None) -> None:
        self._geometry = geometry
        self._clocks = clocks
        self._barriers: dict[int, _Barrier] = {}

    def arrive(
        self, end: BlockBarrier, threads: Threads, following: Place, lanes: Lanes
    ) -> Iterator[tuple[Place, Lanes]]:
        """Add lanes that reach a barrier; yield places and lanes that continue."""
        numbers = threads.rows[end.number][lanes]
        first = int(numbers[0])
        if not (numbers == first).all():
            raise LaneFault("lanes of one barrier instruction name different barriers", 0)
        barrier = self._barriers.setdefault(first, _Barrier(self._geometry.blocks))
        expected = self._geometry.threads_per_block
        if end.expected is not None:
            expected = int(threads.rows[end.expected][lanes][0])
        here = numbers_of(lanes)
        barrier.counts += np.bincount(
            here // self._geometry.stride, minlength=self._geometry.blocks
        )
        if end.arrive:
            barrier.arrived.append(here)
            yield following, lanes
        else:
            known = barrier.waiting.get(following)
            both = lanes if known is None else union(known[1], lanes)
            barrier.waiting[following] = (end, both)
        if (barrier.counts > expected).any():
            raise LaneFault(f"more threads at barrier {first} than the {expected} it expects", 0)
        complete = barrier.counts == expected
        if complete.any():
            yield from self._release(barrier, complete, threads)

    def _release(
        self, barrier: _Barrier, complete: Array, threads: Threads
    ) -> Iterator[tuple[Place, Lanes]]:
        """Yield the lanes of `complete` blocks with where they continue; reset the barrier.

        Reductions over the barrier and the order between warps count all who arrived.
        """
        barrier.counts[complete] = 0
        waiting, barrier.waiting = barrier.waiting, {}
        freed: list[tuple[Place, BlockBarrier, Array]] = []
        for place, (end, lanes) in waiting.items():
            numbers = numbers_of(lanes)
            inside = complete[numbers // self._geometry.stride]
            if not inside.all():
                barrier.waiting[place] = (end, lanes_of(numbers[~inside]))
            if inside.any():
                freed.append((place, end, numbers[inside]))
        if len(freed) > 1:
            self._check_convergence(freed, threads)
        arrived = []
        for i, numbers in enumerate(barrier.arrived):
            inside = complete[numbers // self._geometry.stride]
            arrived.append(numbers[inside])
            barrier.arrived[i] = numbers[~inside]
        barrier.arrived = [numbers for numbers in barrier.arrived if len(numbers)]
        waited = [numbers for _, _, numbers in freed]
        if self._clocks is not None and waited:
            after = self._warps(waited)
            self._clocks.join(after | self._warps(arrived), after)
        for place, end, numbers in freed:
            self._reduce(end, np.concatenate(waited), numbers, threads)
            yield place, lanes_of(numbers)

    def _warps(self, lanes: list[Array]) -> Array:
        found = np.zeros((self._geometry.blocks, self._geometry.warps_per_block), bool)
        for numbers in lanes:
            stride = self._geometry.stride
            found[numbers // stride, numbers % stride // WARP] = True
        return found

    def _check_convergence(
        self, freed: list[tuple[Place, BlockBarrier, Array]], threads: Threads
    ) -> None:
        """Check that the warps at an aligned barrier are complete, at one instruction."""
        seen = np.zeros((self._geometry.blocks, self._geometry.warps_per_block), bool)
        for _, end, numbers in freed:
            warps = self._warps([numbers])
            both = seen & warps
            if both.any() and end.aligned:
                block, warp = (int(i) for i in np.argwhere(both)[0])
                lane = block * self._geometry.stride + warp * WARP
                threads.active = slice(lane, lane + 1)
                raise LaneFault(
                    "barrier under divergence: lanes of one warp wait at different barriers", 0
                )
            seen |= warps

    def _reduce(self, end: BlockBarrier, everyone: Array, lanes: Array, threads: Threads) -> None:
        if not end.reduction:
            return
        row, negated = end.reduced
        blocks = self._geometry.blocks
        values = threads.rows[row][everyone]
        values = ~values if negated else values
        where = everyone // self._geometry.stride
        total = np.bincount(where, minlength=blocks)
        count = np.bincount(where, weights=values, minlength=blocks).astype(np.int64)
        result = {"popc": count, "or": count > 0, "and": count == total}[end.reduction]
        threads.rows[end.target][lanes] = result[lanes // self._geometry.stride]

    def stuck(self) -> tuple[Place, int, str] | None:
        """Return the place after the barrier, a lane and a description of a deadlock, or None."""
        for barrier in self._barriers.values():
            for place, (_, lanes) in sorted(barrier.waiting.items()):
                numbers = numbers_of(lanes)
                block = int(numbers[0]) // self._geometry.stride
                here = int(barrier.counts[block])
                total = self._geometry.threads_per_block
                what = (
                    f"{here} of {total} threads of the block wait at a barrier that the others "
                    "never reach: they have exited or wait elsewhere (barrier under divergence)"
                )
                return place, int(numbers[0]), what
        return None
