"""Races in global memory: two unordered accesses to one location by threads of one launch.

Every granule of memory records its last writer and reader: launch, block and warp. Threads of one
block are ordered by its barriers. Blocks of one launch are never ordered, unless they communicate
through atomics: a block that used an atomic result or a fence is assumed to be synchronised.
"""

from __future__ import annotations

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.clocks import WARP_BITS, WarpClocks
from hloc.ptx.faults import LaneFault
from hloc.ptx.lanes import Geometry, Lanes
from hloc.ptx.memory import Memory
from hloc.ptx.value_types import Array, some

_LAUNCH_SHIFT = 36  # above: the launch; below: block and warp, and a flag
_OTHERS = 1 << _LAUNCH_SHIFT - 1  # another block than the one named has read it too
_WARP_MASK = (1 << WARP_BITS) - 1


@dataclass(frozen=True, slots=True)
class _Accesses:
    """The records of writers and of readers for one access of some lanes."""

    index: Array
    writers: Array
    write_clocks: Array
    readers: Array
    read_clocks: Array


class GlobalRaces:
    """The accesses of one launch, as seen by some of its blocks."""

    def __init__(
        self, memory: Memory, geometry: Geometry, clocks: WarpClocks, granule: int
    ) -> None:
        self._clocks = clocks
        self._granule = granule
        self._base = memory.launches << _LAUNCH_SHIFT
        self._block = (clocks.block + geometry.first_block).astype(np.int64)
        self._mine = self._base + (self._block << WARP_BITS | clocks.warp)
        self._synchronised = np.zeros(geometry.lanes, bool)
        self._stride = geometry.stride
        self._records = memory.records(granule)
        self._memory = memory

    def synchronise(self, lanes: Lanes) -> None:
        """Treat the blocks of these lanes as synchronised by atomics."""
        blocks = np.unique(self._clocks.block[lanes])
        self._synchronised.reshape(-1, self._stride)[blocks] = True

    def _at(self, offsets: Array, size: int) -> _Accesses:
        """Return records as [granules], or as [accesses, granules of an access]."""
        count = size // self._granule
        if count <= 1:
            return _Accesses(offsets // self._granule, *self._records)
        shaped = (record.reshape(-1, count) for record in self._records)
        return _Accesses(offsets // size, *shaped)

    def _unordered(self, lanes: Lanes, who: Array, clocks: Array) -> Array:
        """Return where the access by `who` is not ordered before these lanes."""
        mine = _beside(self._mine[lanes], who)
        suspicious = (who >= self._base) & (who != mine)
        if not some(suspicious):
            return np.asarray(suspicious if who.ndim == 1 else suspicious[:, 0])
        block = (who - self._base & _OTHERS - 1) >> WARP_BITS
        same_block = (block == _beside(self._block[lanes], who)) & (who & _OTHERS == 0)
        inside = self._clocks.unordered(lanes, np.where(same_block, clocks, 0))
        trusted = _beside(self._synchronised[lanes], who)
        wrong = suspicious & np.where(same_block, inside, ~trusted)
        return np.asarray(wrong if wrong.ndim == 1 else wrong.any(axis=1))

    def check_load(self, lanes: Lanes, offsets: Array, size: int) -> None:
        """Fault on an unordered write by another thread of this launch; record the readers."""
        at = self._at(offsets, size)
        lowest, highest = self._memory.written_range
        if lowest <= highest and int(offsets.min()) <= highest and int(offsets.max()) >= lowest:
            writers = at.writers[at.index]
            wrong = self._unordered(lanes, writers, at.write_clocks[at.index])
            if some(wrong):
                raise self._fault(lanes, wrong, writers, "reads global memory that", "wrote")
        before = at.readers[at.index]
        mine = _beside(self._mine[lanes], before)
        block = (before - self._base & _OTHERS - 1) >> WARP_BITS
        elsewhere = (block != _beside(self._block[lanes], before)) | (before & _OTHERS != 0)
        others = (before >= self._base) & elsewhere
        at.readers[at.index] = np.where(others, mine | _OTHERS, mine)
        at.read_clocks[at.index] = _beside(self._clocks.code[lanes], before)

    def check_store(self, lanes: Lanes, offsets: Array, size: int, old: Array, new: Array) -> None:
        """Fault on an unordered read, or write of another value, by another thread."""
        at = self._at(offsets, size)
        for records, clocks, did in (
            (at.writers, at.write_clocks, "wrote"),
            (at.readers, at.read_clocks, "read"),
        ):
            wrong = self._unordered(lanes, records[at.index], clocks[at.index])
            if not some(wrong):
                continue
            differs = old != new
            wrong = wrong & (differs.any(axis=1) if differs.ndim > 1 else differs)
            if some(wrong):
                what = "overwrites global memory that"
                raise self._fault(lanes, wrong, records[at.index], what, did)
        at.writers[at.index] = _beside(self._mine[lanes], at.writers)
        at.write_clocks[at.index] = _beside(self._clocks.code[lanes], at.writers)
        lowest, highest = self._memory.written_range
        self._memory.written_range = (
            min(lowest, int(offsets.min())),
            max(highest, int(offsets.max()) + size - 1),
        )

    def _fault(self, lanes: Lanes, wrong: Array, who: Array, what: str, did: str) -> LaneFault:
        first = int(np.argmax(wrong))
        other = int(np.max(who[first])) - self._base
        block, warp = (other & _OTHERS - 1) >> WARP_BITS, other & _WARP_MASK
        mine = int(self._block[lanes][first])
        if other & _OTHERS:
            return LaneFault(f"race: {what} several blocks {did} in this launch, unordered", first)
        if block != mine:
            by = f"warp {warp} of block {block}"
            return LaneFault(f"race: {what} {by} {did} in this launch, unordered", first)
        by = f"warp {warp} of the same block"
        return LaneFault(f"race: {what} {by} {did} with no barrier between", first)


def _beside(values: Array, records: Array) -> Array:
    """Return one value per lane, broadcast to the records of each lane."""
    return values if records.ndim == 1 else values[:, None]
