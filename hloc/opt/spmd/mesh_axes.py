"""Expresses the shardings of a module by the axes of one mesh.

`{devices=[4,2]<=[8]}` and `{devices=[2,4]<=[4,2]T(1,0)}` together need axes of (4, 2); a third one
that divides the axis of 4 makes them (2, 2, 2). A sharding that is no product of axes of the mesh,
such as an irregular list of devices, has no tiling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import TypeAlias

import numpy as np

from hloc.ir.sharding import MANUAL, REPLICATED, UNREDUCED, Iota, LeafSharding, Tiles
from hloc.lazy_dataclass import dataclass
from hloc.opt.spmd.tiling import NO_AXES, Axes, Dims, Mesh, Tiling, replicated
from hloc.prime_factors import prime_factors

Digit: TypeAlias = tuple[int, int]
"""A part of a position in the mesh: `position // stride % size`, as (stride, size)."""

_Order: TypeAlias = tuple[int, ...] | None

_MAX_ORDERS = 4
"""Limit on device lists tried as the order of the mesh."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A device array; `has_copies` if the order along its last dimension is irrelevant."""

    tiles: Tiles
    has_copies: bool


def mesh_of(shardings: Iterable[LeafSharding], partitions: int) -> Mesh:
    """Return the coarsest mesh whose axes express as many of `shardings` as possible."""
    counted = Counter(
        _Written(sharding.tiles, sharding.subgroups[-1:] == (REPLICATED,))
        for sharding in shardings
        if sharding.tiles is not None and _places_all(sharding.tiles, partitions)
    )
    tiled = counted.most_common()
    orders: dict[_Order, None] = {None: None}
    for written, _ in tiled:
        devices = written.tiles.devices
        if isinstance(devices, tuple) and _digits_of(devices) is None:
            orders[devices] = None
    tried = [_mesh(tiled, order, partitions) for order in list(orders)[:_MAX_ORDERS]]
    return max(tried, key=lambda pair: pair[0])[1]  # among equals the first, without a list


def _mesh(
    tiled: Sequence[tuple[_Written, int]], order: _Order, partitions: int
) -> tuple[int, Mesh]:
    """Return how many shardings the mesh with its partitions in `order` expresses, and the mesh."""
    cuts, expressed = {1, partitions}, 0
    for written, count in tiled:
        split = _split(written, order)
        if split is None:
            continue
        digits = [digit for dim in split for digit in dim]
        wanted = cuts | {stride for stride, _ in digits} | {s * size for s, size in digits}
        if all(high % low == 0 for low, high in pairwise(sorted(wanted))):
            cuts = wanted
            expressed += count
    sizes = tuple(high // low for low, high in reversed(list(pairwise(sorted(cuts)))))
    return expressed, Mesh(sizes, order)


def prime_mesh(mesh: Mesh) -> Mesh:
    """Return the mesh with each axis divided into axes of prime sizes."""
    return Mesh(tuple(p for size in mesh.sizes for p in prime_factors(size)), mesh.devices)


def tiling_of(sharding: LeafSharding, mesh: Mesh, rank: int) -> Tiling | None:
    """Return `sharding` of an array of `rank` dimensions by axes of `mesh`.

    None if it cannot be expressed by them, and for maximal and unknown shardings.
    """
    whole = frozenset(mesh.axes)
    if sharding.kind == REPLICATED:
        return replicated(mesh, rank)
    if sharding.kind == MANUAL:
        return Tiling(mesh, ((),) * rank, manual=whole)
    if sharding.kind == UNREDUCED:
        return Tiling(mesh, ((),) * rank, unreduced=whole)
    tiles = sharding.tiles
    if tiles is None or len(tiles.dims) - len(sharding.subgroups) != rank:
        return None
    written = _Written(tiles, sharding.subgroups[-1:] == (REPLICATED,))
    split = _split(written, mesh.devices) if _places_all(tiles, mesh.count) else None
    found = [axes_of(mesh, digits) for digits in split or ()]
    axes = [each for each in found if each is not None]
    if split is None or len(axes) != len(found):
        return None
    kinds = dict.fromkeys((MANUAL, UNREDUCED, REPLICATED), NO_AXES)
    for kind, each in zip(sharding.subgroups, axes[rank:], strict=True):
        kinds[kind] |= frozenset(each)
    return Tiling(mesh, tuple(axes[:rank]), kinds[MANUAL], kinds[UNREDUCED])


def axes_of(mesh: Mesh, digits: Sequence[Digit]) -> Axes | None:
    """Return the axes that `digits` consist of, None if they divide an axis."""
    found: list[int] = []
    for stride, size in digits:
        inside = [
            axis
            for axis, (low, count) in enumerate(zip(mesh.strides, mesh.sizes, strict=True))
            if low >= stride and low * count <= stride * size
        ]
        if mesh.size(inside) != size:
            return None
        found += inside
    return tuple(found)


def _split(written: _Written, order: _Order) -> list[list[Digit]] | None:
    """Return the digits of the position in each dimension of the device array."""
    tiles = written.tiles
    if order is None:
        digits = _digits_of(tiles.devices)
    else:
        positions = np.argsort(np.array(order))[np.array(_listed(tiles.devices))]
        if written.has_copies:
            positions = np.sort(positions.reshape(-1, tiles.dims[-1])).ravel()
        digits = _digits_of(tuple(positions.tolist()))
    return None if digits is None else _shared_out(digits, tiles.dims)


def _listed(devices: Iota | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(devices, tuple):
        return devices
    array = np.arange(devices.count).reshape(devices.reshape).transpose(devices.transpose)
    return tuple(array.ravel().tolist())


def _places_all(tiles: Tiles, partitions: int) -> bool:
    """True if the device array holds each of the partitions once."""
    if isinstance(tiles.devices, Iota):
        return tiles.devices.count == partitions
    return sorted(tiles.devices) == list(range(partitions))


def _digits_of(devices: Iota | tuple[int, ...]) -> list[Digit] | None:
    """Return the digits of the devices that their index counts, major first; None if no iota."""
    if isinstance(devices, Iota):
        return [
            (prod(devices.reshape[dim + 1 :]), devices.reshape[dim]) for dim in devices.transpose
        ]
    rest, digits = np.array(devices, np.int64), list[Digit]()
    while len(rest) > 1:
        size = prime_factors(len(rest))[0]
        rows = rest.reshape(-1, size)
        stride = int(rows[0, 1] - rows[0, 0])
        if stride <= 0 or (rows != rows[:, :1] + stride * np.arange(size)).any():
            return None
        digits.insert(0, (stride, size))
        rest = rows[:, 0]
    expected = 1
    for stride, size in sorted(digits):
        if stride != expected:
            return None
        expected *= size
    return None if len(rest) and rest[0] else digits


def _shared_out(digits: Sequence[Digit], dims: Dims) -> list[list[Digit]] | None:
    """Distribute `digits`, major first, among dimensions of sizes `dims`, splitting some."""
    rest = [digit for digit in digits if digit[1] > 1]
    found: list[list[Digit]] = []
    for size in dims:
        taken: list[Digit] = []
        left = size
        while left > 1:
            if not rest:
                return None
            stride, count = rest.pop(0)
            if left % count == 0:
                taken.append((stride, count))
                left //= count
            elif count % left == 0:
                taken.append((stride * (count // left), left))
                rest.insert(0, (stride, count // left))
                left = 1
            else:
                return None
        found.append(taken)
    return found
