"""Verify replica groups and shardings: devices named once, no empty groups."""

from __future__ import annotations

import re
from math import prod

from hloc.ir.sharding import Iota, LeafSharding, Sharding, TupleSharding
from hloc.shapes import ArrayShape, BufferShape, Shape, leaves

_IOTA_GROUPS = re.compile(r"\[(-?\d+),(-?\d+)\]<=\[([\d,]+)\]")
_GROUP = re.compile(r"\{([-\d,]*)\}")


def replica_groups_fault(text: str) -> str:
    """Return what is wrong with the printed `replica_groups`, "" if nothing is.

    `{}` is one group of all. The mesh form is checked by the parser.
    """
    if text == "{}" or text.startswith("mesh"):
        return ""
    found = _IOTA_GROUPS.match(text)
    if found:
        groups, members = int(found[1]), int(found[2])
        if groups < 1 or members < 1:
            return f"replica_groups {text} has no group, or an empty one"
        if groups * members != prod(int(size) for size in found[3].split(",")):
            return f"replica_groups {text} does not place each device once"
        return ""
    lists = _GROUP.findall(text[1:-1])
    if not all(lists):
        return f"replica_groups {text} has an empty group"
    ids = [int(number) for group in lists for number in group.split(",")]
    if len(set(ids)) != len(ids):
        return f"replica_groups {text} names a device twice"
    if min(ids) < 0:
        return f"replica_groups {text} has a negative device"
    return ""


def sharding_fault(sharding: Sharding, shape: Shape) -> str:
    """Return what is wrong with `sharding` on an instruction of `shape`, "" if nothing is."""
    parts = list(leaves(shape))
    if isinstance(sharding, LeafSharding):
        return _leaf_fault(sharding, parts[0][1] if len(parts) == 1 else None)
    assert isinstance(sharding, TupleSharding)
    if not parts and len(sharding.elements) == 1:
        return ""  # an empty tuple counts as a leaf: JAX writes {{maximal device=0}} on `()`
    if len(sharding.elements) != len(parts):
        return f"sharding has {len(sharding.elements)} elements, but the shape {len(parts)} leaves"
    for element, (_, leaf) in zip(sharding.elements, parts, strict=True):
        message = _leaf_fault(element, leaf)
        if message:
            return message
    return ""


def _leaf_fault(sharding: LeafSharding, leaf: ArrayShape | BufferShape | None) -> str:
    if sharding.kind == "maximal" and sharding.device < 0:
        return f"sharding {sharding} has a negative device"
    tiles = sharding.tiles
    if tiles is None:
        return ""
    array = leaf.array if isinstance(leaf, BufferShape) else leaf
    rank = len(tiles.dims) - len(sharding.subgroups)
    if array is not None and not array.dtype.is_special and rank != array.rank:
        return (
            f"sharding {sharding} splits {rank} dimensions, but {array.text_without_layout} has "
            f"{array.rank}"
        )
    if isinstance(tiles.devices, Iota):
        if tiles.devices.count != prod(tiles.dims):
            return f"sharding {sharding} does not place each device once"
        return ""
    if len(set(tiles.devices)) != len(tiles.devices):
        return f"sharding {sharding} names a device twice"
    if min(tiles.devices) < 0:
        return f"sharding {sharding} has a negative device"
    return ""
