"""Replica groups in the form they were written: lists, an iota, or axes of a mesh.

The numbers are replicas, partitions or flattened ids, as `device_groups.py` says. Source: XLA's
`replica_group.cc` and `mesh_and_axis.cc`.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hloc.errors import HloError
from hloc.ir.sharding import Iota, commas
from hloc.lazy_dataclass import dataclass

Lists: TypeAlias = tuple[tuple[int, ...], ...]
Ids: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

MAX_DEVICES = 1 << 20
"""Most devices that are listed one by one; a text may name 2^60 in a few characters."""


@dataclass(frozen=True, slots=True)
class GroupLists:
    """`{{0,1},{2,3}}`; an empty list is one group of all participants."""

    groups: Lists = ()

    def __str__(self) -> str:
        return "{" + ",".join("{" + commas(group) + "}" for group in self.groups) + "}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each group; a single entry stands for all groups."""
        return tuple(map(len, self.groups))

    @property
    def count(self) -> int:
        """How many numbers the groups hold together."""
        return sum(self.sizes)

    def lists(self) -> Lists:
        """Return the groups."""
        return self.groups


@dataclass(frozen=True, slots=True)
class IotaGroups:
    """`[2,4]<=[4,2]T(1,0)`: each row of the device array is a group."""

    group_count: int
    size: int
    devices: Iota

    def __str__(self) -> str:
        return f"[{self.group_count},{self.size}]{self.devices}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each group; one entry stands for all."""
        return (self.size,)

    @property
    def count(self) -> int:
        """How many numbers the groups hold together."""
        return self.group_count * self.size

    def lists(self) -> Lists:
        """Return the groups; HloError above 2^20 devices."""
        _check_count(self.count)
        return _rows(_iota_array(self.devices), self.size)


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """`'x'` or `'x':(2)4`: a mesh axis, or a sub-axis of `size` after parts of product `before`.

    `size` 0 is the whole axis.
    """

    name: str
    before: int = 0
    size: int = 0

    def __str__(self) -> str:
        return f"'{self.name}':({self.before}){self.size}" if self.size else f"'{self.name}'"


@dataclass(frozen=True, slots=True)
class DeviceMesh:
    """`mesh['x'=2,'y'=4], device_ids=(...)`: devices arranged as an array, row-major.

    `devices` None is 0, 1, 2 ...
    """

    axes: tuple[tuple[str, int], ...]
    devices: Iota | tuple[int, ...] | None = None

    def __str__(self) -> str:
        text = "mesh[" + ",".join(f"'{name}'={size}" for name, size in self.axes) + "]"
        if self.devices is None:
            return text
        if isinstance(self.devices, Iota):
            return f"{text}, device_ids=({str(self.devices).removeprefix('<=')})"
        return f"{text}, device_ids=({commas(self.devices)})"

    @property
    def count(self) -> int:
        return prod(size for _, size in self.axes)

    def device_array(self) -> Ids:
        """Return the devices in the shape of the mesh; HloError above 2^20, or if they do not fit.

        A device list contains each device from 0 on once.
        """
        _check_count(self.count)
        if isinstance(self.devices, Iota):
            flat = _iota_array(self.devices)
        else:
            flat = np.array(range(self.count) if self.devices is None else self.devices, np.int64)
        if sorted(flat.tolist()) != list(range(self.count)):
            raise HloError(f"{self} does not place each of its {self.count} devices once")
        return flat.reshape([size for _, size in self.axes])


@dataclass(frozen=True, slots=True)
class MeshGroups:
    """`mesh['x'=2,'y'=4] {'y'}`: devices that differ only in the named axes form a group.

    The first named axis is the major one in the order of a group.
    """

    mesh: DeviceMesh
    axes: tuple[MeshAxis, ...]

    def __str__(self) -> str:
        return f"{self.mesh} {{{','.join(map(str, self.axes))}}}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each group; one entry stands for all."""
        whole = dict(self.mesh.axes)
        return (prod(axis.size or whole[axis.name] for axis in self.axes),)

    @property
    def count(self) -> int:
        """How many numbers the groups hold together."""
        return self.mesh.count

    def lists(self) -> Lists:
        """Return the groups; HloError if axes overlap, or above 2^20 devices."""
        devices = self.mesh.device_array()
        named = {(axis.name, axis.before or 1): place for place, axis in enumerate(self.axes)}
        if len(named) != len(self.axes):
            raise HloError(f"{self} names an axis twice")
        dims: list[int] = []
        chosen: dict[int, int] = {}  # index among the axes -> dimension of the split array
        for name, size in self.mesh.axes:
            cuts = self._cuts(name, size)
            for low, high in pairwise(cuts):
                if (name, low) in named:
                    chosen[named[name, low]] = len(dims)
                dims.append(high // low)
        inner = [chosen[place] for place in range(len(self.axes))]
        outer = [dim for dim in range(len(dims)) if dim not in chosen.values()]
        return _rows(devices.reshape(dims).transpose(outer + inner), self.sizes[0])

    def _cuts(self, name: str, size: int) -> list[int]:
        """Return the boundaries of sub-axes as products of the parts before: `[1, 2, 8]`."""
        parts = sorted((a.before or 1, (a.before or 1) * (a.size or size)) for a in self._of(name))
        cuts = [1]
        for low, high in parts:
            if low < cuts[-1] or low % cuts[-1] or high % low:
                raise HloError(f"{self} names parts of axis '{name}' that overlap")
            cuts += [low, high]
        cuts.append(size)
        if any(high % low for low, high in pairwise(cuts)):
            raise HloError(f"{self} names a part that does not divide axis '{name}'")
        return [cut for cut, _ in groupby(cuts)] if size > 1 else [1, 1]

    def _of(self, name: str) -> list[MeshAxis]:
        return [axis for axis in self.axes if axis.name == name]


ReplicaGroups: TypeAlias = GroupLists | IotaGroups | MeshGroups

ALL = GroupLists()
"""`{}`: one group of all replicas, or of all partitions."""


def _iota_array(devices: Iota) -> Ids:
    return np.arange(devices.count).reshape(devices.reshape).transpose(devices.transpose).ravel()


def _rows(devices: Ids, size: int) -> Lists:
    return tuple(map(tuple, devices.reshape(-1, size).tolist()))


def _check_count(count: int) -> None:
    if count > MAX_DEVICES:
        raise HloError(f"the groups hold {count} devices, more than {MAX_DEVICES}")
