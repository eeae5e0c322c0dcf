"""Adjacent dimensions that a kernel treats alike become one.

The transpose of f32[64,32,4,4,128] that swaps the first two dimensions with the others is that of
f32[2048,2048]: rows of 2,048 elements fill vectors and tiles, rows of 32 do not. The kernel reads
and writes bitcasts of its arrays, so no byte moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import forwards
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.factors import WHOLE, Factors
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.ops.factors import factor_rule
from hloc.opt.make import make
from hloc.shapes import ArrayShape, Shape, TupleShape, array_leaves

_PARTS = frozenset({"concatenate", "pad", "slice"})
_MOVES = _PARTS | {"broadcast", "copy", "iota", "reduce", "reverse", "transpose"}
"""Opcodes that need loops over several dimensions."""

_OTHERS = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})
"""Opcodes besides these and the elementwise ones that a kernel with such loops may have."""

_FEWEST = 3
"""Lowest rank of an array for which anything is gained: two dimensions alike are one loop."""

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""The dimensions of an array, in order; those of a group become one."""

Boundary: TypeAlias = tuple[Instruction, int]
"""An instruction, and the first of two adjacent dimensions of its arrays."""


def collapse_dimensions(module: Module) -> None:
    """Change the kernels of `module` in place. Cost: O(instructions in kernels)."""
    with module.log.acting("collapse-dimensions"):
        for computation in control_flow_computations(module):
            for inst in computation.instructions:
                if inst.is_a("fusion") or (inst.opcode.name in _MOVES and not forwards(inst)):
                    _collapse(inst)


def _collapse(inst: Instruction) -> None:
    """Collapse the dimensions of one kernel, if that leaves more than one loop."""
    body = inst.called[0] if inst.is_a("fusion") else None
    members = post_order(body) if body is not None else [inst]
    if not _is_supported(inst, members):
        return
    groups = _Boundaries(members).groups()
    ranks = [len(parts) for parts in groups.values()]
    if max(ranks) < 2 or not any(len(part) > 1 for parts in groups.values() for part in parts):
        return
    inputs = body.parameters if body is not None else inst.operands
    shapes = [_collapsed(given.array, groups[given]) for given in inputs]
    changes = [(m, _attributes(m, groups), _shape(m, groups)) for m in members]
    views = [_view(o, shape) for o, shape in zip(inst.operands, shapes, strict=True)]
    inst.computation.set_operands(inst, views)
    for member, attributes, shape in changes:
        member.computation.set_attributes(member, attributes)
        if member is not inst:
            member.computation.set_shape(member, shape)
    _set_shape(inst, body.root.shape if body is not None else changes[-1][2])


def _is_supported(inst: Instruction, members: Sequence[Instruction]) -> bool:
    """True if the dimensions of all members can be collapsed, and some are worth it."""
    is_read_whole = inst.is_root or not all(user.is_a("get-tuple-element") for user in inst.users)
    if isinstance(inst.shape, TupleShape) and is_read_whole:
        return False
    if inst.is_a("fusion") and len(inst.called[0].callers) > 1:
        return False
    arrays = (*members, *inst.operands)
    if not all(_has_dims(x) or x.is_a("tuple") for x in arrays):
        return False
    shapes = [shape for x in arrays for shape in array_leaves(x.shape)]
    if max(shape.rank for shape in shapes) < _FEWEST:
        return False
    if not all(shape.is_static_data for shape in shapes):
        return False
    names = {member.opcode.name for member in members}
    return not names.isdisjoint(_MOVES) and all(
        m.opcode.name in _MOVES or m.opcode.name in _OTHERS or _is_elementwise(m) for m in members
    )


def _is_elementwise(inst: Instruction) -> bool:
    return inst.opcode.elementwise and not inst.opcode.side_effect and not inst.called


class _Boundaries:
    """Which adjacent dimensions of the arrays of a kernel are one in all of them, or in none.

    Boundaries that agree are a set (of a union-find); a set is kept apart if one of its members is.
    """

    def __init__(self, members: Sequence[Instruction]) -> None:
        self._parents: dict[Boundary, Boundary] = {}
        self._kept: set[Boundary] = set()
        self._arrays = dict.fromkeys(x for m in members for x in (*m.operands, m) if _has_dims(x))
        for inst in self._arrays:
            order = _first_leaf(inst).minor_to_major
            for dim in range(len(order) - 1):
                if order.index(dim) != order.index(dim + 1) + 1:
                    self._kept.add((inst, dim))
        for member in members:
            self._add(member)

    def groups(self) -> dict[Instruction, Groups]:
        """Return the groups of every array."""
        kept = {self._first(boundary) for boundary in self._kept}
        found: dict[Instruction, Groups] = {}
        for inst in self._arrays:
            parts: list[list[int]] = []
            for dim in range(_first_leaf(inst).rank):
                if dim and self._first((inst, dim - 1)) not in kept:
                    parts[-1].append(dim)
                else:
                    parts.append([dim])
            found[inst] = tuple(map(tuple, parts))
        return found

    def _add(self, inst: Instruction) -> None:
        """Add what one member demands."""
        name, rank = inst.opcode.name, _first_leaf(inst).rank if _has_dims(inst) else 0
        if name in ("parameter", "tuple"):
            return
        if name == "constant":
            self._kept.update((inst, dim) for dim in range(rank - 1))
            return
        if name == "iota":
            dim = inst.attributes.iota_dimension
            self._kept.update([(inst, dim - 1), (inst, dim)])
        if name in _PARTS or name == "get-tuple-element":
            same = tuple(range(rank))
            sides = [(x, same) for x in (*inst.operands, inst) if _first_leaf(x).rank == rank]
            self._kept.update((inst, dim) for dim in _kept_by_parts(inst))
        else:
            rule = factor_rule(inst)
            sides = [*zip(inst.operands, rule.operands, strict=True), (inst, rule.results[0])]
        for x, factors in sides:
            self._link(x, factors, sides)

    def _link(
        self, x: Instruction, factors: Factors, sides: Sequence[tuple[Instruction, Factors]]
    ) -> None:
        """Join the boundaries of `x` with those of the other arrays of an instruction."""
        for dim, pair in enumerate(pairwise(factors)):
            if WHOLE in pair:
                self._kept.add((x, dim))
            for other, theirs in sides:
                if pair in pairwise(theirs):
                    self._join((x, dim), (other, theirs.index(pair[0])))
                elif pair[0] in theirs or pair[1] in theirs:
                    self._kept.add((x, dim))

    def _first(self, boundary: Boundary) -> Boundary:
        while (parent := self._parents.get(boundary, boundary)) != boundary:
            boundary = parent
        return boundary

    def _join(self, one: Boundary, other: Boundary) -> None:
        first, second = self._first(one), self._first(other)
        if first != second:
            self._parents[second] = first


def _kept_by_parts(inst: Instruction) -> Iterator[int]:
    """Yield the boundaries of an instruction that takes parts of an array, or puts some together.

    The elements along a dimension and all those after it are contiguous.
    """
    if inst.is_a("concatenate"):
        yield inst.attributes.dimensions[0] - 1
    elif inst.is_a("slice"):
        sizes = inst.operands[0].array.dims
        for dim, (part, size) in enumerate(zip(inst.attributes.slice, sizes, strict=True)):
            if (part.start, part.limit, part.stride) != (0, size, 1):
                yield dim - 1
            if part.stride != 1:
                yield dim
    elif inst.is_a("pad"):
        for dim, pad in enumerate(inst.attributes.padding):
            if (pad.low, pad.high, pad.interior) != (0, 0, 0):
                yield dim - 1
            if pad.interior:
                yield dim


def _has_dims(inst: Instruction) -> bool:
    return isinstance(inst.shape, ArrayShape) or inst.is_a("reduce")


def _first_leaf(inst: Instruction) -> ArrayShape:
    """Return the shape of an array, or of each array of a reduction."""
    return array_leaves(inst.shape)[0]


# ---------------------------------------------------------------- rewriting


def _attributes(inst: Instruction, groups: Mapping[Instruction, Groups]) -> Any:
    """Return the attributes of a member for collapsed arrays."""
    name, a = inst.opcode.name, inst.attributes
    if name == "iota":
        return replace(a, iota_dimension=_group_of(groups[inst], a.iota_dimension))
    if name not in _MOVES or name == "copy":
        return a
    parts = groups[inst.operands[0]]
    if name == "slice":
        return replace(a, slice=tuple(_slice(inst, part) for part in parts))
    if name == "pad":
        return replace(a, padding=tuple(_padding(inst, part) for part in parts))
    if name == "broadcast":
        of_result = groups[inst]
        named = [_group_of(of_result, a.dimensions[part[0]]) for part in parts]
    elif name == "transpose":
        named = [_group_of(parts, a.dimensions[part[0]]) for part in groups[inst]]
    else:
        named = [*dict.fromkeys(_group_of(parts, dim) for dim in a.dimensions)]
    return replace(a, dimensions=tuple(named))


def _group_of(groups: Groups, dim: int) -> int:
    return next(number for number, part in enumerate(groups) if dim in part)


def _slice(inst: Instruction, part: tuple[int, ...]) -> SliceDimension:
    first, scale = inst.attributes.slice[part[0]], _elements_after(inst, part)
    return SliceDimension(first.start * scale, first.limit * scale, first.stride)


def _padding(inst: Instruction, part: tuple[int, ...]) -> PaddingDimension:
    first, scale = inst.attributes.padding[part[0]], _elements_after(inst, part)
    return PaddingDimension(first.low * scale, first.high * scale, first.interior)


def _elements_after(inst: Instruction, part: tuple[int, ...]) -> int:
    """Return the elements along all dimensions of a group but the first."""
    return prod(inst.array.dims[dim] for dim in part[1:])


def _shape(inst: Instruction, groups: Mapping[Instruction, Groups]) -> Shape:
    """Return the shape of a member; that of a tuple follows from its operands."""
    if inst.is_a("tuple"):
        return TupleShape(tuple(_shape(operand, groups) for operand in inst.operands))
    if isinstance(inst.shape, TupleShape):
        leaves = array_leaves(inst.shape)
        return TupleShape(tuple(_collapsed(leaf, groups[inst]) for leaf in leaves))
    return _collapsed(inst.array, groups[inst])


def _collapsed(shape: ArrayShape, groups: Groups) -> ArrayShape:
    numbers = {part[0]: number for number, part in enumerate(groups)}
    layout = shape.layout
    if layout is not None:
        order = tuple(numbers[dim] for dim in layout.minor_to_major if dim in numbers)
        layout = replace(layout, minor_to_major=order)
    dims = tuple(prod(shape.dims[dim] for dim in part) for part in groups)
    return ArrayShape(shape.dtype, dims, layout)


def _view(inst: Instruction, shape: Shape) -> Instruction:
    """Return the bytes of `inst` as an array of `shape`."""
    return inst if inst.shape == shape else make(inst.computation, "bitcast", shape, inst)


def _set_shape(inst: Instruction, shape: Shape) -> None:
    """Give a kernel its new shape; its users get views of the old one."""
    if isinstance(shape, TupleShape):
        inst.computation.set_shape(inst, shape)
        for part in tuple(inst.users):
            _set_shape(part, shape.elements[part.attributes.index])
        return
    old, users, was_root = inst.shape, tuple(inst.users), inst.is_root
    inst.computation.set_shape(inst, shape)
    view = _view(inst, old)
    for user in users:
        operands = [view if operand is inst else operand for operand in user.operands]
        inst.computation.set_operands(user, operands)
    if was_root:
        inst.computation.set_root(view)
