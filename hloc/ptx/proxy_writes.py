"""Stores to shared memory that bulk copies and wgmma do not see yet.

These belong to the asynchronous proxy: a store of a thread is visible to them only behind a
`fence.proxy.async` of that thread, or of one that is ordered after it. Source: PTX ISA, "Proxies"
and "membar, fence".
"""

from __future__ import annotations

import numpy as np

from hloc.ptx.clocks import WARP_BITS, WarpClocks
from hloc.ptx.faults import LaneFault
from hloc.ptx.lanes import Lanes
from hloc.ptx.value_types import Array, some

_PIECE_BITS = 4
"""Asynchronous accesses are of pieces of 16 bytes."""


class ProxyWrites:
    """The last store to each piece of shared memory without a fence; 0 for none."""

    def __init__(self, clocks: WarpClocks, size_bytes: int, piece_bytes: int) -> None:
        """Begin without stores.

        Args:
            clocks: of the warps.
            size_bytes: shared memory of all blocks together.
            piece_bytes: of one block.
        """
        self._clocks = clocks
        self._codes = np.zeros(size_bytes >> _PIECE_BITS, np.int32)
        self._by_block = self._codes.reshape(-1, piece_bytes >> _PIECE_BITS)

    def store(self, lanes: Lanes, offsets: Array, size: int) -> None:
        """Record stores of `size` bytes by threads."""
        for further in range(0, max(size, 1), 1 << _PIECE_BITS):
            self._codes[offsets + further >> _PIECE_BITS] = self._clocks.code[lanes]

    def fence(self, lanes: Lanes) -> None:
        """Make the stores visible that are of these lanes, or ordered before them."""
        clocks = self._clocks
        warps = np.unique(np.stack([clocks.block[lanes], clocks.warp[lanes]], axis=1), axis=0)
        for block, warp in warps.tolist():
            codes = self._by_block[block]
            pending = np.flatnonzero(codes)
            by = codes[pending] & (1 << WARP_BITS) - 1
            known = clocks.known[block, warp, by] >= codes[pending] >> WARP_BITS
            codes[pending[known | (by == warp)]] = 0

    def overwrite(self, offsets: Array) -> None:
        """Record that pieces were written asynchronously."""
        self._codes[offsets >> _PIECE_BITS] = 0

    def check(self, offsets: Array) -> None:
        """Fault if one of these pieces has a store without a fence."""
        codes = self._codes[offsets >> _PIECE_BITS]
        wrong = codes != 0
        if some(wrong):
            first = int(np.argmax(wrong))
            warp = int(codes[first]) & (1 << WARP_BITS) - 1
            what = f"race: asynchronous access to shared memory that warp {warp} wrote"
            raise LaneFault(f"{what} without a fence.proxy.async since", first)
