"""Starting points of the propagation: the annotations of a module, by axes of its mesh."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hloc.ir.axis_sharding import AxisSharding
from hloc.ir.axis_sharding_text import meshes_of, named_sharding, shardy_shardings
from hloc.ir.instruction import Instruction
from hloc.ir.sharding import REPLICATED, LeafSharding
from hloc.lazy_dataclass import dataclass
from hloc.opt.spmd.annotations import TO_GLOBAL, TO_LOCAL, leaf_sharding, shardy_text, target_of
from hloc.opt.spmd.array_classes import Leaf, array_of, result_leaves
from hloc.opt.spmd.mesh_axes import tiling_of
from hloc.opt.spmd.tiling import NO_AXES, Axes, Mesh
from hloc.shapes import ArrayShape

_UNSPECIFIED = re.compile(r"unspecified_dims=\[([\d,]*)\]")


@dataclass(frozen=True)
class Start:
    """The annotation of one array.

    Attributes:
        sharding: in HLO's form; for a boundary into a manual region, that of the operand.
        dims: the axes of each dimension, None if the mesh cannot express them.
        open_dims: dimensions that may be sharded further.
        priorities: per dimension; 0 is the highest.
        unusable: axes that must not shard the array.
    """

    leaf: Leaf
    sharding: LeafSharding
    dims: tuple[Axes, ...] | None
    open_dims: frozenset[int] = frozenset()
    priorities: tuple[int, ...] = ()
    unusable: frozenset[int] = NO_AXES


def is_annotated(inst: Instruction) -> bool:
    """True if the text has a sharding for the result of `inst`, at least in part."""
    return inst.common.sharding is not None or shardy_text(inst) is not None or _is_fixed(inst)


def starts_of(inst: Instruction, mesh: Mesh) -> Iterator[Start]:
    """Yield the annotations of the arrays of `inst`.

    At the boundaries of manual regions all dimensions are closed: the shapes inside depend on them.
    """
    edges = (*TO_LOCAL, *TO_GLOBAL)
    is_closed = target_of(inst) in edges or any(target_of(u) in TO_LOCAL for u in inst.users)
    for start in annotations_of(inst, mesh):
        yield replace(start, open_dims=frozenset()) if is_closed else start


def annotations_of(inst: Instruction, mesh: Mesh) -> Iterator[Start]:
    """Yield the annotations of the arrays of `inst`, whose dimensions may be open."""
    text, found = shardy_text(inst), result_leaves(inst)
    if text is not None:
        written = shardy_shardings(text, meshes_of(inst.computation.module))
        for i, leaf in enumerate(found):
            if len(written) in (1, len(found)):
                yield _by_axes(leaf, written[i if len(written) > 1 else 0], mesh)
        return
    sharding = inst.common.sharding
    if sharding is not None:
        elements = sharding.for_leaves(len(found)).elements
        if len(elements) == len(found):
            unspecified = _UNSPECIFIED.search(str(inst.common.backend_config or ""))
            dims = unspecified[1].split(",") if unspecified else ()
            for leaf, element in zip(found, elements, strict=True):
                if element.kind == "named":
                    yield _by_axes(leaf, named_sharding(element.name), mesh)
                elif (start := _written(leaf, element, mesh)) is not None:
                    yield replace(start, open_dims=frozenset(int(dim) for dim in dims if dim))
    elif _is_fixed(inst):
        for leaf in found:
            rank = array_of(leaf).rank
            yield Start(leaf, LeafSharding(REPLICATED), ((),) * rank)


def _is_fixed(inst: Instruction) -> bool:
    """True for a parameter or result of the program that must stay replicated."""
    module = inst.computation.module
    if inst.computation is not module.entry:
        return False
    if inst.is_a("parameter"):
        flags = module.config.propagate_sharding_to_parameters
        place = inst.attributes.number
        return not (flags[place] if place < len(flags) else flags == (True,))
    if inst.is_root and not meshes_of(module):
        return not any(module.config.propagate_sharding_to_output)
    return False


def _written(leaf: Leaf, sharding: LeafSharding, mesh: Mesh) -> Start | None:
    if sharding.kind == "unknown":
        return None
    tiling = tiling_of(sharding, mesh, whole_of(leaf).rank)
    if tiling is None:
        return Start(leaf, sharding, None)
    return Start(leaf, sharding, tiling.dims, unusable=tiling.manual | tiling.unreduced)


def _by_axes(leaf: Leaf, written: AxisSharding, mesh: Mesh) -> Start:
    rank = whole_of(leaf).rank
    sharding = leaf_sharding(replace(written, dims=written.dims or ((),) * rank), {})
    tiling = tiling_of(sharding, mesh, rank)
    unusable = NO_AXES
    for axes in (written.replicated, written.unreduced, written.manual):
        if axes:
            along = tiling_of(leaf_sharding(replace(written, dims=(axes,)), {}), mesh, 1)
            unusable |= along.axes if along is not None else frozenset(mesh.axes)
    return Start(
        leaf,
        sharding,
        None if tiling is None else tiling.dims,
        written.open_dims,
        written.priorities,
        unusable,
    )


def whole_of(leaf: Leaf) -> ArrayShape:
    """Return the shape that an annotation refers to: the operand's at an entry to a region."""
    inst, index = leaf
    if target_of(inst) in TO_LOCAL:
        return inst.operands[index[0] if index else 0].array
    return array_of(leaf)
