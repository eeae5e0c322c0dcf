"""Periodic parts of a sequence: the layers of a model, in the order of its instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import eq

from hloc.lazy_dataclass import dataclass

_GRAM = 12
"""Neighbours that are looked up together; shorter sequences also repeat within a layer."""

_MOST_PERIODS = 16
"""Periods that are tried, the most frequent distances first."""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a sequence, from `start` to `end`, in which `s[i] == s[i + period]`."""

    start: int
    end: int
    period: int


def periodic_runs(sequence: Sequence[int], shortest: int, repeats: int) -> list[Run]:
    """Return the periodic parts of `sequence`, in their order; they do not overlap.

    Where two overlap, the longer one takes what both have. Cost: O(length of the sequence).

    Args:
        sequence: numbers, equal for equal items.
        shortest: smallest period.
        repeats: how often a part must repeat, at least; the last time may be cut short.
    """
    gaps = Counter(gap for gap in _gaps(sequence) if gap >= shortest)
    found = [
        run
        for period, _ in gaps.most_common(_MOST_PERIODS)
        for run in _runs(sequence, period, repeats)
    ]
    found.sort(key=lambda run: (run.start - run.end, run.period, run.start))
    taken = bytearray(len(sequence))
    kept: list[Run] = []
    for run in found:
        start = taken.find(0, run.start, run.end)
        end = taken.rfind(0, run.start, run.end) + 1
        if start < 0 or any(taken[start:end]) or end - start <= (repeats - 1) * run.period:
            continue
        taken[start:end] = b"\x01" * (end - start)
        kept.append(Run(start, end, run.period))
    return sorted(kept, key=lambda run: run.start)


def _gaps(sequence: Sequence[int]) -> Iterator[int]:
    """Yield the distance of each gram to the last equal one before it."""
    last: dict[tuple[int, ...], int] = {}
    for place in range(len(sequence) - _GRAM + 1):
        gram = tuple(sequence[place : place + _GRAM])
        before = last.get(gram)
        if before is not None:
            yield place - before
        last[gram] = place


def _runs(sequence: Sequence[int], period: int, repeats: int) -> Iterator[Run]:
    """Yield the parts that repeat with `period`."""
    start = 0
    for is_same, group in groupby(map(eq, sequence, sequence[period:])):
        length = len(list(group))
        if is_same and length > (repeats - 2) * period:
            yield Run(start, start + length + period, period)
        start += length
