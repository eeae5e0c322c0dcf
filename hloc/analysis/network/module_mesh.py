"""The mesh of a module: named by Shardy or by replica groups, else inferred from the text.

A partitioned module has no axis names, but the strides of its groups and the tiles of its
shardings show where a row of devices ends: `{{0,1},{2,3}}` of 4 devices is a mesh of 2 by 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from math import prod

from hloc.ir.device_groups import device_groups, module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.replica_groups import DeviceMesh, GroupLists, IotaGroups, MeshGroups
from hloc.ir.sharding import Iota, LeafSharding, TupleSharding
from hloc.ir.traversal import all_instructions

_SHARDY = re.compile(r"#sdy\.mesh<\[([^\]]*)\](?:, device_ids=\[([\d, ]*)\])?>")
_AXIS = re.compile(r'\\?"([^"\\]+)\\?"\s*=\s*(\d+)')


def module_mesh(module: Module, devices: int = 0) -> DeviceMesh:
    """Return the mesh of all devices of `module`, with one axis if nothing more is known.

    Args:
        module: partitioned, or annotated.
        devices: their number; 0 takes that of the module.
    """
    total = devices or module_devices(module).total
    for mesh in _named(module):
        if mesh.count == total:
            return mesh
    cuts = _cuts(module, total)
    sizes = [high // low for low, high in pairwise(cuts)]
    return DeviceMesh(tuple((f"axis_{i}", size) for i, size in enumerate(reversed(sizes))))


def _named(module: Module) -> Iterator[DeviceMesh]:
    """Yield the meshes that the text names, Shardy's first."""
    for _, value in module.config.frontend_attributes:
        for found in _SHARDY.finditer(value):
            axes = tuple((name, int(size)) for name, size in _AXIS.findall(found[1]))
            ids = tuple(int(i) for i in found[2].split(",")) if found[2] else None
            yield DeviceMesh(axes, ids)
    for inst in all_instructions(module):
        groups = getattr(inst.attributes, "replica_groups", None)
        if isinstance(groups, MeshGroups):
            yield groups.mesh


def _cuts(module: Module, total: int) -> list[int]:
    """Return 1, ..., `total`, each a divisor of the next: how many devices each axis spans.

    Cuts that do not divide each other come from different meshes; then later ones are left out.
    """
    found = [1, total] if total > 1 else [1, 1]
    for cut in _written_cuts(module):
        if 1 < cut < total and all(cut % c == 0 or c % cut == 0 for c in found):
            found = sorted({*found, cut})
    return found


def _written_cuts(module: Module) -> Iterator[int]:
    for inst in all_instructions(module):
        sharding = inst.common.sharding
        if isinstance(sharding, TupleSharding):
            for element in sharding.elements:
                yield from _cuts_of_sharding(element)
        elif isinstance(sharding, LeafSharding):
            yield from _cuts_of_sharding(sharding)
        if inst.opcode.exchange is not None:
            yield from _cuts_of_groups(inst)


def _cuts_of_sharding(sharding: LeafSharding) -> Iterator[int]:
    if sharding.tiles is None or not isinstance(sharding.tiles.devices, Iota):
        return
    devices = sharding.tiles.devices
    yield from _suffixes(devices.reshape)
    if len(devices.reshape) == 1:
        yield from _suffixes(sharding.tiles.dims)


def _cuts_of_groups(inst: Instruction) -> Iterator[int]:
    groups = getattr(inst.attributes, "replica_groups", None)
    if isinstance(groups, IotaGroups):
        yield from _suffixes(groups.devices.reshape)
        if len(groups.devices.reshape) == 1:
            yield groups.size
    elif isinstance(groups, GroupLists):
        first = sorted(device_groups(inst)[0])
        strides = {b - a for a, b in pairwise(first)}
        if len(strides) == 1:
            (stride,) = strides
            yield stride
            yield stride * len(first)


def _suffixes(dims: tuple[int, ...]) -> Iterator[int]:
    """Yield the products of the last dimension, the last two, and so on."""
    for i in range(1, len(dims)):
        yield prod(dims[i:])
