"""Splits whole arrays into the shards of devices, and joins shards, by the edges of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.errors import HloError
from hloc.ir.edges import Edge, Edges
from hloc.shapes import ArrayShape

Array: TypeAlias = "np.ndarray[Any, Any]"
Parts: TypeAlias = list[Array]


def cut(whole: Array, edge: Edge, devices: int) -> Parts:
    """Return the part of `whole` for each device; tiles beyond the array are padded with zeros.

    A leaf without a placement is replicated.

    Raises:
        HloError: the array does not have the shape of the edge.
    """
    _check(whole, edge.whole)
    placement = edge.placement
    if placement is None:
        return [whole] * devices
    tiles: dict[tuple[int, ...], Array] = {}
    for partition, place in enumerate(placement.places):
        if place not in tiles:
            tiles[place] = _tile(whole, edge, partition)
    return [tiles[placement.places[device % len(placement.places)]] for device in range(devices)]


def join(parts: Sequence[Array], edge: Edge) -> Array | None:
    """Return the whole array of its parts; None if they are not parts of one.

    Of replicated tiles, that of the first device is used.
    """
    placement = edge.placement
    if placement is None:
        return None
    if set(placement.tiles) <= {1} and placement.part(edge.whole.dims, 0) is not None:
        return parts[0]
    whole = np.zeros(edge.whole.dims, edge.whole.dtype.numpy)
    for partition in reversed(range(len(placement.places))):
        where = placement.part(edge.whole.dims, partition)
        if where is not None:
            whole[where] = parts[partition][tuple(slice(s.stop - s.start) for s in where)]
    return whole


def cut_all(arrays: Sequence[Array], edges: Edges) -> list[Parts]:
    """Return `parts[i][device]` of whole arguments."""
    if len(arrays) != len(edges.parameters):
        raise HloError(
            f"the program takes {len(edges.parameters)} arrays, but {len(arrays)} were given"
        )
    pairs = zip(arrays, edges.parameters, strict=True)
    return [cut(array, edge, edges.devices.total) for array, edge in pairs]


def join_all(results: Sequence[Sequence[Array]], edges: Edges) -> list[Array | None]:
    """Return the whole result of each leaf, None if its parts do not form one."""
    return [join(parts, edge) for parts, edge in zip(results, edges.results, strict=True)]


def _tile(whole: Array, edge: Edge, partition: int) -> Array:
    placement = edge.placement
    assert placement is not None
    where = placement.part(edge.whole.dims, partition)
    part = whole[where] if where is not None else whole[(slice(0, 0),) * whole.ndim]
    if part.shape == edge.local.dims:
        return part if part.flags.c_contiguous else part.copy()
    padded = np.zeros(edge.local.dims, whole.dtype)
    padded[tuple(map(slice, part.shape))] = part
    return padded


def _check(array: Array, shape: ArrayShape) -> None:
    if array.shape != shape.dims or array.dtype != shape.dtype.numpy:
        dims = ",".join(map(str, array.shape))
        wanted = shape.text_without_layout
        raise HloError(f"the whole argument is {wanted}, but {array.dtype}[{dims}] was given")


def call_whole(
    run_devices: Callable[[list[Parts]], Sequence[Parts]],
    arrays: Sequence[Array],
    edges: Edges | None,
    devices: int,
) -> list[Array]:
    """Run a program of several devices on whole arrays.

    Raises:
        HloError: the program has no sharding for a result.
    """
    placements = [None] if edges is None else [edge.placement for edge in edges.results]
    if edges is None or None in placements:
        raise HloError(
            f"the module runs on {devices} devices, and does not say how their parts of result "
            f"{placements.index(None)} make a whole array",
            notes=("`run_devices(args)` takes and gives one array per leaf and device",),
        )
    results = run_devices(cut_all(arrays, edges))
    return [array for array in join_all(results, edges) if array is not None]
