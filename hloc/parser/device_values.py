"""Shardings and meshes from their parsed parts, with XLA's checks (some of which abort XLA)."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from hloc.ir.attributes import RawText
from hloc.ir.replica_groups import (
    DeviceMesh,
    GroupLists,
    IotaGroups,
    MeshAxis,
    MeshGroups,
    ReplicaGroups,
)
from hloc.ir.sharding import Iota, LeafSharding, Sharding, Tiles, TupleSharding, normalized
from hloc.ir.sharding import iota as make_iota
from hloc.parser.strings import unquote
from hloc.parser.value_tools import (
    BadValue,
    commas,
    constant,
    int_of,
    of_all,
    of_first,
    once,
    tagged,
)


def _checked_axis(mesh: DeviceMesh, axis: MeshAxis) -> MeshAxis:
    """Return `axis`; `BadValue` for an axis or part of one that does not exist."""
    whole = dict(mesh.axes)
    if axis.name not in whole:
        raise BadValue(f"the mesh has no axis '{axis.name}'")
    size = whole[axis.name]
    if axis.size and (axis.size >= size or axis.before < 1 or size % (axis.before * axis.size)):
        raise BadValue(f"axis '{axis.name}' of size {size} has no part ({axis.before}){axis.size}")
    return axis


def leaf_sharding(items: list[tuple[str, Any]]) -> LeafSharding:
    """Return the sharding that the items between the braces describe."""
    fields = dict(items)
    kind = fields.get("kind", "tiled" if "tiles" in fields else "")
    kind, _, reduction = kind.partition("=")
    if not kind or (kind != "tiled" and "tiles" in fields):
        raise BadValue(
            "a sharding is replicated, manual, maximal, unknown, unreduced or devices=..."
        )
    if (kind == "maximal") != ("device" in fields):
        raise BadValue("a maximal sharding, and no other, has device=")
    tiles = fields.get("tiles")
    subgroups = fields.get("subgroups", ())
    if tiles is not None:
        _check_tiles(tiles, subgroups)
    elif subgroups:
        raise BadValue("last_tile_dims belongs to devices=")
    return normalized(
        LeafSharding(
            kind, tiles, subgroups, fields.get("device", -1), "", fields.get("group", ""),
            fields.get("metadata", ()), reduction,
        )
    )  # fmt: skip


def _check_tiles(tiles: Any, subgroups: tuple[str, ...]) -> None:
    if any(size < 1 for size in tiles.dims):
        raise BadValue("the device array has a dimension below 1")
    for kind in subgroups:
        if kind not in ("manual", "replicated", "unreduced"):
            raise BadValue(f"last_tile_dims are manual, replicated or unreduced, not {kind}")
    if len(subgroups) > len(tiles.dims):
        raise BadValue("last_tile_dims has more entries than the device array dimensions")
    if isinstance(tiles.devices, Iota):
        return
    if len(tiles.devices) < 2:
        raise BadValue("devices= needs more than one device")
    if len(tiles.devices) != prod(tiles.dims):
        raise BadValue(f"{len(tiles.devices)} devices do not fill an array of {prod(tiles.dims)}")


def named_sharding(mesh: DeviceMesh, fields: dict[str, Any]) -> LeafSharding:
    """Return `{mesh[...], [{'x'}, {}]}`."""
    parts = [str(replace(mesh, devices=fields.get("device_ids")))]
    if "kind" in fields:
        parts.append(fields["kind"])
    if "dims" in fields:
        dims = ", ".join(
            "{" + ", ".join("?" if a is None else str(_checked_axis(mesh, a)) for a in axes) + "}"
            for axes in fields["dims"]
        )
        parts.append(f"[{dims}]")
    reduction, unreduced = fields.get("unreduced", ("", ()))
    for name, prefix, found in (
        ("replicated", "", fields.get("replicated", ())),
        ("unreduced", reduction, unreduced),
        ("manual", "", fields.get("manual", ())),
    ):
        if found:
            axes = ", ".join(str(_checked_axis(mesh, axis)) for axis in found)
            parts.append(f"{name}={prefix}{{{axes}}}")
    return LeafSharding("named", name=", ".join(parts), metadata=fields.get("metadata", ()))


def _iota(reshape: tuple[int, ...], permutation: list[tuple[int, ...]], count: int) -> Iota:
    if any(size <= 0 for size in reshape) or prod(reshape) != count:
        raise BadValue(f"the iota list has {prod(reshape)} devices, but {count} are wanted")
    if len(reshape) > 1 and not permutation:
        raise BadValue("an iota list of more than one dimension needs T(...) behind it")
    if len(reshape) == 1 and permutation:
        raise BadValue("an iota list of one dimension has no T(...)")
    transpose = permutation[0] if permutation else (0,)
    if sorted(transpose) != list(range(len(reshape))):
        raise BadValue(f"T({commas(transpose)}) is not a permutation of {len(reshape)} dimensions")
    return make_iota(reshape, transpose)


class DeviceCallbacks:
    """Replica groups, meshes, shardings, domains."""

    permutation = of_first()

    def iota(self, children: list[Any]) -> Tiles:
        dims, reshape, *permutation = children
        return Tiles(dims, _iota(reshape, permutation, prod(dims)))

    def replica_groups(self, children: list[Any]) -> ReplicaGroups:
        (groups,) = children
        if isinstance(groups, Tiles):
            if len(groups.dims) != 2:
                raise BadValue(
                    "replica_groups in iota form have two dimensions, groups and members"
                )
            assert isinstance(groups.devices, Iota)
            return IotaGroups(*groups.dims, groups.devices)
        return GroupLists(tuple(map(tuple, groups)))

    def axis_size(self, children: list[Any]) -> tuple[str, int]:
        return unquote(children[0]), int_of(children[1])

    def device_iota(self, children: list[Any]) -> Iota:
        reshape, *permutation = children
        return _iota(reshape, permutation, prod(reshape))

    mesh = of_all(DeviceMesh)
    device_order = tagged("device_ids", of_first())

    def axis(self, children: list[Any]) -> MeshAxis:
        name, *part = children
        return MeshAxis(unquote(name), *map(int_of, part))

    open_axis = constant(None)
    axes = of_all()

    def mesh_groups(self, children: list[Any]) -> MeshGroups:
        mesh, *order, axes = children
        for _, devices in order:
            mesh = replace(mesh, devices=devices)
        if None in axes:
            raise BadValue("replica_groups along a mesh name their axes, without '?'")
        return MeshGroups(mesh, tuple(_checked_axis(mesh, axis) for axis in axes))

    replicated = constant(("kind", "replicated"))
    manual = constant(("kind", "manual"))
    unknown = constant(("kind", "unknown"))
    # "" is the sum, which XLA leaves out.
    sum = constant("")
    max = constant("max")
    min = constant("min")

    def unreduced(self, children: list[Any]) -> tuple[str, str]:
        return "kind", f"unreduced={children[0]}" if any(children) else "unreduced"

    maximal = constant(("kind", "maximal"))
    maximal_device = tagged("device", of_first(int_of))
    explicit_devices = tagged("tiles", lambda _self, children: Tiles(*children))
    iota_devices = tagged("tiles", of_first())
    last_tile_dim_replicate = constant(("subgroups", ("replicated",)))
    last_tile_dims = tagged("subgroups", of_first())
    shard_as = tagged("group", of_first("shard_as {}".format))
    shard_like = tagged("group", of_first("shard_like {}".format))
    sharding_metadata = of_all()
    item_metadata = tagged("metadata", of_first())

    def one_sharding(self, children: list[Any]) -> Sharding:
        return leaf_sharding(once(children)) if children else TupleSharding(())

    def tuple_sharding(self, children: list[Any]) -> TupleSharding:
        if any(isinstance(child, TupleSharding) for child in children):
            raise BadValue("a tuple sharding has one flat list of shardings, one per leaf")
        return TupleSharding(tuple(children))

    def maximal_mesh(self, children: list[Any]) -> LeafSharding:
        return LeafSharding("named", name=f"maximal_mesh[device_id={int_of(children[0])}]")

    dim_axes = tagged("dims", of_all())
    replicated_axes = tagged("replicated", of_first())

    def unreduced_axes(self, children: list[Any]) -> tuple[str, Any]:
        *reduction, axes = children
        return "unreduced", (reduction[0] if reduction else "", axes)

    manual_axes = tagged("manual", of_first())

    def named_sharding(self, children: list[Any]) -> LeafSharding:
        mesh, *tail = children
        return named_sharding(mesh, dict(once(tail)))

    def domain_kind(self, children: list[Any]) -> tuple[str, Any]:
        if unquote(children[0]) != "sharding":
            raise BadValue(f'a domain is of kind "sharding", not {children[0]}')
        return "kind", None

    domain_entry = tagged("entry", of_first())
    domain_exit = tagged("exit", of_first())

    def domain(self, children: list[Any]) -> RawText:
        fields = dict(once(children))
        if len(fields) != 3:
            raise BadValue("a domain has kind, entry and exit")
        return RawText(f'{{kind="sharding", entry={fields["entry"]}, exit={fields["exit"]}}}')
