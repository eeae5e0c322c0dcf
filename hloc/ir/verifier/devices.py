"""Verify replica groups, pairs and shardings: devices named once, no empty groups.

Source: `CheckReplicaGroups` and its callers in XLA's `hlo_verifier.cc`. XLA and hloc
do not compare with a header without device counts.
"""

from __future__ import annotations

from math import prod

from hloc.errors import HloError
from hloc.ir.device_groups import (
    PERMUTES,
    DeviceCounts,
    GroupMode,
    device_groups,
    group_mode,
    header_devices,
    module_devices,
)
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.replica_groups import GroupLists, MeshGroups, ReplicaGroups
from hloc.ir.sharding import Iota, LeafSharding, Sharding, TupleSharding
from hloc.ir.traversal import all_instructions
from hloc.shapes import ArrayShape, BufferShape, Shape, leaves

_UNEVEN = ("all-reduce", "all-reduce-start")
"""Opcodes whose groups may differ in size."""


def collective_fault(inst: Instruction) -> str:
    """Return the fault in the groups or pairs of a collective, "" if there is none."""
    if inst.is_a(*PERMUTES):
        return _pairs_fault(inst)
    groups = inst.attributes.replica_groups
    return _groups_fault(inst, groups) or _header_fault(inst, groups)


def check_group_sizes(module: Module) -> None:
    """Check the sizes of groups that depend on devices which only other collectives name.

    Where none does, shapes may tell of more devices: the module cannot run on one.

    Raises:
        HloError: a group does not fit the shapes of its collective.
    """
    if module_devices(module).total == 1:
        return
    for inst in all_instructions(module):
        if inst.opcode.exchange is None or inst.is_a(*PERMUTES):
            continue
        for size in {len(group) for group in device_groups(inst)}:
            if fault := _size_fault(inst, size):
                raise HloError(f"{inst.opcode.name} '{inst.name}' {fault}", inst.span)


def _groups_fault(inst: Instruction, groups: ReplicaGroups) -> str:
    """Return what is wrong with replica groups, "" if nothing is."""
    mode = group_mode(inst)
    if isinstance(groups, GroupLists) and not groups.groups:
        if mode is GroupMode.FLATTENED:
            return "needs replica_groups, because use_global_device_ids=true"
        return ""
    if not all(groups.sizes):
        return f"has replica_groups {groups} with an empty group"
    try:
        message = _ids_fault(inst, groups)
    except HloError as error:
        return f"has wrong replica_groups: {error.message}"
    if message:
        return f"has replica_groups {groups}, {message}"
    counts = _counts(inst)
    count = counts.numbered(mode)
    if count not in (1, groups.count) and not inst.is_a("collective-broadcast"):
        return (
            f"has replica_groups {groups} of {groups.count} numbers, but in mode {mode.value} "
            f"they are the numbers of {count} ({_counts_text(inst)})"
        )
    if len(set(groups.sizes)) > 1 and not inst.is_a(*_UNEVEN, "collective-broadcast"):
        return f"has replica_groups {groups} of different sizes, which only all-reduce may have"
    return ""


def _ids_fault(inst: Instruction, groups: ReplicaGroups) -> str:
    """Return the fault in single ids; an iota has none by construction."""
    if isinstance(groups, MeshGroups):
        groups.lists()
    if not isinstance(groups, GroupLists):
        return ""
    seen: dict[int, int] = {}
    is_broadcast = inst.is_a("collective-broadcast")
    limit = _counts(inst).numbered(group_mode(inst)) if is_broadcast else groups.count
    for place, group in enumerate(groups.groups):
        for number in group:
            if number in seen:
                where = "in group" if seen[number] == place else f"in group {seen[number]} and in"
                return f"where {number} is named twice, {where} {place}"
            if number < 0 or (number >= limit and not (is_broadcast and limit == 1)):
                return f"where {number} in group {place} is none of 0 to {limit - 1}"
            seen[number] = place
    return ""


def _header_fault(inst: Instruction, groups: ReplicaGroups) -> str:
    """Compare the size of the groups with the shapes; size 1 is not checked, as in XLA."""
    size = _group_size(inst, groups)
    return "" if size == 1 else _size_fault(inst, size)


def _size_fault(inst: Instruction, size: int) -> str:
    """Compare groups of `size` members with the shapes."""
    if inst.is_a("all-to-all"):
        return _split_fault(inst, size)
    if not inst.is_a("all-gather", "all-gather-start", "reduce-scatter"):
        return ""
    (dim,) = inst.attributes.dimensions
    operand = inst.operands[-1].array.dims[dim]
    result = [shape for _, shape in leaves(inst.shape)][-1]
    assert isinstance(result, ArrayShape)
    small, large = sorted((operand, result.dims[dim]))
    if small < 0 or small * size == large:
        return ""
    return (
        f"makes {result.dims[dim]} of {operand} elements along dimension {dim}, but its groups "
        f"have {_members(size)}"
    )


def _split_fault(inst: Instruction, size: int) -> str:
    dimensions = inst.attributes.dimensions
    if dimensions is None:
        if len(inst.operands) == size:
            return ""
        return f"has {len(inst.operands)} operands, but its groups have {_members(size)}"
    length = inst.operands[0].array.dims[dimensions[0]]
    if length < 0 or length % size == 0:
        return ""
    return (
        f"splits {length} elements along dimension {dimensions[0]} among {size} members of a "
        "group, which leaves a rest"
    )


def _members(size: int) -> str:
    return f"{size} member" if size == 1 else f"{size} members"


def _group_size(inst: Instruction, groups: ReplicaGroups) -> int:
    """Return the size of the first group."""
    counts, mode = _counts(inst), group_mode(inst)
    size = groups.sizes[0] if groups.sizes else counts.numbered(mode)
    return size * counts.partitions if mode is GroupMode.BOTH else size


def _pairs_fault(inst: Instruction) -> str:
    """Compare the pairs with the devices of the header; the shape rule checks for repetitions."""
    limit = _counts(inst).numbered(group_mode(inst))
    for pair in inst.attributes.source_target_pairs:
        if limit > 1 and max(pair) >= limit:
            source, target = pair
            return (
                f"has the pair {{{source},{target}}}, but {max(pair)} is none of 0 to "
                f"{limit - 1} ({_counts_text(inst)})"
            )
    return ""


def _counts(inst: Instruction) -> DeviceCounts:
    return header_devices(inst.computation.module)


def _counts_text(inst: Instruction) -> str:
    counts = _counts(inst)
    return f"replica_count={counts.replicas}, num_partitions={counts.partitions}"


def sharding_fault(sharding: Sharding, shape: Shape) -> str:
    """Return the fault of `sharding` on an instruction of `shape`, "" if there is none."""
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
    """Return what is wrong with the sharding of one leaf, "" if nothing is."""
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
