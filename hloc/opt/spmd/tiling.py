"""How arrays are sharded over partitions: the axes of one mesh along each dimension.

All shardings of a module are expressed by the axes of one `Mesh` (`mesh_axes.py`), so that
they can be compared, merged and resharded. A dimension of n elements in t tiles has tiles of
`ceil(n / t)` elements; the last ones may be short or empty, and elements beyond are undefined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hloc.ir.replica_groups import GroupLists, IotaGroups
from hloc.ir.sharding import MANUAL, REPLICATED, UNREDUCED, LeafSharding, Tiles, iota, normalized
from hloc.lazy_dataclass import dataclass

Axes: TypeAlias = tuple[int, ...]
"""Axes by number, major first."""

Dims: TypeAlias = tuple[int, ...]
Ids: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

NO_AXES: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Mesh:
    """Partitions arranged as an array of `sizes`, row-major.

    `devices` None is 0, 1, 2 ...; otherwise the partition at each position.
    """

    sizes: Dims
    devices: tuple[int, ...] | None = None

    @cached_property
    def strides(self) -> Dims:
        """The distance of neighbours along each axis, in positions."""
        return tuple(prod(self.sizes[i + 1 :]) for i in range(len(self.sizes)))

    @property
    def count(self) -> int:
        """The number of partitions."""
        return prod(self.sizes)

    @property
    def axes(self) -> Axes:
        """All axes, major first."""
        return tuple(range(len(self.sizes)))

    def size(self, axes: Iterable[int]) -> int:
        """Return the number of partitions along `axes`."""
        found = 1
        for axis in axes:  # a loop: a search over tilings calls this millions of times
            found *= self.sizes[axis]
        return found

    def dividing(self, axes: Axes, size: int) -> tuple[Axes, int]:
        """Return the leading axes that divide `size` one after the other, and the quotient."""
        count = 0
        while count < len(axes) and size % self.sizes[axes[count]] == 0:
            size //= self.sizes[axes[count]]
            count += 1
        return axes[:count], size

    def except_for(self, axes: Iterable[int]) -> Axes:
        """Return the other axes."""
        left_out = set(axes)
        return tuple(axis for axis in self.axes if axis not in left_out)

    def groups(self, axes: Axes) -> IotaGroups | GroupLists:
        """Return the groups of partitions that differ along `axes` only, ranked by these axes."""
        others, size = self.except_for(axes), self.size(axes)
        if self.devices is None:
            return IotaGroups(self.count // size, size, iota(self.sizes, others + axes))
        rows = self._array().transpose(others + axes).reshape(-1, size)
        return GroupLists(tuple(map(tuple, rows.tolist())))

    def coordinates(self, axes: Axes) -> Ids:
        """Return the position of each partition along `axes`, counted row-major."""
        positions = np.arange(self.count)
        found = np.zeros(self.count, np.int64)
        for axis in axes:
            size = self.sizes[axis]
            found = found * size + positions // self.strides[axis] % size
        if self.devices is None:
            return found
        by_partition = np.empty_like(found)
        by_partition[np.array(self.devices)] = found
        return by_partition

    def tiles(self, dims: Dims, order: Axes) -> Tiles:
        """Return the device array of `dims` with the axes in `order`."""
        if self.devices is None:
            return Tiles(dims, iota(self.sizes, order))
        return Tiles(dims, tuple(self._array().transpose(order).ravel().tolist()))

    def _array(self) -> Ids:
        return np.array(self.devices, np.int64).reshape(self.sizes)


@dataclass(frozen=True)
class Tiling:
    """How one array is sharded over a mesh; along other axes it is replicated.

    Attributes:
        dims: the axes of each dimension.
        manual: axes by which the shape is already divided.
        unreduced: axes along which each partition has a partial sum.
    """

    mesh: Mesh
    dims: tuple[Axes, ...]
    manual: frozenset[int] = NO_AXES
    unreduced: frozenset[int] = NO_AXES

    @cached_property
    def axes(self) -> frozenset[int]:
        """All axes of dimensions."""
        return frozenset(axis for axes in self.dims for axis in axes)

    @cached_property
    def used(self) -> frozenset[int]:
        """All axes along which partitions may hold different data."""
        return self.axes | self.manual | self.unreduced

    @property
    def is_replicated(self) -> bool:
        """True if every partition has the whole array."""
        return not self.used

    @property
    def counts(self) -> Dims:
        """The number of tiles of each dimension."""
        return tuple(map(self.mesh.size, self.dims))

    def local_dims(self, whole: Sequence[int]) -> Dims:
        """Return the sizes of a tile of an array of sizes `whole`."""
        return tuple(-(-n // t) for n, t in zip(whole, self.counts, strict=True))

    def is_even(self, whole: Sequence[int], dim: int) -> bool:
        """True if no tile of dimension `dim` is padded."""
        return whole[dim] % self.mesh.size(self.dims[dim]) == 0

    def starts(self, whole: Sequence[int], dim: int) -> Ids:
        """Return the start of each partition's tile in dimension `dim`, possibly beyond its end."""
        return self.mesh.coordinates(self.dims[dim]) * self.local_dims(whole)[dim]

    def with_dim(self, dim: int, axes: Axes) -> Tiling:
        """Return this tiling with other axes along one dimension."""
        dims = (*self.dims[:dim], axes, *self.dims[dim + 1 :])
        return Tiling(self.mesh, dims, self.manual, self.unreduced)

    def whole_along(self, dims: Collection[int]) -> Tiling:
        """Return this tiling without the axes of `dims`."""
        kept = tuple(() if dim in dims else axes for dim, axes in enumerate(self.dims))
        return Tiling(self.mesh, kept, self.manual, self.unreduced)

    def refines(self, other: Tiling) -> bool:
        """True if each tile is part of the tile of `other` on the same partition.

        Valid for arrays that both divide evenly.
        """
        return (self.manual, self.unreduced) == (other.manual, other.unreduced) and all(
            mine[: len(theirs)] == theirs
            for mine, theirs in zip(self.dims, other.dims, strict=True)
        )

    def merged(self, other: Tiling) -> Tiling | None:
        """Return the coarsest tiling that refines both, None if there is none.

        `[2,1]` replicated over 2 and `[1,2]` replicated over 2 give `[2,2]`.
        """
        if (self.manual, self.unreduced) != (other.manual, other.unreduced):
            return None
        dims = tuple(max(pair, key=len) for pair in zip(self.dims, other.dims, strict=True))
        named = [axis for axes in dims for axis in axes]
        found = replace(self, dims=dims)
        if len(set(named)) < len(named) or not (found.refines(self) and found.refines(other)):
            return None
        return found

    def sharding(self) -> LeafSharding:
        """Return the sharding in HLO's normal form."""
        subgroups: list[str] = []
        order = [axis for axes in self.dims for axis in axes]
        dims = list(self.counts)
        copied = frozenset(self.mesh.except_for(self.used))
        for kind, axes in (
            (MANUAL, self.manual),
            (UNREDUCED, self.unreduced),
            (REPLICATED, copied),
        ):
            if axes:
                subgroups.append(kind)
                order += sorted(axes)
                dims.append(self.mesh.size(axes))
        if not order:
            return LeafSharding(REPLICATED)
        tiles = self.mesh.tiles(tuple(dims), tuple(order))
        return normalized(LeafSharding("tiled", tiles, tuple(subgroups)))


def replicated(mesh: Mesh, rank: int) -> Tiling:
    """Return the tiling of a replicated array."""
    return Tiling(mesh, ((),) * rank)


def until_used(axes: Axes, used: Set[int]) -> Axes:
    """Return the axes before the first used one."""
    length = next((i for i, axis in enumerate(axes) if axis in used), len(axes))
    return axes[:length]
