"""Readable shardings: the mesh axes that shard each dimension, `[x, -]`."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np

from hloc.ir.replica_groups import DeviceMesh
from hloc.ir.sharding import MANUAL, REPLICATED, Iota, LeafSharding, Tiles, iota, normalized

Ids: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

WHOLE = "-"
"""The mark of a dimension that is not sharded."""


def tile_numbers(sharding: LeafSharding, devices: int) -> Ids | None:
    """Return `[devices, dimensions]`: which tile each device holds along each dimension.

    None for shardings that are not tiled over all `devices`. Replicas have equal rows.
    """
    tiles = sharding.tiles
    if tiles is None or MANUAL in sharding.subgroups:
        return None
    if isinstance(tiles.devices, Iota):
        flat = np.arange(tiles.devices.count).reshape(tiles.devices.reshape)
        order = flat.transpose(tiles.devices.transpose).ravel()
    else:
        order = np.array(tiles.devices)
    if len(order) != devices or int(np.prod(tiles.dims)) != devices:
        return None
    rank = len(tiles.dims) - len(sharding.subgroups)
    places = np.stack(np.unravel_index(np.arange(devices), tiles.dims), axis=1)[:, :rank]
    numbers = np.empty_like(places)
    numbers[order] = places
    return numbers


def axes_by_dimension(
    sharding: LeafSharding, mesh: DeviceMesh
) -> tuple[tuple[str, ...], ...] | None:
    """Return the axes that shard each dimension, major first; None if axes of `mesh` cannot say it.

    A dimension sharded along a part of an axis has the whole axis.
    """
    numbers = tile_numbers(sharding, mesh.count)
    if numbers is None:
        return None
    sizes = [size for _, size in mesh.axes]
    laid = numbers[mesh.device_array().ravel()].reshape(*sizes, -1)
    found = []
    for dim in range(laid.shape[-1]):
        steps = []
        for axis, size in enumerate(sizes):
            across = np.moveaxis(laid[..., dim], axis, 0)
            if size > 1 and np.any(across != across[:1]):
                steps.append((-int(np.abs(across[-1] - across[0]).max()), axis))
        found.append(tuple(mesh.axes[axis][0] for _, axis in sorted(steps)))
    return tuple(found)


def sharding_text(sharding: LeafSharding | None, mesh: DeviceMesh) -> str:
    """Return `[x, -]`, `replicated`, or the sharding as written if axes cannot express it."""
    if sharding is None:
        return "not given"
    if sharding.tiles is None:
        return sharding.kind if sharding.kind != "maximal" else f"on device {sharding.device}"
    axes = axes_by_dimension(sharding, mesh)
    if axes is None:
        return sharding.text(metadata=False)
    return axes_text(axes)


def axes_text(axes: tuple[tuple[str, ...], ...]) -> str:
    """Return `[x, -]` for `(("x",), ())`, and `replicated` if no dimension is sharded."""
    if not any(axes):
        return "replicated"
    return "[" + ", ".join("*".join(names) or WHOLE for names in axes) + "]"


def tiled_by_axes(split: tuple[tuple[str, ...], ...], mesh: DeviceMesh) -> LeafSharding:
    """Return the sharding of dimensions along the named axes of `mesh`, major first."""
    sizes = [size for _, size in mesh.axes]
    number = {name: axis for axis, (name, _) in enumerate(mesh.axes)}
    named = [number[name] for names in split for name in names]
    rest = [axis for axis in range(len(sizes)) if axis not in named]
    copies = prod(sizes[axis] for axis in rest)
    dims = tuple(prod(sizes[number[name]] for name in names) for names in split)
    if copies > 1:
        dims = (*dims, copies)
    if mesh.devices is None:
        devices: Iota | tuple[int, ...] = iota(tuple(sizes), (*named, *rest))
    else:
        devices = tuple(mesh.device_array().transpose((*named, *rest)).ravel().tolist())
    kinds = (REPLICATED,) if copies > 1 else ()
    return normalized(LeafSharding("tiled", Tiles(dims, devices), kinds))
