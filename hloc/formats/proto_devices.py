"""Shardings, replica groups and meshes: messages to the text of the grammar, and back.

The grammar normalises and checks the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from typing import Any

from hloc.formats.faults import BadMessage, bytes_of, name_of, number_of, text_of
from hloc.formats.proto_metadata import fill_metadata, metadata_of
from hloc.ir.attribute_fields import metadata_text
from hloc.ir.attributes import Metadata
from hloc.ir.axis_sharding import Axes
from hloc.ir.axis_sharding_text import named_sharding
from hloc.ir.replica_groups import DeviceMesh, IotaGroups, MeshGroups, ReplicaGroups
from hloc.ir.sharding import Iota, LeafSharding, Sharding, TupleSharding, commas

MAX_DEVICES = 1 << 20

_REDUCTION_TYPE = "sdy::reduction_op"
"""Type of the metadata with the reduction of an unreduced array without a mesh."""

# ---------------------------------------------------------------- shardings: message to text


def sharding_text(proto: Any, payloads: tuple[bytes, ...]) -> str:
    """Return the text of an `OpSharding`; raises `BadMessage` if it is invalid."""
    if proto.HasField("named_sharding"):
        return _named_text(proto.named_sharding, payloads)
    kind = name_of("sharding", proto.type)
    if kind == "tuple":
        parts = [sharding_text(part, payloads) for part in proto.tuple_shardings]
        return "{" + ", ".join(parts) + "}"
    if kind == "maximal":
        if len(proto.tile_assignment_devices) != 1:
            raise BadMessage("a maximal sharding names one device")
        words = [f"maximal device={proto.tile_assignment_devices[0]}"]
    else:
        words = _tile_words(proto) if kind == "tiled" else [kind]
    if proto.is_shard_group:
        words.append(f"{name_of('shard_group', proto.shard_group_type)} {proto.shard_group_id}")
    metadata = [metadata_of(m, payloads) for m in proto.metadata]
    if kind == "unreduced" and metadata and metadata[-1].op_type == _REDUCTION_TYPE:
        reduction = metadata.pop().op_name.lower()
        words[0] += f"={reduction}" if reduction in ("max", "min") else ""
    found = [_metadata_text(each) for each in metadata]
    if found:
        words.append("metadata=" + (found[0] if len(found) == 1 else f"{{{', '.join(found)}}}"))
    return "{" + " ".join(words) + "}"


def _tile_words(proto: Any) -> list[str]:
    dims = tuple(proto.tile_assignment_dimensions)
    text = f"devices=[{commas(dims)}]"
    if proto.iota_reshape_dims:
        text += iota_text(proto.iota_reshape_dims, proto.iota_transpose_perm)
    else:
        text += commas(proto.tile_assignment_devices)
    words = [text]
    if proto.last_tile_dims:
        kinds = [name_of("sharding", kind) for kind in proto.last_tile_dims]
        words.append(f"last_tile_dims={{{', '.join(kinds)}}}")
    elif proto.replicate_on_last_tile_dim:
        words.append("last_tile_dim_replicate")
    return words


def iota_text(reshape: Iterable[int], transpose: Iterable[int]) -> str:
    """Return `<=[2,2]T(1,0)`; raises `BadMessage` above 2^20 devices."""
    dims = tuple(reshape)
    if len(dims) > 64 or any(dim < 1 for dim in dims) or prod(dims) > MAX_DEVICES:
        raise BadMessage("an iota list has dimensions above 0 and at most 2^20 devices")
    text = f"<=[{commas(dims)}]"
    return text if len(dims) == 1 else f"{text}T({commas(transpose)})"


def _metadata_text(metadata: Metadata) -> str:
    return "{" + metadata_text(metadata, metadata.stack_frame_id) + "}"


def _named_text(proto: Any, payloads: tuple[bytes, ...]) -> str:
    """Return the text of a sharding by named axes of a mesh.

    A sharding that treats all axes alike has no dimensions in the message, and a word in the text.
    """
    mesh = proto.mesh
    if not mesh.axes:
        if len(mesh.device_ids) == 1:
            return f"{{maximal_mesh[device_id={mesh.device_ids[0]}]}}"
        raise BadMessage("a mesh without axes names one device")
    parts = [mesh_text(mesh)]
    lists = {
        "replicated": proto.replicated_axes,
        "unreduced": proto.unreduced_axes,
        "manual": proto.manual_axes,
    }
    reduction = name_of("reduction", proto.reduction_op)
    everywhere = [kind for kind, axes in lists.items() if _are_all_axes(axes, mesh)]
    if not proto.dim_shardings and not any(lists.values()):
        parts.append("replicated")
    elif not proto.dim_shardings and everywhere:
        by = f"={reduction}" if everywhere[0] == "unreduced" and reduction else ""
        parts.append(everywhere[0] + by)
    else:
        dims = []
        for dim in proto.dim_shardings:
            axes = [_axis_text(axis, mesh) for axis in dim.axes]
            dims.append("{" + ", ".join(axes if dim.is_closed else [*axes, "?"]) + "}")
        parts.append(f"[{', '.join(dims)}]")
        for kind, axes in lists.items():
            if axes:
                by = reduction if kind == "unreduced" else ""
                shown = ", ".join(_axis_text(axis, mesh) for axis in axes)
                parts.append(f"{kind}={by}{{{shown}}}")
    found = [_metadata_text(metadata_of(m, payloads)) for m in proto.metadata]
    if found:
        parts.append(f"metadata={{{', '.join(found)}}}")
    return "{" + ", ".join(parts) + "}"


def _are_all_axes(axes: Any, mesh: Any) -> bool:
    return [axis.mesh_axis_index for axis in axes] == list(range(len(mesh.axes))) and not any(
        axis.HasField("sub_axis_info") for axis in axes
    )


def mesh_text(mesh: Any) -> str:
    """Return `mesh['x'=2,'y'=4], device_ids=(...)`."""
    axes = ",".join(f"{_name(axis.name)}={axis.size}" for axis in mesh.axes)
    text = f"mesh[{axes}]"
    if mesh.HasField("iota_transform"):
        iota = iota_text(mesh.iota_transform.reshape_dims, mesh.iota_transform.transpose_perm)
        text += f", device_ids=({iota.removeprefix('<=')})"
    elif mesh.device_ids:
        text += f", device_ids=({commas(mesh.device_ids)})"
    return text


def _axis_text(axis: Any, mesh: Any) -> str:
    if not 0 <= axis.mesh_axis_index < len(mesh.axes):
        raise BadMessage(f"the mesh has no axis number {axis.mesh_axis_index}")
    name = _name(mesh.axes[axis.mesh_axis_index].name)
    if not axis.HasField("sub_axis_info"):
        return name
    return f"{name}:({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}"


def _name(data: bytes) -> str:
    name = text_of(data)
    if not re.fullmatch(r"[^'\"\\\x00-\x1f\ud800-\udfff]+", name):
        raise BadMessage(f"a mesh axis cannot be called {name!r}")
    return f"'{name}'"


# ---------------------------------------------------------------- shardings: value to message


def fill_sharding(proto: Any, sharding: Sharding) -> None:
    """Fill an empty `OpSharding` with `sharding`."""
    if isinstance(sharding, TupleSharding):
        proto.type = number_of("sharding", "tuple")
        for element in sharding.elements:
            fill_sharding(proto.tuple_shardings.add(), element)
        return
    if sharding.kind == "named":
        _fill_named(proto.named_sharding, sharding)
        return
    proto.type = number_of("sharding", sharding.kind)
    if sharding.kind == "maximal":
        proto.tile_assignment_devices.append(sharding.device)
    if sharding.tiles is not None:
        proto.tile_assignment_dimensions.extend(sharding.tiles.dims)
        if isinstance(sharding.tiles.devices, Iota):
            proto.iota_reshape_dims.extend(sharding.tiles.devices.reshape)
            proto.iota_transpose_perm.extend(sharding.tiles.devices.transpose)
        else:
            proto.tile_assignment_devices.extend(sharding.tiles.devices)
    if sharding.subgroups == ("replicated",):
        proto.replicate_on_last_tile_dim = True
    else:
        proto.last_tile_dims.extend(number_of("sharding", kind) for kind in sharding.subgroups)
    if sharding.group:
        kind, number = sharding.group.split()
        proto.is_shard_group = True
        proto.shard_group_type = number_of("shard_group", kind)
        proto.shard_group_id = int(number)
    for metadata in sharding.metadata:
        fill_metadata(proto.metadata.add(), metadata)
    if sharding.reduction:
        fill_metadata(
            proto.metadata.add(),
            Metadata(op_type=_REDUCTION_TYPE, op_name=sharding.reduction.upper()),
        )


def _fill_named(proto: Any, sharding: LeafSharding) -> None:
    for metadata in sharding.metadata:
        fill_metadata(proto.metadata.add(), metadata)
    found = named_sharding(sharding.name)
    _fill_mesh(proto.mesh, found.mesh)
    places = _places(found.mesh)
    for dim, axes in enumerate(found.dims):
        entry = proto.dim_shardings.add(is_closed=dim not in found.open_dims)
        _fill_axes(entry.axes, axes, places)
    _fill_axes(proto.unreduced_axes, found.unreduced, places)
    _fill_axes(proto.manual_axes, found.manual, places)
    if found.dims or len(found.replicated) < len(places):  # all axes of all dimensions: no list
        _fill_axes(proto.replicated_axes, found.replicated, places)
    if found.reduction != "sum":
        proto.reduction_op = number_of("reduction", found.reduction)


def _places(mesh: DeviceMesh) -> dict[str, int]:
    return {name: place for place, (name, _) in enumerate(mesh.axes)}


def _fill_mesh(proto: Any, mesh: DeviceMesh) -> None:
    for name, size in mesh.axes:
        proto.axes.add(name=bytes_of(name), size=size)
    if isinstance(mesh.devices, Iota):
        proto.iota_transform.reshape_dims.extend(mesh.devices.reshape)
        proto.iota_transform.transpose_perm.extend(mesh.devices.transpose)
    elif mesh.devices:
        proto.device_ids.extend(mesh.devices)


def _fill_axes(proto: Any, axes: Axes, places: dict[str, int]) -> None:
    for axis in axes:
        row = proto.add(mesh_axis_index=places[axis.name])
        if axis.size:
            row.sub_axis_info.pre_size, row.sub_axis_info.size = axis.before, axis.size


# ---------------------------------------------------------------- replica groups


def groups_text(inst: Any) -> str:
    """Return the text of an instruction's replica groups."""
    if inst.HasField("mesh_axes_replica_group_list"):
        found = inst.mesh_axes_replica_group_list
        axes = ",".join(_axis_text(axis, found.mesh) for axis in found.axes)
        return f"{mesh_text(found.mesh)} {{{axes}}}"
    if inst.HasField("iota_collective_device_list"):
        iota = inst.iota_collective_device_list
        dims = f"[{iota.num_replica_groups},{iota.num_devices_per_group}]"
        return dims + iota_text(iota.iota_reshape_dims, iota.iota_transpose_perm)
    groups = inst.collective_device_list.replica_groups or inst.replica_groups
    return "{" + ",".join("{" + commas(group.replica_ids) + "}" for group in groups) + "}"


def fill_groups(inst: Any, groups: ReplicaGroups, _context: Any) -> None:
    """Write replica groups to an instruction."""
    if isinstance(groups, MeshGroups):
        proto = inst.mesh_axes_replica_group_list
        _fill_mesh(proto.mesh, groups.mesh)
        _fill_axes(proto.axes, groups.axes, _places(groups.mesh))
    elif isinstance(groups, IotaGroups):
        proto = inst.iota_collective_device_list
        proto.num_replica_groups, proto.num_devices_per_group = groups.group_count, groups.size
        proto.iota_reshape_dims.extend(groups.devices.reshape)
        proto.iota_transpose_perm.extend(groups.devices.transpose)
    else:
        proto = inst.collective_device_list
        proto.SetInParent()
        for group in groups.groups:
            proto.replica_groups.add(replica_ids=group)
