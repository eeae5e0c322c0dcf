"""Which tile of an array each partition holds, from any written form of its sharding.

Dimension d of size n in t tiles has tiles of ceil(n / t) elements; the last ones may be short or
empty, and a device's array is padded to the size of a tile. Source: XLA's `hlo_sharding.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TypeAlias

import numpy as np

from hloc.errors import HloError
from hloc.ir.axis_sharding import AxisSharding
from hloc.ir.axis_sharding_text import named_sharding
from hloc.ir.replica_groups import MeshGroups
from hloc.ir.sharding import MANUAL, UNREDUCED, Iota, LeafSharding
from hloc.lazy_dataclass import dataclass

Dims: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """The tiles of one array.

    Attributes:
        tiles: number of tiles along each dimension.
        places: the tile index of each partition, () if it has none.
    """

    tiles: Dims
    places: tuple[Dims, ...]

    def local_dims(self, whole: Dims) -> Dims:
        """Return the sizes of a tile of an array of `whole`."""
        return tuple(-(-size // count) for size, count in zip(whole, self.tiles, strict=True))

    def part(self, whole: Dims, partition: int) -> tuple[slice, ...] | None:
        """Return the slices of a partition's tile in an array of `whole`; None if it has none."""
        place = self.places[partition]
        if len(place) != len(whole):
            return None
        return tuple(
            slice(min(i * size, full), min((i + 1) * size, full))
            for i, size, full in zip(place, self.local_dims(whole), whole, strict=True)
        )


def replicated(rank: int, partitions: int) -> Placement:
    """Return the placement of a replicated array."""
    return Placement((1,) * rank, ((0,) * rank,) * partitions)


def placement_of(
    sharding: LeafSharding | AxisSharding, rank: int, partitions: int
) -> Placement | None:
    """Return the tiles of an array of `rank` dimensions.

    None if the parts do not form a whole array: manual, unreduced, unknown.

    Raises:
        HloError: the sharding does not fit the rank or the number of partitions.
    """
    if isinstance(sharding, LeafSharding):
        if sharding.kind == "named":
            return placement_of(named_sharding(sharding.name), rank, partitions)
        return _of_leaf(sharding, rank, partitions)
    return _of_axes(sharding, rank, partitions)


def _of_leaf(sharding: LeafSharding, rank: int, partitions: int) -> Placement | None:
    """Return the placement of a sharding by tiles, None if a partition's part is not known.

    Raises:
        HloError: it is of another rank, or for another number of partitions.
    """
    if sharding.kind == "maximal":
        places = ((0,) * rank if i == sharding.device else () for i in range(partitions))
        return Placement((1,) * rank, tuple(places)) if rank else replicated(0, partitions)
    tiles = sharding.tiles
    if tiles is None:
        return replicated(rank, partitions) if sharding.kind == "replicated" else None
    if MANUAL in sharding.subgroups or UNREDUCED in sharding.subgroups:
        return None
    if prod(tiles.dims) != partitions or len(tiles.dims) - len(sharding.subgroups) != rank:
        raise HloError(
            f"sharding {sharding} does not spread {rank} dimensions over {partitions} partitions"
        )
    if isinstance(tiles.devices, Iota):
        devices = np.arange(partitions).reshape(tiles.devices.reshape)
        order = devices.transpose(tiles.devices.transpose).ravel().tolist()
    else:
        order = list(tiles.devices)
    return _placed(tiles.dims[:rank], tiles.dims, order, rank)


def _of_axes(sharding: AxisSharding, rank: int, partitions: int) -> Placement | None:
    """Return the placement of a sharding by named axes, as `_of_leaf` does."""
    mesh = sharding.mesh
    if not mesh.axes:
        if isinstance(mesh.devices, tuple):  # Shardy's maximal mesh
            return _of_leaf(LeafSharding("maximal", device=mesh.devices[0]), rank, partitions)
        return replicated(rank, partitions)
    if sharding.manual or sharding.unreduced:
        return None
    dims = sharding.dims or ((),) * rank
    if mesh.count != partitions or len(dims) != rank:
        raise HloError(
            f"a sharding of {len(dims)} dimensions over {mesh} does not spread {rank} dimensions "
            f"over {partitions} partitions"
        )
    named = MeshGroups(mesh, tuple(axis for axes in dims for axis in axes))
    tiles = tuple(MeshGroups(mesh, axes).sizes[0] for axes in dims)
    places: list[Dims] = [()] * partitions
    for group in named.lists():
        coordinates = _coordinates(tiles)
        for device in group:
            places[device] = next(coordinates)
    return Placement(tiles, tuple(places))


def _placed(tiles: Dims, array: Dims, order: list[int], rank: int) -> Placement:
    places: list[Dims] = [()] * len(order)
    for device, index in zip(order, _coordinates(array), strict=True):
        places[device] = index[:rank]
    return Placement(tiles, tuple(places))


def _coordinates(dims: Dims) -> Iterator[Dims]:
    return iter(np.ndindex(*dims))
