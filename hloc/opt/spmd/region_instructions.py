"""Instructions in manual regions: constraints, and collectives along the axes of the region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.ir.device_groups import device_groups, device_pairs
from hloc.ir.instruction import Instruction
from hloc.ir.sharding import LeafSharding
from hloc.opt.spmd.mesh_axes import tiling_of
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard
from hloc.opt.spmd.starting_points import Start, annotations_of
from hloc.opt.spmd.tiling import Tiling
from hloc.opt.spmd.trees import (
    Tree,
    as_instruction,
    leaf_shapes,
    manual_of,
    tiling_at,
    tree_of,
    whole_leaves,
)
from hloc.shapes import ShapeIndex


def copied_unchanged(region: Region, inst: Instruction, operands: Sequence[Tree]) -> Tree:
    """Copy an instruction that is written for one device along all axes."""
    return on_every_device(region, inst, operands, manual_of(operands))


def on_every_device(
    region: Region,
    inst: Instruction,
    operands: Sequence[Tree],
    manual: frozenset[int] | None = None,
) -> Tree:
    """Compute `inst` from whole operands; `manual` are the axes of another region it is in."""
    found = [as_instruction(region, tree, whole_leaves(region, tree))[0] for tree in operands]
    added = region.computation.add(
        inst.opcode, inst.shape, found, inst.attributes, inst.called, name=inst.name,
        common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
    )  # fmt: skip
    if inst.opcode.ended_by:
        return added
    tilings = [tiling_at(region, None, shape) for shape in leaf_shapes(inst.shape)]
    if manual is not None:
        tilings = [tiling and replace(tiling, manual=manual) for tiling in tilings]
    return tree_of(region, added, inst.shape, tilings)


def free_tiling(region: Region, sharding: LeafSharding, rank: int) -> Tiling | None:
    """Return the tiling that `sharding` gives along the free axes, None if it names none."""
    found = tiling_of(sharding, region.mesh, rank)
    if found is None or found.unreduced:
        return None
    dims = tuple(tuple(a for a in axes if a not in region.manual) for axes in found.dims)
    return Tiling(region.mesh, dims) if any(dims) else None


def constrained(region: Region, inst: Instruction, operands: Sequence[Tree]) -> Tree:
    """Reshard arrays to the free axes in the text; open dimensions keep their axes."""
    starts = {start.leaf[1]: start for start in annotations_of(inst, region.mesh)}

    def change(tree: Tree, index: ShapeIndex) -> Tree:
        if isinstance(tree, tuple):
            return tuple(change(part, (*index, i)) for i, part in enumerate(tree))
        start = starts.get(index)
        if isinstance(tree, Instruction) or start is None or start.dims is None:
            return tree
        return reshard(region, tree, _wanted(region, tree, start))

    return change(operands[0] if len(operands) == 1 else tuple(operands), ())


def _wanted(region: Region, value: Value, start: Start) -> Tiling:
    dims = [tuple(a for a in axes if a not in region.manual) for axes in start.dims or ()]
    named = {axis for axes in dims for axis in axes}
    for dim in start.open_dims:
        now, fixed = value.tiling.dims[dim], len(dims[dim])
        if now[:fixed] == dims[dim] and named.isdisjoint(now[fixed:]):
            dims[dim] = now
    return Tiling(region.mesh, tuple(dims))


def is_independent_of_free_axes(region: Region, inst: Instruction) -> bool:
    """True for a collective in a region whose groups do not depend on the free axes.

    Then each part along the free axes runs the collective separately, as the factors of the opcode
    allow.
    """
    if not region.manual or inst.opcode.exchange is None or inst.opcode.factors is None:
        return False
    mesh = region.mesh
    free = mesh.coordinates(mesh.except_for(region.manual)).tolist()
    inside = mesh.coordinates(tuple(sorted(region.manual))).tolist()
    groups: dict[int, set[tuple[int, ...]]] = {place: set() for place in free}
    is_permute = inst.is_a("collective-permute")
    for group in device_pairs(inst) if is_permute else device_groups(inst):
        if len({free[device] for device in group}) > 1:
            return False
        groups[free[group[0]]].add(tuple(inside[device] for device in group))
    return len(set(map(frozenset, groups.values()))) == 1
