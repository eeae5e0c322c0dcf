"""Sets of lanes, and their threads and blocks.

A lane is the position of a thread in every row: block after block, threads of a block in order of
their linear index. `Lanes` is a set of lanes in ascending order: a slice if they are contiguous, as
in nearly all cases, else an array of numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hloc.lazy_dataclass import dataclass
from hloc.ptx.faults import Triple
from hloc.ptx.value_types import Array

Lanes = slice | NDArray[np.intp]
WARP = 32
WARPGROUP = 128


def lanes_of(numbers: Array) -> Lanes:
    """Return ascending lane numbers as a slice if they are contiguous."""
    first, last = int(numbers[0]), int(numbers[-1])
    if last - first + 1 == len(numbers):
        return slice(first, last + 1)
    return numbers


def numbers_of(lanes: Lanes) -> Array:
    """Return lanes as an array of numbers."""
    if isinstance(lanes, slice):
        return np.arange(lanes.start, lanes.stop)
    return lanes


def count_of(lanes: Lanes) -> int:
    """Return the number of lanes."""
    if isinstance(lanes, slice):
        return int(lanes.stop - lanes.start)
    return len(lanes)


def chosen(lanes: Lanes, mask: Array) -> Lanes | None:
    """Return the lanes where `mask` holds, None if there are none."""
    count = np.count_nonzero(mask)
    if count == len(mask):
        return lanes
    if not count:
        return None
    positions = np.flatnonzero(mask)
    if isinstance(lanes, slice):
        return lanes_of(positions + lanes.start)
    return lanes_of(lanes[positions])


def union(one: Lanes, other: Lanes) -> Lanes:
    """Return the lanes of two disjoint sets."""
    if isinstance(one, slice) and isinstance(other, slice):
        if one.stop == other.start:
            return slice(one.start, other.stop)
        if other.stop == one.start:
            return slice(other.start, one.stop)
    return lanes_of(np.sort(np.concatenate([numbers_of(one), numbers_of(other)])))


@dataclass(frozen=True, slots=True)
class Geometry:
    """The threads of a run: blocks [first_block, first_block + blocks) of the grid.

    `stride` is lanes per block: the threads, rounded up to whole warps if there are warp-level
    instructions.
    """

    grid: Triple
    block: Triple
    first_block: int
    blocks: int
    stride: int

    @property
    def threads_per_block(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def lanes(self) -> int:
        """Lanes of all blocks here."""
        return self.blocks * self.stride

    @property
    def warps_per_block(self) -> int:
        """Warps of one block, the last perhaps partial."""
        return -(-self.threads_per_block // WARP)

    def start(self) -> Lanes:
        """Return the lanes that hold a thread."""
        numbers = np.arange(self.lanes)
        return lanes_of(numbers[numbers % self.stride < self.threads_per_block])

    def block_of(self, lane: int) -> Triple:
        """Return the block index of a lane."""
        return _split(self.first_block + lane // self.stride, self.grid)

    def thread_of(self, lane: int) -> Triple:
        """Return the thread index of a lane."""
        return _split(lane % self.stride, self.block)


def _split(linear: int, extent: Triple) -> Triple:
    return linear % extent[0], linear // extent[0] % extent[1], linear // extent[0] // extent[1]
