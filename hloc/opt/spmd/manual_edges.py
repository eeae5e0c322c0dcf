"""The edges of manual regions, and the instructions in them, which are written for one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.ir.sharding import LeafSharding
from hloc.opt.spmd.annotations import shardings_of, target_of
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard
from hloc.opt.spmd.tiling import Tiling
from hloc.opt.spmd.trees import (
    Tree,
    as_instruction,
    is_array,
    leaf_shapes,
    replicated_leaves,
    tiling_at,
    tree_of,
    values_of,
)
from hloc.shapes import ArrayShape


def into_region(region: Region, inst: Instruction, operands: Sequence[Tree]) -> Tree:
    """Give each device its part, as the sharding of the region's operands says."""
    wanted = list(shardings_of(inst))
    trees = operands if len(operands) > 1 else [operands[0]]
    shapes = list(leaf_shapes(inst.shape))
    if target_of(inst) == "SPMDFullToShardShape":
        wanted = [_annotation_before(inst)]
    found: list[Tree] = []
    for tree, sharding, shape in zip(trees, wanted, shapes, strict=True):
        if not isinstance(tree, Value) or not is_array(shape):
            found.append(tree)
            continue
        target = tiling_at(region, sharding, tree.whole)
        assert target is not None
        part = reshard(region, tree, target).inst
        if tree.is_manual:  # a region in a region: along its axes copies are equal so far
            for dim, axes in enumerate(target.dims):
                part = region.sliced(part, dim, axes) if axes else part
        _check_part(inst, part, shape.dims)
        found.append(Value(part, shape, region.whole(shape.rank), tree.depth + 1))
    return found[0] if isinstance(inst.shape, ArrayShape) else tuple(found)


def out_of_region(region: Region, inst: Instruction, operands: Sequence[Tree]) -> Tree:
    """Take each device's part as a tile of the whole."""
    found: list[Tree] = []
    shardings, shapes = shardings_of(inst), list(leaf_shapes(inst.shape))
    for tree, sharding, shape in zip(operands, shardings, shapes, strict=True):
        if not isinstance(tree, Value) or not is_array(shape):
            found.append(tree)
            continue
        tiling = tiling_at(region, sharding, shape)
        assert tiling is not None
        whole, made = tree.inst, _prefix(tiling, shape.dims, tree.inst.array.dims)
        _check_part(inst, whole, made.local_dims(shape.dims))
        if tree.depth > 1:
            for dim, axes in enumerate(made.dims):
                whole = region.all_gather(whole, dim, axes) if axes else whole
            found.append(Value(whole, shape, region.whole(shape.rank), tree.depth - 1))
        else:
            found.append(reshard(region, Value(whole, shape, made), tiling))
    return found[0] if isinstance(inst.shape, ArrayShape) else tuple(found)


def _check_part(inst: Instruction, part: Instruction, dims: Sequence[int]) -> None:
    """Raise UnsupportedError unless the sharding at an edge of a region gives such parts."""
    if part.array.dims != tuple(dims):
        raise UnsupportedError(
            f"{inst.name}: the part of each device in the manual region is "
            f"{part.array.text_without_layout}, but the sharding gives sizes {list(dims)}",
            inst.span,
        )


def as_it_is(region: Region, inst: Instruction, operands: Sequence[Tree]) -> Tree:
    """Copy an instruction of a manual region, which is written for one device already."""
    found = [as_instruction(region, tree, replicated_leaves(tree))[0] for tree in operands]
    added = region.computation.add(
        inst.opcode, inst.shape, found, inst.attributes, inst.called, name=inst.name,
        common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
    )  # fmt: skip
    if inst.opcode.ended_by:
        return added
    depth = max(v.depth for tree in operands for v in values_of([tree]))
    return tree_of(region, added, inst.shape, [None for _ in leaf_shapes(inst.shape)], depth)


def _annotation_before(inst: Instruction) -> LeafSharding | None:
    """Return the sharding that the `Sharding` call in front of SPMDFullToShardShape asks for."""
    return shardings_of(inst.operands[0])[0]


def _prefix(tiling: Tiling, whole: Sequence[int], part: Sequence[int]) -> Tiling:
    """Return the major axes of `tiling` that split `whole` into parts of the size of `part`.

    A region that is manual along some axes has equal copies along the others.
    """
    for dim, (full, size) in enumerate(zip(whole, part, strict=True)):
        axes = tiling.dims[dim]
        for count in range(len(axes) + 1):
            if size * tiling.mesh.size(axes[:count]) == full:
                tiling = tiling.with_dim(dim, axes[:count])
                break
    return tiling
