"""The boundaries of manual regions, which are per-device along some axes of the mesh.

Along the others, the free axes, the text has whole arrays, and values in a region are sharded
as outside. The sharding along the axes of the region is part of the shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction
from hloc.ir.sharding import LeafSharding
from hloc.opt.spmd.annotations import TO_LOCAL, manual_sharding, shardings_of, target_of
from hloc.opt.spmd.mesh_axes import tiling_of
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard
from hloc.opt.spmd.tiling import NO_AXES, Axes, Tiling
from hloc.opt.spmd.trees import Tree, is_array, leaf_shapes
from hloc.shapes import ArrayShape


def into_region(region: Region, inst: Instruction, operands: Sequence[Tree]) -> Tree:
    """Give each device its part along the axes of the region; free axes are unchanged."""
    wanted = list(shardings_of(inst))
    if target_of(inst) == "SPMDFullToShardShape":
        wanted = [shardings_of(inst.operands[0])[0]]  # of the preceding `Sharding` call
    found: list[Tree] = []
    for tree, sharding, shape in zip(operands, wanted, leaf_shapes(inst.shape), strict=True):
        if not isinstance(tree, Value) or not is_array(shape):
            found.append(tree)
            continue
        axes = _boundary_axes(region, inst, tree)
        edge = _boundary_tiling(region, sharding, shape.rank)
        cut = _along(edge, axes)
        _check_part(inst, shape, cut.local_dims(tree.whole.dims))
        free = _free_axes(tree, edge, axes, shape)
        target = _joined(cut, free)
        part = reshard(region, tree, target)
        found.append(Value(part.inst, shape, free, tree.manual | axes))
    return found[0] if isinstance(inst.shape, ArrayShape) else tuple(found)


def out_of_region(region: Region, inst: Instruction, operands: Sequence[Tree]) -> Tree:
    """Make each device's part a tile of the whole; free axes are unchanged."""
    found: list[Tree] = []
    shardings, shapes = shardings_of(inst), leaf_shapes(inst.shape)
    everything = frozenset(region.mesh.axes)
    for tree, sharding, shape in zip(operands, shardings, shapes, strict=True):
        if not isinstance(tree, Value) or not is_array(shape):
            found.append(tree)
            continue
        axes = _boundary_axes(region, inst, tree)
        edge, part = _boundary_tiling(region, sharding, shape.rank), tree.whole
        cut = _prefix(_along(edge, axes), shape.dims, part.dims)
        _check_part(inst, part, cut.local_dims(shape.dims))
        free = Tiling(region.mesh, tuple(
            kept if part.dims[dim] % region.mesh.size(kept) == 0 else ()
            for dim, kept in enumerate(_along(tree.tiling, everything - axes).dims)
        ))  # fmt: skip
        local = reshard(region, tree, free).inst
        value = Value(local, shape, _joined(cut, free), tree.manual - axes)
        is_split = edge.axes - value.tiling.axes - value.manual
        found.append(reshard(region, value, _along(edge, everything - value.manual))
                     if is_split else value)  # fmt: skip
    return found[0] if isinstance(inst.shape, ArrayShape) else tuple(found)


def _boundary_axes(region: Region, inst: Instruction, value: Value) -> frozenset[int]:
    """Return the axes of the region that `value` enters or leaves here."""
    everything = frozenset(region.mesh.axes)
    named = manual_sharding(inst)
    if named is not None:
        found = tiling_of(named, region.mesh, 1)
        return everything if found is None else found.axes
    sharding = inst.common.sharding
    found = None
    if isinstance(sharding, LeafSharding):
        found = tiling_of(sharding, region.mesh, inst.array.rank)
    if target_of(inst) in TO_LOCAL:
        inside = found.manual if found is not None and found.manual else everything
        return inside - value.manual
    outside = found.manual if found is not None else NO_AXES
    return (value.manual or everything) - outside


def _boundary_tiling(region: Region, sharding: LeafSharding | None, rank: int) -> Tiling:
    """Return the tiling at a boundary, without the axes of enclosing regions."""
    found = None if sharding is None else tiling_of(sharding, region.mesh, rank)
    return region.whole(rank) if found is None else Tiling(region.mesh, found.dims)


def _along(tiling: Tiling, axes: frozenset[int]) -> Tiling:
    """Return `tiling` along `axes` only."""
    return replace(tiling, dims=tuple(tuple(a for a in dim if a in axes) for dim in tiling.dims))


def _joined(one: Tiling, two: Tiling) -> Tiling:
    """Return the tiling by `one`, whose tiles are divided further by `two`."""
    return replace(one, dims=tuple(a + b for a, b in zip(one.dims, two.dims, strict=True)))


def _free_axes(value: Value, edge: Tiling, axes: frozenset[int], part: ArrayShape) -> Tiling:
    """Return the free axes that shard the part of a device in a region: named or present ones.

    A tile of the part must be a tile of the whole, so they must divide it.
    """
    used = axes | value.manual
    mesh, named = edge.mesh, edge.axes
    dims: list[Axes] = []
    for dim, size in enumerate(part.dims):
        free = tuple(a for a in edge.dims[dim] if a not in used)
        if not free:
            free = tuple(a for a in value.tiling.dims[dim] if a not in used | named)
        exact = value.whole.dims[dim] % max(size, 1) == 0 and size % mesh.size(free) == 0
        dims.append(free if exact else ())
    return Tiling(mesh, tuple(dims))


def _check_part(inst: Instruction, part: ArrayShape, dims: Sequence[int]) -> None:
    """Raise UnsupportedError unless the sharding at a boundary gives parts of these sizes."""
    if part.dims != tuple(dims):
        raise UnsupportedError(
            f"{inst.name}: in the manual region a device has {part.text_without_layout}, "
            f"but the sharding gives it sizes {list(dims)}",
            inst.span,
        )


def _prefix(tiling: Tiling, whole: Sequence[int], part: Sequence[int]) -> Tiling:
    """Return the major axes of `tiling` that divide `whole` into parts of the size of `part`.

    A region that is manual along some axes has equal copies along the others.
    """
    for dim, (full, size) in enumerate(zip(whole, part, strict=True)):
        axes = tiling.dims[dim]
        for count in range(len(axes) + 1):
            if size * tiling.mesh.size(axes[:count]) == full:
                tiling = tiling.with_dim(dim, axes[:count])
                break
    return tiling
