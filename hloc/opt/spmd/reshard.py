"""Brings a value to another tiling, with the collective that moves the fewest bytes.

In this order: nothing, slices of what copies hold anyway, a collective-permute where only the
places of the tiles differ, an all-to-all where a split moves to another dimension, an all-gather.
Arrays whose sizes do not divide are gathered along that dimension and sliced again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod

from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.tiling import Axes, Tiling


def reshard(region: Region, value: Value, target: Tiling) -> Value:
    """Return `value` with the tiling `target`."""
    if value.tiling == target or value.is_manual:
        return value
    if target not in value.forms:
        found = value
        region.explain(value.inst, str(value.tiling.sharding()), str(target.sharding()))
        for step in steps(value.whole.dims, value.tiling, target):
            found = _step(region, found, step)
        region.note = None
        value.forms[target] = found
    return value.forms[target]


def reshard_bytes(value: Value, target: Tiling) -> float:
    """Return the bytes that each partition sends to bring `value` to `target` (ring algorithms)."""
    whole, element, total = value.whole.dims, value.whole.dtype.storage_bytes, 0.0
    now = value.tiling
    for step in steps(whole, now, target):
        size = prod(now.local_dims(whole)) * element
        gathered = now.axes - step.axes
        n = now.mesh.size(gathered)
        if sorted(now.counts) == sorted(step.counts) and now.axes and now != step:
            total += size
        elif gathered:
            total += size * (n - 1)
        now = step
    return total


def steps(whole: tuple[int, ...], start: Tiling, target: Tiling) -> Iterator[Tiling]:
    """Yield the tilings on the way from `start` to `target`; each is one collective or slice."""
    now = start
    uneven = [
        dim
        for dim in range(len(whole))
        if now.dims[dim] != target.dims[dim]
        and not (now.is_even(whole, dim) and target.is_even(whole, dim))
    ]
    if uneven and now.counts == target.counts:
        yield target
        return
    for dim in uneven:
        if now.dims[dim]:
            now = now.with_dim(dim, ())
            yield now
    for dim, axes in enumerate(target.dims):  # slices
        more = _extension(now.dims[dim], axes)
        if more and not now.axes & set(more):
            now = now.with_dim(dim, axes)
            yield now
    if now != target and now.counts == target.counts:
        yield target
        return
    for source, dim, axes in _exchanges(now, target, uneven):  # all-to-all
        kept = now.dims[source][: len(now.dims[source]) - len(axes)]
        now = now.with_dim(source, kept).with_dim(dim, (*now.dims[dim], *axes))
        yield now
    for dim, axes in enumerate(target.dims):  # all-gathers
        if now.dims[dim] != axes:
            common = _common(now.dims[dim], axes)
            if len(common) < len(now.dims[dim]):
                now = now.with_dim(dim, common)
                yield now
    for dim, axes in enumerate(target.dims):
        if now.dims[dim] != axes:
            now = now.with_dim(dim, axes)
            yield now


def _exchanges(
    now: Tiling, target: Tiling, uneven: Sequence[int]
) -> Iterator[tuple[int, int, Axes]]:
    """Yield (from, to, axes): minor axes of a dimension that become those of another."""
    for source, axes in enumerate(now.dims):
        lost = _extension(target.dims[source], axes)
        for dim, wanted in enumerate(target.dims):
            if {source, dim} & set(uneven):
                continue
            if lost and dim != source and _extension(now.dims[dim], wanted) == lost:
                yield source, dim, lost
                return


def _extension(axes: Axes, longer: Axes) -> Axes:
    """Return what `longer` has behind `axes`, () if it does not begin with them."""
    return longer[len(axes) :] if longer[: len(axes)] == axes else ()


def _common(a: Axes, b: Axes) -> Axes:
    length = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    return a[: min(len(a), len(b)) if length is None else length]


# ---------------------------------------------------------------- one step


def _step(region: Region, value: Value, target: Tiling) -> Value:
    """Return `value` with `target`, which is one step away."""
    now, whole, x = value.tiling, value.whole, value.inst
    changed = [d for d, (a, b) in enumerate(zip(now.dims, target.dims, strict=True)) if a != b]
    if len(changed) == 1:
        (dim,) = changed
        gained = _extension(now.dims[dim], target.dims[dim])
        lost = _extension(target.dims[dim], now.dims[dim])
        if gained:
            return Value(region.sliced(x, dim, gained), whole, target)
        if lost:
            x = region.all_gather(x, dim, lost)
            return Value(region.cut(x, dim, target.local_dims(whole.dims)[dim]), whole, target)
    if len(changed) == 2 and now.counts != target.counts:
        source, dim = sorted(changed, key=lambda d: len(target.dims[d]) - len(now.dims[d]))
        axes = _extension(target.dims[source], now.dims[source])
        return Value(region.all_to_all(x, source, dim, axes), whole, target)
    assert now.counts == target.counts, f"no step from {now} to {target}"
    return Value(region.permute(x, _pairs(now, target)), whole, target)


def _pairs(now: Tiling, target: Tiling) -> list[tuple[int, int]]:
    """Return which partition sends its tile to which, each exactly one."""
    holders: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for partition, place in enumerate(_places(now)):
        holders[place].append(partition)
    return sorted((holders[place].pop(0), p) for p, place in enumerate(_places(target)))


def _places(tiling: Tiling) -> list[tuple[int, ...]]:
    columns = [tiling.mesh.coordinates(axes).tolist() for axes in tiling.dims]
    return list(zip(*columns, strict=True)) if columns else [()] * tiling.mesh.count
