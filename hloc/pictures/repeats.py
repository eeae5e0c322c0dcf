"""Merge equal neighbours into one box: `×12`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from hloc.pictures.boxes import Box, Work, group_of
from hloc.pictures.labels import shown

_FEWEST_REPEATS = 3
_LONGEST_PERIOD = 1000
_CANDIDATES = 24
_SAMPLE = 6


def with_repeats(children: list[Box], work: Work) -> list[Box]:
    """Return the children with each run of equal blocks in one box; long blocks first."""
    return _repeats_of(_repeats_of(children, _SAMPLE, work), 1, work)


def _repeats_of(children: list[Box], sample: int, work: Work) -> list[Box]:
    """Merge runs that begin with the same `sample` symbols."""
    symbols = [child.symbol for child in children]
    keys = [tuple(symbols[i : i + sample]) for i in range(len(symbols))]
    where: dict[tuple[int, ...], deque[int]] = {}
    for i, key in enumerate(keys):
        where.setdefault(key, deque()).append(i)
    found: list[Box] = []
    i = 0
    while i < len(children):
        places = where[keys[i]]
        while places and places[0] <= i:
            places.popleft()
        period, times = _repeat_at(symbols, i, islice(places, _CANDIDATES))
        if times and period * times >= sample:
            found.append(_repeat(children[i : i + period * times], period, work))
            i += period * times
        else:
            found.append(children[i])
            i += 1
    return found


def _repeat_at(symbols: list[int], start: int, others: Iterable[int]) -> tuple[int, int]:
    """Return period and number of the longest repetition from `start` to `others`, or 0, 0."""
    best = (0, 0)
    for other in others:
        period = other - start
        if period > _LONGEST_PERIOD:
            break
        same = 0
        while other + same < len(symbols) and symbols[start + same] == symbols[other + same]:
            same += 1
        times = same // period + 1
        if times >= _FEWEST_REPEATS and period * times > best[0] * best[1]:
            best = (period, times)
    return best


def _repeat(members: list[Box], period: int, work: Work) -> Box:
    """Return the box of a repetition; each iteration of several boxes is one box."""
    times = len(members) // period
    rounds = members
    if period > 1:
        rounds = [
            group_of("part", "round", members[i : i + period], work)
            for i in range(0, len(members), period)
        ]
    first, last = rounds[0].title, rounds[-1].title
    if period > 1:
        title = f"block of {sum(c.count for c in members[:period])} instructions"
    else:
        title = first if first == last else f"{shown(first, 22)} … {shown(last, 22)}"
    box = group_of("repeat", title, rounds, work)
    box.repeats, box.kind = times, rounds[0].kind
    return box
