"""Opcodes that reorder elements along a dynamic dimension: concatenate, reverse, sort."""

from __future__ import annotations

from hloc.dtypes import PRED
from hloc.ir.clone import copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.dynamic.scope import Scope, inside_of
from hloc.shapes import ArrayShape, TupleShape


def concatenate(scope: Scope, inst: Instruction) -> None:
    """Resolve a concatenate: each operand is written where the previous one ends.

    Elements beyond the present size of an operand are overwritten by the next one.
    """
    (dim,) = inst.attributes.dimensions
    sizes = dict[int, Instruction]()
    for operand in inst.operands:
        for d, size in scope.sizes(operand).items():
            if d != dim:
                sizes.setdefault(d, size)
    if not any(dim in scope.sizes(operand) for operand in inst.operands):
        scope.make_static(inst, sizes)
        return
    b, zero = scope.b, scope.number(0)
    result = b.broadcast(scope.zero(inst.operands[0]), inst.array.dims)
    offset = zero
    for operand in inst.operands:
        starts = [offset if d == dim else zero for d in range(inst.array.rank)]
        result = b.dynamic_update_slice(result, operand, starts)
        offset = b.add(offset, scope.size(operand, dim))
    scope.become(inst, result, {**sizes, dim: offset})


def reverse(scope: Scope, inst: Instruction) -> None:
    """Resolve a reverse: the present elements, reversed, are at the end and moved forward."""
    operand = inst.operands[0]
    sizes = scope.sizes(operand)
    moved = [dim for dim in inst.attributes.dimensions if dim in sizes]
    if not moved:
        scope.make_static(inst, sizes)
        return
    b, zero, dims = scope.b, scope.number(0), operand.array.dims
    reversed_all = b.reverse(operand, inst.attributes.dimensions)
    room = [dims[dim] if dim in moved else 0 for dim in range(len(dims))]
    padded = b.pad(reversed_all, scope.zero(operand), [0] * len(dims), room)
    starts = [
        b.subtract(scope.number(dims[dim]), sizes[dim]) if dim in moved else zero
        for dim in range(len(dims))
    ]
    scope.become(inst, b.dynamic_slice(padded, starts, dims), sizes)


def sort(scope: Scope, inst: Instruction) -> None:
    """Resolve a sort: an extra operand marks the present elements, which sort first."""
    (dim,) = inst.attributes.dimensions
    sizes: dict[int, Instruction] = {}
    for operand in inst.operands:
        sizes = {**scope.sizes(operand), **sizes}
    if dim not in sizes:
        scope.make_all_static(inst, sizes)
        return
    b, dims = scope.b, inst.operands[0].array.dims
    present = inside_of(b, dims, {dim: sizes[dim]})
    assert present is not None
    comparator = _present_first(inst.called[0], len(inst.operands))
    operands = (*inst.operands, present)
    shape = TupleShape(tuple(ArrayShape(o.array.dtype, dims) for o in operands))
    sorted_all = b.instruction("sort", operands, inst.attributes, (comparator,), shape)
    parts = [b.get_tuple_element(sorted_all, i) for i in range(len(inst.operands))]
    if len(parts) == 1 and not isinstance(inst.shape, TupleShape):
        scope.become(inst, parts[0], sizes)
        return
    result = b.tuple(parts)
    scope.computation.replace(inst, result)
    scope.leaves[result] = {(i,): sizes for i in range(len(parts))}


def _present_first(comparator: Computation, count: int) -> Computation:
    """Return `comparator` with two more parameters: whether the elements are present."""
    new = comparator.module.add_computation(comparator.name + ".present")
    values = copy_instructions(comparator, new, {})
    b = Builder(new)
    x = b.parameter(2 * count, ArrayShape(PRED))
    y = b.parameter(2 * count + 1, ArrayShape(PRED))
    before = values[comparator.root]
    only_x = b.logical_and(x, b.logical_not(y))
    new.set_root(b.select(b.logical_and(x, y), before, only_x))
    return new
