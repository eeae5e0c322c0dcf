"""Lanes that wait at a warp-level instruction until the others of their mask arrive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hloc.ptx.code import WarpCollective
from hloc.ptx.faults import LaneFault
from hloc.ptx.lanes import WARP, Geometry, Lanes, lanes_of, numbers_of, union
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import Array, every

_FULL = np.uint64(0xFFFFFFFF)
Place = tuple[int, ...]


class WarpGathering:
    """The lanes that wait, by place. Lane numbers modulo 32 are positions in the warp."""

    def __init__(self, geometry: Geometry) -> None:
        self._block_threads, self._stride = geometry.threads_per_block, geometry.stride
        self._waiting: dict[Place, tuple[WarpCollective, Lanes]] = {}

    def gather(
        self, end: WarpCollective, threads: Threads, place: Place, lanes: Lanes
    ) -> Iterator[Lanes]:
        """Yield sets of lanes that may execute together now; the others wait.

        Raises:
            LaneFault: a lane executes a collective whose mask does not include it.
        """
        if self._is_whole(end, threads, lanes):
            yield lanes
            return
        if place in self._waiting:
            lanes = union(self._waiting.pop(place)[1], lanes)
            threads.active = lanes
        numbers = numbers_of(lanes)
        masks = self._masks(end, threads, lanes, len(numbers))
        bit = np.uint64(1) << (numbers % WARP).astype(np.uint64)
        outside = masks & bit == 0
        if outside.any():
            raise LaneFault(
                "a lane executes a collective whose mask does not include it", int(outside.argmax())
            )
        unit = self._units(end, numbers)
        # Lanes execute together if they are of one warp, or warpgroup, and have the same mask.
        _, together = np.unique(unit * (1 << 33) + masks.astype(np.int64), return_inverse=True)
        count = np.bincount(together)
        needed = np.bitwise_count(masks).astype(np.int64) * (end.group // WARP)
        ready = count[together] == needed
        if not ready.all():
            self._waiting[place] = (end, lanes_of(numbers[~ready]))
        for mask in np.unique(masks[ready]):
            yield lanes_of(numbers[ready & (masks == mask)])

    def _is_whole(self, end: WarpCollective, threads: Threads, lanes: Lanes) -> bool:
        """Whether all warps are complete and their masks have all lanes: the common case."""
        if self._block_threads % end.group or not isinstance(lanes, slice):
            return False
        if lanes.start % end.group or lanes.stop % end.group:
            return False
        return end.mask is None or every(threads.rows[end.mask][lanes] == 0xFFFFFFFF)

    def _units(self, end: WarpCollective, numbers: Array) -> Array:
        """Return a number that identifies the warp, or warpgroup, and the block of each lane."""
        block, thread = np.divmod(numbers, self._stride)
        return np.asarray(block * (self._stride // end.group + 1) + thread // end.group)

    def _masks(self, end: WarpCollective, threads: Threads, lanes: Lanes, count: int) -> Array:
        if end.mask is None:
            return np.full(count, _FULL)
        return threads.rows[end.mask][lanes].astype(np.uint64)

    def stuck(self, threads: Threads) -> tuple[Place, int, str] | None:
        """Return place, lane and description of lanes that are deadlocked, or None."""
        for place, (end, lanes) in sorted(self._waiting.items()):
            numbers = numbers_of(lanes)
            unit = self._units(end, numbers)
            present = int((unit == unit[0]).sum())
            if end.group > WARP:
                what = (
                    f"executed by a part of a warpgroup: {present} of {end.group} lanes are here; "
                    "the others exited, diverged, or do not exist"
                )
                return place, int(numbers[0]), what
            mask = int(self._masks(end, threads, lanes, len(numbers))[0])
            what = (
                f"warp collective executed by a partial warp: {present} lanes are here, the mask "
                f"{mask:#010x} names {mask.bit_count()}; the others exited or diverged"
            )
            return place, int(numbers[0]), what
        return None
