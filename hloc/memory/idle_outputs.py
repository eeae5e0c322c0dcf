"""Temporaries in output buffers that are not written yet.

An output buffer is idle until the output is computed; a temporary that is dead by then takes no
memory of its own there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import field

from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import Request, best_gap

_SEARCH_BUDGET = 2_000_000
"""Budget of visited occupants; the remaining requests go into the arena."""


@dataclass(slots=True)
class IdleOutput:
    """An output buffer, which is idle part of the time.

    Attributes:
        busy: times `first..last` at which all of it is in use.
        occupants: bytes `start..end` taken from time `first` to `last`, both included, as
            `(start, end, first, last)`, sorted.
    """

    size_bytes: int
    busy: Sequence[tuple[int, int]]
    occupants: list[tuple[int, int, int, int]] = field(default_factory=list)

    def place(self, request: Request) -> int:
        """Return the offset of free bytes for `request`, -1 if there are none."""
        since, until = request.first, request.last
        for first, last in self.busy:
            if first <= until and since <= last:
                return -1
        taken = [
            (start, end)
            for start, end, first, last in self.occupants
            if first <= until and since <= last
        ]
        offset = best_gap(taken, request.size_bytes)
        end = offset + request.size_bytes
        if end > self.size_bytes:
            return -1
        insort(self.occupants, (offset, end, since, until))
        return offset


def place_in_outputs(
    requests: Sequence[Request], outputs: Sequence[IdleOutput]
) -> list[tuple[int, int] | None]:
    """Return the number of an output and the offset in it for each request, None if nothing fits.

    The largest requests are placed first, each in the smallest output that has free bytes for it.
    """
    places: list[tuple[int, int] | None] = [None] * len(requests)
    numbers = sorted(range(len(outputs)), key=lambda i: (outputs[i].size_bytes, i))
    sizes = [outputs[i].size_bytes for i in numbers]
    budget = _SEARCH_BUDGET
    for i in sorted(range(len(requests)), key=lambda i: (-requests[i].size_bytes, i)):
        for number in numbers[bisect_left(sizes, requests[i].size_bytes) :]:
            budget -= 1 + len(outputs[number].busy) + len(outputs[number].occupants)
            if budget < 0:
                return places
            offset = outputs[number].place(requests[i])
            if offset >= 0:
                places[i] = (number, offset)
                break
    return places
