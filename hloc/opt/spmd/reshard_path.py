"""The cheapest resharding between two tilings: a shortest path over tilings.

Steps are a slice of replicated data, an all-gather, or an all-reduce where most tiles have no
element, an all-to-all that moves minor axes from one dimension to another, and a collective-permute
between tilings with equal numbers of tiles. The cost of each is the bytes that a device sends (ring
algorithms).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import count, pairwise, takewhile
from math import prod

from hloc.lazy_dataclass import dataclass
from hloc.opt.spmd.tiling import Axes, Dims, Tiling

_MOST_TILINGS = 400
"""Limit on the tilings visited before everything is gathered."""

_MOST_AXES = 5
"""With more axes, those adjacent in both tilings are kept together."""

_STEP = 1e-3
"""Cost of a step in elements: at equal traffic, the shorter path wins."""


@dataclass(frozen=True, slots=True)
class Step:
    """One collective or slice.

    Attributes:
        kind: `slice`, `gather`, `join` (a gather of few elements, by an all-reduce), `swap`
            (all-to-all) or `permute`.
        tiling: after the step.
        dim: the dimension that is sliced, gathered, or joined by the swap.
        axes: the axes it loses or gains.
        other: the dimension that a swap splits.
    """

    kind: str
    tiling: Tiling
    dim: int = -1
    axes: Axes = ()
    other: int = -1


@lru_cache(maxsize=4096)
def path(whole: Dims, start: Tiling, target: Tiling) -> tuple[float, tuple[Step, ...]]:
    """Return the elements that each device sends on the cheapest path, and its steps."""
    if start == target:
        return 0.0, ()
    found = _search(whole, start, target, hurry=0.0) or _search(whole, start, target, hurry=1.0)
    return found or _through_whole(whole, start, target)


def _search(
    whole: Dims, start: Tiling, target: Tiling, hurry: float
) -> tuple[float, tuple[Step, ...]] | None:
    """Return the cheapest path, None if it is not found within the limit.

    With `hurry`, tilings closer to the target come first; the path found may
    then not be the cheapest.
    """
    glued = _neighbours(start, target) if len(start.axes | target.axes) > _MOST_AXES else set()
    local = prod(start.local_dims(whole))
    order = count()
    queue: list[tuple[float, int, Tiling]] = [(0.0, next(order), start)]
    costs: dict[Tiling, float] = {start: 0.0}
    came: dict[Tiling, tuple[Tiling, Step]] = {}
    done: set[Tiling] = set()
    while queue and len(done) < _MOST_TILINGS:
        _, _, now = heapq.heappop(queue)
        if now == target:
            return costs[now], _steps(came, start, target)
        if now in done:
            continue
        done.add(now)
        for step, price in _moves(whole, now, target, glued):
            total = costs[now] + price + _STEP
            if step.tiling not in done and total < costs.get(step.tiling, float("inf")):
                costs[step.tiling] = total
                came[step.tiling] = (now, step)
                ahead = _misplaced(step.tiling, target) if hurry else 0
                rank = total + hurry * local * ahead
                heapq.heappush(queue, (rank, next(order), step.tiling))
    return None


def _misplaced(now: Tiling, target: Tiling) -> int:
    """Return how many axes are not yet in their target position."""
    wrong = 0
    for axes, wanted in zip(now.dims, target.dims, strict=True):
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(axes, wanted, strict=False))
        )
        wrong += len(axes) + len(wanted) - 2 * same
    return wrong


def _steps(
    came: dict[Tiling, tuple[Tiling, Step]], start: Tiling, target: Tiling
) -> tuple[Step, ...]:
    found: list[Step] = []
    while target != start:
        target, step = came[target]
        found.append(step)
    return tuple(reversed(found))


def _through_whole(whole: Dims, start: Tiling, target: Tiling) -> tuple[float, tuple[Step, ...]]:
    """Gather every dimension that differs, and slice it."""
    now, cost, found = start, 0.0, list[Step]()
    differing = [d for d in range(len(whole)) if start.dims[d] != target.dims[d]]
    for dim in differing:
        axes = now.dims[dim]
        if axes:
            cost += prod(now.local_dims(whole)) * (now.mesh.size(axes) - 1)
            now = now.with_dim(dim, ())
            found.append(Step("gather", now, dim, axes))
    for dim in differing:
        if target.dims[dim]:
            now = now.with_dim(dim, target.dims[dim])
            found.append(Step("slice", now, dim, target.dims[dim]))
    return cost, tuple(found)


def _neighbours(start: Tiling, target: Tiling) -> set[tuple[int, int]]:
    """Return pairs of axes that are adjacent in both tilings, or free in one."""
    found: set[tuple[int, int]] = set()
    for tiling, other in ((start, target), (target, start)):
        follow = {pair for axes in other.dims for pair in pairwise(axes)}
        for axes in tiling.dims:
            found |= {p for p in pairwise(axes) if p in follow or not other.axes & set(p)}
    return found


def _moves(
    whole: Dims, now: Tiling, target: Tiling, glued: set[tuple[int, int]]
) -> Iterator[tuple[Step, float]]:
    """Yield the steps from a tiling, and the elements that each device sends."""
    local, mesh = prod(now.local_dims(whole)), now.mesh
    for dim, axes in enumerate(now.dims):
        for kept in range(len(axes)):
            lost = axes[kept:]
            if kept and axes[kept - 1 : kept + 1] in glued:
                continue
            if not _nests(whole[dim], now, axes[:kept], axes):
                continue
            gathered = now.with_dim(dim, axes[:kept])
            n = mesh.size(lost)
            yield Step("gather", gathered, dim, lost), local * (n - 1)
            if not kept and 0 < 2 * whole[dim] < n:
                yield Step("join", gathered, dim, lost), 2 * local * whole[dim] * (n - 1) / n
            for other, split in enumerate(gathered.dims):
                if other != dim and _nests(whole[other], now, split, split + lost):
                    swapped = gathered.with_dim(other, split + lost)
                    yield Step("swap", swapped, dim, lost, other), local * (n - 1) / n
    free = set(mesh.except_for(now.used))
    for dim, axes in enumerate(now.dims):
        for more in _extensions(axes, target.dims[dim], free, glued):
            if _nests(whole[dim], now, axes, axes + more):
                yield Step("slice", now.with_dim(dim, axes + more), dim, more), 0.0
    for renamed in _renamed(now, target):
        yield Step("permute", renamed), local * share_sent(now, renamed)


def _extensions(
    axes: Axes, wanted: Axes, free: set[int], glued: set[tuple[int, int]]
) -> Iterator[Axes]:
    """Yield axes that may shard a dimension: the wanted ones, or any single one."""
    more = wanted[len(axes) :]
    if wanted[: len(axes)] == axes:
        for length in range(1, len(more) + 1):
            if set(more[:length]) <= free and more[length - 1 : length + 1] not in glued:
                yield more[:length]
    bound = {axis for pair in glued for axis in pair}
    for axis in sorted(free - bound - set(more[:1])):
        yield (axis,)


def _nests(size: int, now: Tiling, outer: Axes, inner: Axes) -> bool:
    """True if each tile by `outer` consists of complete tiles by `inner`, padding at the end."""
    few, many = now.mesh.size(outer), now.mesh.size(inner)
    return few == 1 or many // few * -(-size // many) == -(-size // few)


def _renamed(now: Tiling, target: Tiling) -> Iterator[Tiling]:
    """Yield tilings with equally many tiles by the axes of the target, as far as they fit."""
    if now.counts == target.counts:
        if now != target:
            yield target
        return
    dims = [_by_target(now, *pair) for pair in zip(now.dims, target.dims, strict=True)]
    found = Tiling(now.mesh, tuple(dims), now.manual, now.unreduced)
    named = [axis for axes in dims for axis in axes]
    if found != now and len(set(named)) == len(named) and not found.axes & found.manual:
        yield found


def _by_target(now: Tiling, axes: Axes, wanted: Axes) -> Axes:
    """Return axes with as many tiles as `axes`: a prefix of `wanted`, or an extension of it."""
    tiles = now.mesh.size(axes)
    for length in range(len(wanted) + 1):
        if now.mesh.size(wanted[:length]) == tiles:
            return wanted[:length]
    if set(wanted) <= set(axes):
        return wanted + tuple(axis for axis in axes if axis not in wanted)
    return axes


# ---------------------------------------------------------------- permutes


def share_sent(now: Tiling, target: Tiling) -> float:
    """Return the share of the partitions that send their tile to another."""
    found = pairs(now, target)
    return sum(source != sent for source, sent in found) / len(found)


def pairs(now: Tiling, target: Tiling) -> tuple[tuple[int, int], ...]:
    """Return which partition sends its tile to which, each exactly one; itself if possible."""
    holders: dict[tuple[int, ...], dict[int, None]] = defaultdict(dict)
    for partition, place in enumerate(_places(now)):
        holders[place][partition] = None
    places = _places(target)
    found = {p: p for p, place in enumerate(places) if p in holders[place]}
    for partition, place in enumerate(places):
        if partition in found:
            del holders[place][partition]
    for partition, place in enumerate(places):
        if partition not in found:
            source = next(iter(holders[place]))
            del holders[place][source]
            found[partition] = source
    return tuple(sorted((source, p) for p, source in found.items()))


def _places(tiling: Tiling) -> list[tuple[int, ...]]:
    manual = tuple(sorted(tiling.manual))  # partitions that differ in these have other arrays
    columns = [tiling.mesh.coordinates(axes).tolist() for axes in (*tiling.dims, manual)]
    return list(zip(*columns, strict=True))
