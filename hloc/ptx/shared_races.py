"""Races in shared memory between warps of a block, detected by granule."""

from __future__ import annotations

import numpy as np

from hloc.ptx.clocks import WARP_BITS, WarpClocks
from hloc.ptx.faults import LaneFault
from hloc.ptx.lanes import Lanes
from hloc.ptx.value_types import Array, some


class SharedRaces:
    """The last writer and reader of each granule of shared memory.

    Of several warps that read a granule between two barriers, only the last is recorded.
    """

    def __init__(self, clocks: WarpClocks, size_bytes: int, granule: int) -> None:
        self._clocks = clocks
        self._granule = granule
        self._writers = np.zeros(size_bytes // granule, np.int32)
        self._readers = np.zeros(size_bytes // granule, np.int32)

    def _at(self, records: Array, size: int) -> Array:
        count = size // self._granule
        return records if count <= 1 else records.reshape(-1, count)

    def _index(self, offsets: Array, size: int) -> Array:
        return offsets // max(size, self._granule)

    def check_load(self, lanes: Lanes, offsets: Array, size: int) -> None:
        """Fault on a write by another warp since the last barrier; record the readers."""
        index = self._index(offsets, size)
        writers = self._at(self._writers, size)[index]
        wrong = _any_granule(self._clocks.unordered(lanes, writers))
        if some(wrong):
            raise self._fault(wrong, writers, "reads shared memory that", "wrote")
        readers = self._at(self._readers, size)
        mine = self._clocks.code[lanes]
        readers[index] = mine if readers.ndim == 1 else mine[:, None]

    def check_store(self, lanes: Lanes, offsets: Array, size: int, old: Array, new: Array) -> None:
        """Fault on a read, or write of another value, by another warp since the last barrier."""
        index = self._index(offsets, size)
        readers = self._at(self._readers, size)[index]
        wrong = _any_granule(self._clocks.unordered(lanes, readers))
        if some(wrong):
            raise self._fault(wrong, readers, "overwrites shared memory that", "read")
        writers = self._at(self._writers, size)
        wrong = _any_granule(self._clocks.unordered(lanes, writers[index]))
        if some(wrong):
            wrong = wrong & _any_granule(old != new)
            if some(wrong):
                what = "overwrites shared memory that"
                raise self._fault(wrong, writers[index], what, "wrote")
        mine = self._clocks.code[lanes]
        writers[index] = mine if writers.ndim == 1 else mine[:, None]

    def _fault(self, wrong: Array, codes: Array, what: str, did: str) -> LaneFault:
        first = int(np.argmax(wrong))
        warp = int(np.max(codes[first])) & (1 << WARP_BITS) - 1
        return LaneFault(f"race: {what} warp {warp} {did} since the last barrier", first)


def _any_granule(wrong: Array) -> Array:
    return np.asarray(wrong.any(axis=1) if wrong.ndim > 1 else wrong)
