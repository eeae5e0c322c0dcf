"""Packing buffers with known live ranges into one block of memory.

Two heuristics run and the better result counts: best fit in order of decreasing size, and best fit
in order of time. Both are deterministic and close to O(n log n).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

ALIGNMENT_BYTES = 64

_MAX_OVERLAPS = 1_000_000
"""Pairs of buffers alive together up to which packing by size is tried."""


@dataclass(frozen=True, slots=True)
class Request:
    """A buffer wanted from time `first` to time `last`, both included."""

    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Packing:
    """Offsets in the order of the requests.

    Attributes:
        lower_bound_bytes: what is alive at the worst moment; no packing can be smaller.
    """

    offsets: tuple[int, ...]
    total_bytes: int
    lower_bound_bytes: int


PackFunction: TypeAlias = Callable[[Sequence[Request]], Packing]


def aligned(size_bytes: int) -> int:
    """Return `size_bytes` rounded up to the alignment of buffers."""
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def pack(requests: Sequence[Request]) -> Packing:
    """Return offsets so that no two requests alive at the same time overlap."""
    bound = _lower_bound(requests)
    best = _pack_by_time(requests)
    neighbours = _neighbours(requests)
    if neighbours is not None and _total(requests, best) > bound:
        best = min(best, _pack_by_size(requests, neighbours), key=lambda o: _total(requests, o))
    return Packing(tuple(best), _total(requests, best), bound)


def _total(requests: Sequence[Request], offsets: Sequence[int]) -> int:
    ends = (o + aligned(r.size_bytes) for o, r in zip(offsets, requests, strict=True))
    return max(ends, default=0)


def _lower_bound(requests: Sequence[Request]) -> int:
    changes: dict[int, int] = {}
    for request in requests:
        size = aligned(request.size_bytes)
        changes[request.first] = changes.get(request.first, 0) + size
        changes[request.last + 1] = changes.get(request.last + 1, 0) - size
    alive = peak = 0
    for time in sorted(changes):
        alive += changes[time]
        peak = max(peak, alive)
    return peak


def _neighbours(requests: Sequence[Request]) -> list[list[int]] | None:
    """Return who is alive together with whom, or None if that are too many pairs."""
    found: list[list[int]] = [[] for _ in requests]
    alive: dict[int, None] = {}
    ends: list[tuple[int, int]] = []
    pairs = 0
    for i in sorted(range(len(requests)), key=lambda i: requests[i].first):
        while ends and ends[0][0] < requests[i].first:
            del alive[heappop(ends)[1]]
        pairs += len(alive)
        if pairs > _MAX_OVERLAPS:
            return None
        for j in alive:
            found[i].append(j)
            found[j].append(i)
        alive[i] = None
        heappush(ends, (requests[i].last, i))
    return found


def _pack_by_size(requests: Sequence[Request], neighbours: list[list[int]]) -> list[int]:
    """Place the largest first, each in the smallest gap that its neighbours leave."""
    offsets = [-1] * len(requests)
    order = sorted(range(len(requests)), key=lambda i: (-requests[i].size_bytes, i))
    for i in order:
        size = aligned(requests[i].size_bytes)
        taken = sorted(
            (offsets[j], offsets[j] + aligned(requests[j].size_bytes))
            for j in neighbours[i]
            if offsets[j] >= 0
        )
        offsets[i] = _best_gap(taken, size)
    return offsets


def _best_gap(taken: list[tuple[int, int]], size: int) -> int:
    """Return the start of the smallest gap of at least `size`; behind all if there is none."""
    best, best_size, at = -1, -1, 0
    for start, end in taken:
        gap = start - at
        if gap >= size and (best < 0 or gap < best_size):
            best, best_size = at, gap
        at = max(at, end)
    return at if best < 0 else best


@dataclass(slots=True)
class _FreeList:
    """Gaps below `top`, found by size and merged with their neighbours."""

    top: int = 0
    by_size: list[tuple[int, int]] = field(default_factory=list)
    size_at: dict[int, int] = field(default_factory=dict)
    start_of_end: dict[int, int] = field(default_factory=dict)

    def allocate(self, size: int) -> int:
        i = bisect_left(self.by_size, (size, -1))
        if i < len(self.by_size):
            gap, start = self.by_size[i]
            self._remove(start)
            if gap > size:
                self._add(start + size, gap - size)
            return start
        start = self.start_of_end.get(self.top, self.top)
        if start < self.top:
            self._remove(start)
        self.top = start + size
        return start

    def release(self, start: int, size: int) -> None:
        before = self.start_of_end.get(start)
        if before is not None:
            size += self._remove(before)
            start = before
        if start + size in self.size_at:
            size += self._remove(start + size)
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        insort(self.by_size, (size, start))
        self.size_at[start] = size
        self.start_of_end[start + size] = start

    def _remove(self, start: int) -> int:
        size = self.size_at.pop(start)
        del self.start_of_end[start + size]
        del self.by_size[bisect_left(self.by_size, (size, start))]
        return size


def _pack_by_time(requests: Sequence[Request]) -> list[int]:
    """Place in the order of first use, the larger first, as an allocator at run time would."""
    offsets = [0] * len(requests)
    free = _FreeList()
    ends: list[tuple[int, int]] = []
    order = sorted(
        range(len(requests)), key=lambda i: (requests[i].first, -requests[i].size_bytes, i)
    )
    for i in order:
        while ends and ends[0][0] < requests[i].first:
            _, j = heappop(ends)
            free.release(offsets[j], aligned(requests[j].size_bytes))
        offsets[i] = free.allocate(aligned(requests[i].size_bytes))
        heappush(ends, (requests[i].last, i))
    return offsets
