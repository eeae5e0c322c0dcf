"""The values of instructions during the walk: arrays, tuples, and forwarded instructions."""

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
from hloc.opt.spmd.tiling import NO_AXES, Mesh, Tiling
from hloc.shapes import ArrayShape, Shape, TupleShape

Tree: TypeAlias = "Value | Instruction | tuple[Tree, ...]"
"""The value of an instruction: an array, a tuple, or an instruction forwarded unchanged.

That is a token, a buffer, or an operation that has started.
"""


def parameter_of(
    region: Region, inst: Instruction, tilings: Sequence[Tiling | None], *, annotate: bool = False
) -> Tree:
    """Add a parameter whose arrays have `tilings`, None for leaves that are no arrays."""
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


def tree_of(region: Region, inst: Instruction, whole: Shape, tilings: list[Tiling | None]) -> Tree:
    """Return the value of `inst`, taking one tiling per array from the front of the list.

    The manual axes of a tiling are those of the array's region.
    """
    if isinstance(whole, TupleShape):
        b = region.build
        return tuple(
            tree_of(region, b.get_tuple_element(inst, i), part, tilings)
            for i, part in enumerate(whole.elements)
        )
    tiling = tilings.pop(0)
    if not is_array(whole) or tiling is None:
        return inst
    return Value(inst, whole, replace(tiling, manual=NO_AXES), tiling.manual)


def as_instruction(
    region: Region, tree: Tree, wanted: Sequence[Tiling | None]
) -> tuple[Instruction, list[Tiling | None]]:
    """Return `tree` as one instruction, and the tilings of its arrays.

    Args:
        region: the region to add it to.
        tree: the value.
        wanted: the tiling of each array; None leaves it unchanged.
    """
    pending, used = list(wanted), list[Tiling | None]()

    def build(part: Tree) -> Instruction:
        if isinstance(part, tuple):
            return region.build.tuple([build(inner) for inner in part])
        target = pending.pop(0) if pending else None
        if isinstance(part, Instruction):
            used.append(None)
            return part
        target = target or part.tiling
        found = reshard(region, part, replace(target, manual=NO_AXES))
        used.append(replace(found.tiling, manual=part.manual | target.manual))
        return found.inst

    return build(tree), used


def tiling_at(region: Region, sharding: LeafSharding | None, shape: Shape) -> Tiling | None:
    """Return the tiling of a sharding; replicated if inexpressible, None if it is no array."""
    if not is_array(shape):
        return None
    if sharding is None:
        return region.whole(shape.rank)
    found = plain_tiling(sharding, region.mesh, shape.rank)
    return region.whole(shape.rank) if found is None else found


def whole_leaves(region: Region, tree: Tree) -> list[Tiling | None]:
    """Return the tilings of a replicated `tree`."""
    return [
        region.whole(value.whole.rank) if isinstance(value, Value) else None
        for value in leaf_values(tree)
    ]


def plain_tiling(sharding: LeafSharding, mesh: Mesh, rank: int) -> Tiling | None:
    """Return the tiling of an array without manual or unreduced axes, None for others."""
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
    """False for leaves forwarded unchanged: tokens, opaque values, buffers."""
    return isinstance(shape, ArrayShape) and not shape.dtype.is_special


def local_shape(shape: Shape, tilings: list[Tiling | None]) -> Shape:
    """Return the shape on one device, taking one tiling per array from the front of the list."""
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


def manual_of(trees: Sequence[Tree]) -> frozenset[int]:
    """Return the axes of the manual region of some values."""
    return frozenset(axis for value in values_of(trees) for axis in value.manual)
