"""Reshapes of arrays with dynamic dimensions: the elements stay dense in row-major order.

Where a dynamic dimension is split or merged, elements are not where a static reshape of
the bounds would expect them: a gather fetches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.dynamic.scope import Scope, Sizes, refuse


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent dimensions of operand and result that hold the same elements."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def groups_of(before: Sequence[int], after: Sequence[int]) -> list[Group]:
    """Return the smallest groups: `[2,3,4]` -> `[6,2,2]` has 2,3 -> 6 and 4 -> 2,2."""
    if not all(before) or not all(after):
        return [Group(tuple(range(len(before))), tuple(range(len(after))))]
    groups: list[Group] = []
    i = j = 0
    while i < len(before) or j < len(after):
        first_in, first_out = i, j
        left = right = 1
        while True:
            if left <= right and i < len(before):
                left *= before[i]
                i += 1
            elif j < len(after):
                right *= after[j]
                j += 1
            else:
                left *= before[i]
                i += 1
            if left == right and (
                (i > first_in and j > first_out) or _all_ones(before, after, i, j)
            ):
                break
        groups.append(Group(tuple(range(first_in, i)), tuple(range(first_out, j))))
    return groups


def _all_ones(before: Sequence[int], after: Sequence[int], i: int, j: int) -> bool:
    return i == len(before) and j == len(after)


def reshape(scope: Scope, inst: Instruction) -> None:
    """Resolve a reshape of a dynamic array."""
    operand = inst.operands[0]
    dims = inst.array.dims
    found: dict[int, Instruction] = {}
    value = operand
    for group in reversed(groups_of(operand.array.dims, dims)):
        if not any(dim in scope.sizes(operand) for dim in group.inputs):
            continue
        sizes = _result_sizes(scope, inst, group)
        found.update(sizes)
        if operand.array.elements and not _is_unmoved(operand, dims, group):
            value = _compacted(scope, inst, value, group, sizes)
    result = scope.b.reshape(value, dims)
    scope.become(inst, result, found)


def dynamic_reshape(scope: Scope, inst: Instruction) -> None:
    """Resolve a dynamic-reshape, whose sizes are operands."""
    operand, *sizes = inst.operands
    rank, dims = operand.array.rank, inst.array.dims
    found = {
        dim: size
        for dim, size in enumerate(sizes)
        if inst.array.is_dynamic(dim) or not _is_constant(size, dims[dim])
    }
    group = Group(tuple(range(rank)), tuple(range(len(dims))))
    value = operand
    if operand.array.elements and (found or scope.is_dynamic(operand)):
        value = _compacted(scope, inst, operand, group, found)
    result = scope.b.reshape(value, dims)
    scope.become(inst, result, found)


def _is_constant(size: Instruction, bound: int) -> bool:
    return size.is_a("constant") and int(size.attributes.literal.array) == bound


def _is_unmoved(operand: Instruction, dims: tuple[int, ...], group: Group) -> bool:
    """True if the group only gains or loses dimensions of size 1 that are static in effect."""
    before = [operand.array.dims[dim] for dim in group.inputs if operand.array.dims[dim] != 1]
    after = [dims[dim] for dim in group.outputs if dims[dim] != 1]
    return before == after and len(before) <= 1


def _result_sizes(scope: Scope, inst: Instruction, group: Group) -> dict[int, Instruction]:
    """Return the sizes in the result: one dimension of the group takes the dynamic size."""
    operand, shape = inst.operands[0], inst.array
    candidates = [dim for dim in group.outputs if shape.is_dynamic(dim)]
    inferred = inst.attributes.inferred_dimension
    if inferred in group.outputs:
        candidates = [inferred]
    if not candidates:
        candidates = [dim for dim in group.outputs if shape.dims[dim] != 1] or list(group.outputs)
    matched = _matched(scope, inst, group, candidates)
    if matched is not None:
        return matched
    if len(candidates) != 1:
        refuse(inst, "it is not clear which dimension of the result changes")
    (dim,) = candidates
    count = _product(scope, [scope.size(operand, i) for i in group.inputs])
    others = prod(shape.dims[d] for d in group.outputs if d != dim)
    size = count if others == 1 else scope.b.divide(count, scope.number(max(1, others)))
    return {dim: size}


def _matched(
    scope: Scope, inst: Instruction, group: Group, candidates: list[int]
) -> dict[int, Instruction] | None:
    """Return sizes if as many dimensions are dynamic before and after, with the same bounds."""
    operand = inst.operands[0]
    dynamic = [dim for dim in group.inputs if dim in scope.sizes(operand)]
    if len(dynamic) != len(candidates) or len(dynamic) < 2:
        return None
    if any(
        operand.array.dims[i] != inst.array.dims[o]
        for i, o in zip(dynamic, candidates, strict=True)
    ):
        return None
    return {o: scope.sizes(operand)[i] for i, o in zip(dynamic, candidates, strict=True)}


def _product(scope: Scope, sizes: Sequence[Instruction]) -> Instruction:
    found = sizes[0] if sizes else scope.number(1)
    for size in sizes[1:]:
        found = scope.b.multiply(found, size)
    return found


def _compacted(
    scope: Scope, inst: Instruction, value: Instruction, group: Group, sizes: Sizes
) -> Instruction:
    """Return `value` with the elements of a group at the positions of the result's bounds.

    The group becomes one flat dimension of a gather: the position in the result gives the number
    of the element among the present ones, and that number its position in the operand.
    """
    b, operand, dims = scope.b, inst.operands[0], inst.array.dims
    before = operand.array.dims[: group.inputs[0]] if group.inputs else operand.array.dims
    after = operand.array.dims[group.inputs[-1] + 1 :] if group.inputs else ()
    count = prod(operand.array.dims[dim] for dim in group.inputs)
    flat = b.reshape(value, (prod(before), count, prod(after)))
    out_dims = [dims[dim] for dim in group.outputs]
    out_sizes = [sizes.get(dim, scope.number(dims[dim])) for dim in group.outputs]
    in_dims = [operand.array.dims[dim] for dim in group.inputs]
    in_sizes = [scope.size(operand, dim) for dim in group.inputs]
    place = b.iota(S32, (count,))
    out_bounds, in_bounds = ([scope.number(d) for d in ds] for ds in (out_dims, in_dims))
    number = _join(scope, _split(scope, place, out_bounds, count), out_sizes, count)
    where = _join(scope, _split(scope, number, in_sizes, count), in_bounds, count)
    gathered = b.gather(
        flat,
        where,
        offset_dims=(0, 2),
        collapsed_slice_dims=(1,),
        start_index_map=(1,),
        index_vector_dim=1,
        slice_sizes=(prod(before), 1, prod(after)),
    )
    return b.reshape(gathered, operand.array.dims)


def _split(
    scope: Scope, number: Instruction, sizes: Sequence[Instruction], count: int
) -> list[Instruction]:
    """Return the indices of element `number` in an array of `sizes`."""
    b = scope.b
    found: list[Instruction] = []
    for position, size in reversed(list(enumerate(sizes))):
        if position == 0:
            found.append(number)
            break
        wide = b.broadcast(b.maximum(size, scope.number(1)), (count,))
        found.append(b.remainder(number, wide))
        number = b.divide(number, wide)
    return found[::-1]


def _join(
    scope: Scope, indices: Sequence[Instruction], sizes: Sequence[Instruction], count: int
) -> Instruction:
    """Return the number of the element at `indices` in an array of `sizes`."""
    b = scope.b
    found = b.broadcast(scope.number(0), (count,))
    for index, size in zip(indices, sizes, strict=True):
        found = b.add(b.multiply(found, b.broadcast(size, (count,))), index)
    return found
