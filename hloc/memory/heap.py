"""Packing buffers with known live ranges into one block of memory.

Best fit in order of time, and if that leaves gaps, best fit in order of size and of duration (as in
XLA); the best result wins. All are deterministic and close to O(n log n).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import field
from heapq import heappop, heappush
from typing import TypeAlias

from hloc.lazy_dataclass import dataclass

CACHE_LINE_BYTES = 64
"""Size of a cache line on all processors that hloc knows, and the alignment of arrays."""

_MAX_OVERLAPS = 1_000_000
"""Packing by size is tried up to this many pairs of simultaneously live buffers."""


@dataclass(frozen=True, slots=True)
class Request:
    """A buffer that is live from time `first` to time `last`, both included."""

    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Packing:
    """Offsets in the order of the requests.

    Attributes:
        lower_bound_bytes: live bytes at the peak.
    """

    offsets: tuple[int, ...]
    total_bytes: int
    lower_bound_bytes: int


PackFunction: TypeAlias = Callable[[Sequence[Request]], Packing]


def aligned_bytes(size: int) -> int:
    """Return `size` rounded up to whole cache lines, the alignment of arrays in scratch memory."""
    return -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES


def alignment_of(size_bytes: int) -> int:
    """Return the alignment of a buffer: a cache line, less for what fits into half of one.

    Loop counters and other scalars then share lines instead of taking one each.
    """
    if size_bytes > CACHE_LINE_BYTES // 2:
        return CACHE_LINE_BYTES
    return 1 << max(size_bytes - 1, 0).bit_length()


def aligned(size_bytes: int) -> int:
    """Return `size_bytes` rounded up to its alignment."""
    return rounded(size_bytes, alignment_of(size_bytes))


def rounded(offset: int, alignment: int) -> int:
    """Return the first multiple of `alignment`, a power of two, that is not below `offset`."""
    return (offset + alignment - 1) & -alignment


def pack(requests: Sequence[Request]) -> Packing:
    """Return offsets so that no two requests alive at the same time overlap."""
    if not requests:
        return Packing((), 0, 0)
    bound = _most_alive(requests, lambda size: size)
    best = _pack_by_time(requests)
    if _total(requests, best) > _most_alive(requests, aligned):
        neighbours = _neighbours(requests)
        if neighbours is not None:
            for order in (_by_size, _by_duration):
                other = _pack_in_order(requests, neighbours, order(requests))
                best = min(best, other, key=lambda o: _total(requests, o))
    return Packing(tuple(best), _total(requests, best), bound)


def _total(requests: Sequence[Request], offsets: Sequence[int]) -> int:
    ends = (o + r.size_bytes for o, r in zip(offsets, requests, strict=True))
    return max(ends, default=0)


def _most_alive(requests: Sequence[Request], size_of: Callable[[int], int]) -> int:
    """Return the live bytes of the requests at the peak."""
    changes: dict[int, int] = {}
    for request in requests:
        size = size_of(request.size_bytes)
        changes[request.first] = changes.get(request.first, 0) + size
        changes[request.last + 1] = changes.get(request.last + 1, 0) - size
    alive = peak = 0
    for time in sorted(changes):
        alive += changes[time]
        peak = max(peak, alive)
    return peak


def _neighbours(requests: Sequence[Request]) -> list[list[int]] | None:
    """Return the interference graph, None if it has too many edges."""
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


def _by_size(requests: Sequence[Request]) -> list[int]:
    """Largest first."""
    return sorted(range(len(requests)), key=lambda i: (-requests[i].size_bytes, i))


def _by_duration(requests: Sequence[Request]) -> list[int]:
    """Longest live range first, then largest."""
    return sorted(
        range(len(requests)),
        key=lambda i: (requests[i].first - requests[i].last, -requests[i].size_bytes, i),
    )


def _pack_in_order(
    requests: Sequence[Request], neighbours: list[list[int]], order: Sequence[int]
) -> list[int]:
    """Place requests in order, each in the smallest gap that fits."""
    offsets = [-1] * len(requests)
    for i in order:
        taken = sorted(
            (offsets[j], offsets[j] + requests[j].size_bytes)
            for j in neighbours[i]
            if offsets[j] >= 0
        )
        offsets[i] = best_gap(taken, requests[i].size_bytes)
    return offsets


def best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the offset for `size` bytes: the smallest gap that fits, or the end.

    Args:
        taken: ranges in use, start and end, sorted; they may overlap.
        size: more than 0.
    """
    alignment = alignment_of(size)
    best, best_size, at = -1, -1, 0
    for start, end in taken:
        gap = start - at
        if gap >= size and (best < 0 or gap < best_size):
            first = rounded(at, alignment)
            if start - first >= size:
                best, best_size = first, gap
        if end > at:
            at = end
    return rounded(at, alignment) if best < 0 else best


@dataclass(slots=True)
class _FreeList:
    """Gaps below `top`, found by size and merged with their neighbours."""

    top: int = 0
    by_size: list[tuple[int, int]] = field(default_factory=list)
    size_at: dict[int, int] = field(default_factory=dict)
    start_of_end: dict[int, int] = field(default_factory=dict)

    def allocate(self, size: int, alignment: int) -> int:
        for i in range(bisect_left(self.by_size, (size, -1)), len(self.by_size)):
            gap, start = self.by_size[i]
            at = rounded(start, alignment)
            if at + size <= start + gap:
                self._remove(start)
                self._add(start, at - start)
                self._add(at + size, start + gap - at - size)
                return at
        start = self.start_of_end.get(self.top, self.top)
        if start < self.top:
            self._remove(start)
        at = rounded(start, alignment)
        self._add(start, at - start)
        self.top = at + size
        return at

    def release(self, start: int, size: int) -> None:
        before = self.start_of_end.get(start)
        if before is not None:
            size += self._remove(before)
            start = before
        if start + size in self.size_at:
            size += self._remove(start + size)
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        if not size:
            return
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
        offsets[i] = free.allocate(
            aligned(requests[i].size_bytes), alignment_of(requests[i].size_bytes)
        )
        heappush(ends, (requests[i].last, i))
    return offsets
