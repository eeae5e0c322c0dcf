"""The values of instructions on the walk: arrays, tuples, and what is handed on as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, TypeGuard

from hloc.ir.attributes import NO_COMMON
from hloc.ir.instruction import Instruction
from hloc.ir.sharding import LeafSharding, TupleSharding
from hloc.opt.spmd.local import local_array
from hloc.opt.spmd.mesh_axes import tiling_of
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.reshard import reshard
from hloc.opt.spmd.tiling import Mesh, Tiling
from hloc.shapes import ArrayShape, Shape, TupleShape

Tree: TypeAlias = "Value | Instruction | tuple[Tree, ...]"
"""The value of an instruction: an array, a tuple, or an instruction that is handed on as it is.

That is a token, a buffer, or an operation that has started.
"""


def parameter_of(
    region: Region, inst: Instruction, tilings: Sequence[Tiling | None], *, annotate: bool = False
) -> Tree:
    """Add a parameter whose arrays have `tilings`; None is of an array on one device."""
    pending = list(tilings)
    shape = local_shape(inst.shape, pending)
    common = NO_COMMON.with_metadata(inst.common.metadata)
    if annotate and tilings:
        leaves = tuple(t.sharding() if t else LeafSharding("replicated") for t in tilings)
        single = not isinstance(inst.shape, TupleShape)
        common = replace(common, sharding=leaves[0] if single else TupleSharding(leaves))
    added = region.computation.add(
        inst.opcode, shape, (), inst.attributes, name=inst.name, common=common, span=inst.span
    )
    return tree_of(region, added, inst.shape, list(tilings))


def tree_of(
    region: Region, inst: Instruction, whole: Shape, tilings: list[Tiling | None], depth: int = 1
) -> Tree:
    """Return the value of `inst`, taking a tiling from the front of the list per array."""
    if isinstance(whole, TupleShape):
        b = region.build
        return tuple(
            tree_of(region, b.get_tuple_element(inst, i), part, tilings, depth)
            for i, part in enumerate(whole.elements)
        )
    tiling = tilings.pop(0)
    if not is_array(whole):
        return inst
    if tiling is None:
        return Value(inst, whole, region.whole(whole.rank), depth)
    return Value(inst, whole, tiling)


def as_instruction(
    region: Region, tree: Tree, wanted: Sequence[LeafSharding | None]
) -> tuple[Instruction, list[Tiling | None]]:
    """Return `tree` as one instruction, and the tilings of its arrays.

    Args:
        region: where it is computed.
        tree: the value.
        wanted: the sharding of each array; None leaves it as it is, or whole.
    """
    pending, used = list(wanted), list[Tiling | None]()

    def build(part: Tree) -> Instruction:
        if isinstance(part, tuple):
            return region.build.tuple([build(inner) for inner in part])
        sharding = pending.pop(0) if pending else None
        if isinstance(part, Instruction):
            used.append(None)
            return part
        target = part.tiling if sharding is None else tiling_at(region, sharding, part.whole)
        assert target is not None
        found = reshard(region, part, target)
        used.append(None if found.is_manual else found.tiling)
        return found.inst

    return build(tree), used


def tiling_at(region: Region, sharding: LeafSharding | None, shape: Shape) -> Tiling | None:
    """Return the tiling that a sharding asks for; whole for odd ones, None if it is no array."""
    if not is_array(shape):
        return None
    if sharding is None:
        return region.whole(shape.rank)
    found = plain_tiling(sharding, region.mesh, shape.rank)
    return region.whole(shape.rank) if found is None else found


def replicated_leaves(tree: Tree) -> list[LeafSharding]:
    """Return the shardings that make `tree` whole on every device."""
    return [LeafSharding("replicated")] * len(leaf_values(tree))


def plain_tiling(sharding: LeafSharding, mesh: Mesh, rank: int) -> Tiling | None:
    """Return the tiling of an array that no device has made part of already, None for others."""
    found = tiling_of(sharding, mesh, rank)
    return None if found is None or found.manual or found.unreduced else found


def arrays_of(shapes: Sequence[Shape]) -> list[ArrayShape]:
    """Return the arrays of some shapes, depth first, without tokens."""
    return [leaf for shape in shapes for leaf in leaf_shapes(shape) if is_array(leaf)]


def values_of(trees: Sequence[Tree]) -> list[Value]:
    """Return the arrays of some values, depth first, without tokens."""
    return [v for tree in trees for v in leaf_values(tree) if isinstance(v, Value)]


def leaf_shapes(shape: Shape) -> list[Shape]:
    """Return the arrays, tokens and buffers of a shape, depth first."""
    if isinstance(shape, TupleShape):
        return [leaf for element in shape.elements for leaf in leaf_shapes(element)]
    return [shape]


def is_array(shape: Shape) -> TypeGuard[ArrayShape]:
    """False for what is handed on as it is: tokens, opaque values, buffers."""
    return isinstance(shape, ArrayShape) and not shape.dtype.is_special


def local_shape(shape: Shape, tilings: list[Tiling | None]) -> Shape:
    """Return the shape on one device, taking a tiling from the front of the list per array."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(local_shape(element, tilings) for element in shape.elements))
    tiling = tilings.pop(0)
    if tiling is None or not is_array(shape):
        return shape
    return local_array(shape, tiling.local_dims(shape.dims))


def leaf_values(tree: Tree) -> list[Value | Instruction]:
    """Return the arrays and tokens of a value, depth first."""
    if isinstance(tree, tuple):
        return [value for part in tree for value in leaf_values(part)]
    return [tree]


def has_manual(tree: Tree) -> bool:
    """True if an array of the value is in a manual region."""
    return any(isinstance(value, Value) and value.is_manual for value in leaf_values(tree))
