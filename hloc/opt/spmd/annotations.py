"""Sharding annotations in the text: GSPMD's attributes and custom calls, and Shardy's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from hloc.errors import HloError
from hloc.ir.axis_sharding import AxisSharding
from hloc.ir.axis_sharding_text import manual_axes, meshes_of, named_sharding, shardy_shardings
from hloc.ir.device_groups import module_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.replica_groups import MAX_DEVICES, DeviceMesh, MeshAxis
from hloc.ir.sharding import REPLICATED, Iota, LeafSharding, Tiles, TupleSharding, iota, normalized
from hloc.ir.traversal import all_instructions
from hloc.shapes import leaves

TO_LOCAL = ("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape")
TO_GLOBAL = ("SPMDShardToFullShape", "xla.sdy.LocalToGlobalShape")
CONSTRAINTS = ("Sharding", "xla.sdy.FuncResultSharding", "xla.sdy.ShardingConstraint")
IDENTITIES = ("xla.sdy.PropagationBarrier", "xla.sdy.ShardingGroup")

SHARDY = _IN, _OUT, _ = "xla.sdy.in_shardings", "xla.sdy.out_shardings", "xla.sdy.sharding"
"""Frontend attributes with the shardings of an instruction."""

_MANUAL = "xla.sdy.manual_axes"


def target_of(inst: Instruction) -> str:
    """Return the target of a custom call, "" for other instructions."""
    return str(inst.attributes.custom_call_target) if inst.is_a("custom-call") else ""


def shardings_of(inst: Instruction) -> Sequence[LeafSharding | None]:
    """Return the sharding of each array of the result; None if it has no annotation.

    For a custom call into a manual region, those of its operands; out of one, of its results.
    """
    meshes, text = meshes_of(inst.computation.module), shardy_text(inst)
    count = sum(1 for _ in leaves(inst.shape))
    if text is not None:
        found = [leaf_sharding(s, meshes) for s in shardy_shardings(text, meshes)]
        return found if len(found) == count else [found[0]] * count
    sharding = inst.common.sharding
    if sharding is None:
        return [None] * count
    elements = sharding.for_leaves(count).elements
    return list(map(unnamed, elements)) if len(elements) == count else [None] * count


def shardy_text(inst: Instruction) -> str | None:
    """Return Shardy's annotation of the arrays of `inst`, None if there is none.

    Compilers copy attributes to new instructions of other shapes, so the sharding is used on
    parameters and custom calls only, as in XLA.
    """
    attributes = dict(inst.common.frontend_attributes)
    keys = SHARDY if inst.is_a("parameter", "custom-call") else (_IN, _OUT)
    return next((attributes[key] for key in keys if key in attributes), None)


def manual_sharding(inst: Instruction) -> LeafSharding | None:
    """Return a sharding of one dimension along the axes of Shardy's manual region."""
    attributes = dict(inst.common.frontend_attributes)
    key = next((key for key in (_IN, _OUT) if key in attributes), None)
    if _MANUAL not in attributes or key is None:
        return None
    edges = shardy_shardings(attributes[key], meshes_of(inst.computation.module))
    axes = tuple(MeshAxis(name) for name in manual_axes(attributes[_MANUAL]))
    known = edges and {name for name, _ in edges[0].mesh.axes}.issuperset(a.name for a in axes)
    return leaf_sharding(AxisSharding(edges[0].mesh, (axes,)), {}) if known else None


def unnamed(sharding: LeafSharding) -> LeafSharding:
    """Convert a sharding by named axes to tiles; others, and unreduced ones, are unchanged."""
    if sharding.kind != "named":
        return sharding
    axes = named_sharding(sharding.name)
    is_plain = not (axes.manual or axes.unreduced)
    return replace(leaf_sharding(axes, {}), metadata=sharding.metadata) if is_plain else sharding


def leaf_sharding(sharding: AxisSharding, _meshes: Mapping[str, DeviceMesh]) -> LeafSharding:
    """Return a sharding by mesh axes as HLO writes it."""
    mesh = sharding.mesh
    if not mesh.axes:
        if isinstance(mesh.devices, tuple):
            return LeafSharding("maximal", device=mesh.devices[0])
        return LeafSharding(REPLICATED)
    sizes, places = _parts(sharding)
    order = [places[part] for axes in sharding.dims for part in _split(axes, mesh, places)]
    tiles = [prod(sizes[places[p]] for p in _split(a, mesh, places)) for a in sharding.dims]
    rest = [place for place in range(len(sizes)) if place not in order]
    copies = prod(sizes[place] for place in rest)
    dims = (*tiles, copies) if copies > 1 else tuple(tiles)
    if mesh.devices is None:
        devices: Iota | tuple[int, ...] = iota(tuple(sizes), (*order, *rest))
    else:
        array = mesh.device_array().reshape(sizes).transpose((*order, *rest))
        devices = tuple(array.ravel().tolist())
    kinds = (REPLICATED,) if copies > 1 else ()
    return normalized(LeafSharding("tiled", Tiles(dims, devices), kinds))


_Part = tuple[str, int, int]
"""A part of an axis: its name, the product of the parts before it, its size."""


def _parts(sharding: AxisSharding) -> tuple[list[int], dict[_Part, int]]:
    """Split the mesh axes at the sub-axes of the sharding; return sizes, and index by part."""
    named = [axis for axes in sharding.dims for axis in axes]
    sizes: list[int] = []
    places: dict[_Part, int] = {}
    for name, size in sharding.mesh.axes:
        cuts = {1, size}
        for axis in named:
            if axis.name == name and axis.size:
                cuts |= {axis.before, axis.before * axis.size}
        ordered = sorted(cuts)
        for low, high in pairwise(ordered):
            places[name, low, high // low] = len(sizes)
            sizes.append(high // low)
    return sizes, places


def _split(
    axes: Sequence[MeshAxis], mesh: DeviceMesh, places: Mapping[_Part, int]
) -> Iterator[_Part]:
    whole = dict(mesh.axes)
    for axis in axes:
        first = axis.before or 1
        last = first * (axis.size or whole[axis.name])
        for part in places:
            if part[0] == axis.name and part[1] >= first and part[1] * part[2] <= last:
                yield part


def partitions_of(module: Module) -> int:
    """Return the number of partitions that annotations imply; many headers say 1.

    Raises:
        HloError: a sharding has more devices than the header, or too many.
    """
    header, count = module_devices(module).partitions, 1
    for mesh in meshes_of(module).values():
        count = max(count, mesh.count)
    for sharding in all_shardings(module):
        if sharding.tiles is not None:
            count = max(count, prod(sharding.tiles.dims))
    if 1 < header < count:
        raise HloError(f"a sharding is over {count} devices, but the module has {header}")
    if max(header, count) > MAX_DEVICES:
        raise HloError(f"the module is for {max(header, count)} devices, more than {MAX_DEVICES}")
    return max(header, count)


def all_shardings(module: Module) -> Iterator[LeafSharding]:
    """Yield every sharding of the module."""
    for inst in all_instructions(module):
        common = inst.common
        if isinstance(common.sharding, TupleSharding):
            yield from map(unnamed, common.sharding.elements)
        elif common.sharding is not None:
            yield unnamed(common.sharding)
        if any(key.startswith("xla.sdy.") for key, _ in common.frontend_attributes):
            yield from (s for s in shardings_of(inst) if s is not None)
            if (along := manual_sharding(inst)) is not None:
                yield along
