"""Splits whole arrays into the shards of devices, and joins shards into whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.errors import HloError
from hloc.ir.sharded_signature import ShardedArray, ShardedSignature
from hloc.shapes import ArrayShape

Array: TypeAlias = "np.ndarray[Any, Any]"
Parts: TypeAlias = list[Array]


def cut(whole: Array, leaf: ShardedArray, devices: int) -> Parts:
    """Return the part of `whole` for each device; tiles beyond the array are padded with zeros.

    A leaf without a placement is replicated.

    Raises:
        HloError: the array does not have the shape of the whole array.
    """
    _check(whole, leaf.whole)
    placement = leaf.placement
    if placement is None:
        return [whole] * devices
    tiles: dict[tuple[int, ...], Array] = {}
    for partition, place in enumerate(placement.places):
        if place not in tiles:
            tiles[place] = _tile(whole, leaf, partition)
    return [tiles[placement.places[device % len(placement.places)]] for device in range(devices)]


def join(parts: Sequence[Array], leaf: ShardedArray) -> Array | None:
    """Return the whole array of its parts; None if they are not parts of one.

    Of replicated tiles, that of the first device is used.
    """
    placement = leaf.placement
    if placement is None:
        return None
    if set(placement.tiles) <= {1} and placement.part(leaf.whole.dims, 0) is not None:
        return parts[0]
    whole = np.zeros(leaf.whole.dims, leaf.whole.dtype.numpy)
    for partition in reversed(range(len(placement.places))):
        where = placement.part(leaf.whole.dims, partition)
        if where is not None:
            whole[where] = parts[partition][tuple(slice(s.stop - s.start) for s in where)]
    return whole


def cut_all(arrays: Sequence[Array], signature: ShardedSignature) -> list[Parts]:
    """Return `parts[i][device]` of whole arguments."""
    if len(arrays) != len(signature.parameters):
        raise HloError(
            f"the program takes {len(signature.parameters)} arrays, but {len(arrays)} were given"
        )
    pairs = zip(arrays, signature.parameters, strict=True)
    return [cut(array, leaf, signature.devices.total) for array, leaf in pairs]


def join_all(results: Sequence[Sequence[Array]], signature: ShardedSignature) -> list[Array | None]:
    """Return the whole result of each leaf, None if its parts do not form one."""
    return [join(parts, leaf) for parts, leaf in zip(results, signature.results, strict=True)]


def _tile(whole: Array, leaf: ShardedArray, partition: int) -> Array:
    placement = leaf.placement
    assert placement is not None
    where = placement.part(leaf.whole.dims, partition)
    part = whole[where] if where is not None else whole[(slice(0, 0),) * whole.ndim]
    if part.shape == leaf.local.dims:
        return part if part.flags.c_contiguous else part.copy()
    padded = np.zeros(leaf.local.dims, whole.dtype)
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
    signature: ShardedSignature | None,
    devices: int,
) -> list[Array]:
    """Run a program of several devices on whole arrays.

    Raises:
        HloError: the program has no sharding for a result.
    """
    placements = [None] if signature is None else [leaf.placement for leaf in signature.results]
    if signature is None or None in placements:
        raise HloError(
            f"the module runs on {devices} devices, and does not say how their parts of result "
            f"{placements.index(None)} make a whole array",
            notes=("`run_devices(args)` takes and gives one array per leaf and device",),
        )
    results = run_devices(cut_all(arrays, signature))
    return [array for array in join_all(results, signature) if array is not None]
