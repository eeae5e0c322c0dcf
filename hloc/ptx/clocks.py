"""The order of accesses of the warps of a block: one vector clock per warp.

Warp w counts its own barriers; `known[v, w]` is the latest count of warp w that warp v has waited
for. An access has the code `count * 32 + warp` of its warp. Warp v is ordered after that access if
and only if `known[v, warp] >= count`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hloc.ptx.lanes import WARP, Geometry, Lanes
from hloc.ptx.value_types import Array, some

WARP_BITS = 5  # a block has at most 32 warps


class WarpClocks:
    """The clocks of all warps of some blocks, and the code of each lane's accesses."""

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        warps = geometry.warps_per_block
        self.known = np.zeros((geometry.blocks, warps, warps), np.int32)
        lane = np.arange(geometry.lanes)
        self.block = lane // geometry.stride
        self.warp = lane % geometry.stride // WARP
        diagonal = np.arange(warps)
        self.known[:, diagonal, diagonal] = 1
        self.code: NDArray[np.int32] = np.empty(geometry.lanes, np.int32)
        self.floor: NDArray[np.int32] = np.empty(geometry.lanes, np.int32)
        self._refresh()

    def _refresh(self) -> None:
        warps = np.arange(self._geometry.warps_per_block)
        own = self.known[:, warps, warps]
        code = (own << WARP_BITS) + warps
        # Codes below the floor are known to all warps: the fast path for most accesses.
        lowest = np.where(np.eye(len(warps), dtype=bool), np.iinfo(np.int32).max, self.known)
        floor = (np.minimum(lowest.min(axis=2), own) + 1) << WARP_BITS
        # mypy infers no dtype for the fancy index; both are int32.
        self.code = code.astype(np.int32)[self.block, self.warp]
        self.floor = floor.astype(np.int32)[self.block, self.warp]

    def join(self, arrived: Array, waited: Array) -> None:
        """Order warps at a barrier: those that `waited` are after all that `arrived`.

        Both are masks of [blocks, warps].
        """
        met = np.where(arrived[:, :, None], self.known, 0).max(axis=1)
        after = np.maximum(self.known, met[:, None, :])
        self.known = np.where(waited[:, :, None], after, self.known)
        diagonal = np.arange(self._geometry.warps_per_block)
        self.known[:, diagonal, diagonal] += arrived
        self._refresh()

    def release(self, block: int, warp: int) -> Array:
        """Return the clock of a warp, and advance it (release)."""
        known = np.array(self.known[block, warp])
        self.known[block, warp, warp] += 1
        self._refresh()
        return known

    def acquire(self, block: int, warp: int, known: Array) -> None:
        """Order a warp after the clock that another warp released (acquire)."""
        self.known[block, warp] = np.maximum(self.known[block, warp], known)
        self._refresh()

    def unordered(self, lanes: Lanes, codes: Array) -> Array:
        """Return where accesses with `codes` ([lanes] or [lanes, n]) are not ordered before."""
        mine, floor = self.code[lanes], self.floor[lanes]
        if codes.ndim > 1:
            mine, floor = mine[:, None], floor[:, None]
        suspicious = (codes >= floor) & (codes != mine)
        if not some(suspicious):
            return np.asarray(suspicious)
        block, warp = self.block[lanes], self.warp[lanes]
        if codes.ndim > 1:
            block, warp = block[:, None], warp[:, None]
        other = codes & (1 << WARP_BITS) - 1
        known = self.known[block, warp, other]
        return np.asarray(suspicious & (other != warp) & (known < codes >> WARP_BITS))
