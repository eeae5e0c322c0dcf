"""Operations that copy or rearrange elements without computing: broadcast to bitcast.

Rules: format reference 12.4. Elements of a result are elements of an operand, bit for bit.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from hloc.errors import HloError
from hloc.ir.attribute_fields import attr
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CallFunction,
    HostValue,
    Operands,
    ShapeRequest,
    define,
)
from hloc.lazy_dataclass import dataclass
from hloc.ops.array_values import first_operand
from hloc.ops.shape_rules import (
    DimensionsAttributes,
    array_of,
    array_operand,
    as_operand,
    check_dimensions,
    check_same_elements,
    declared_array,
)
from hloc.shapes import UNBOUNDED, ArrayShape, Layout, Shape, row_major

# ---------------------------------------------------------------- broadcast, reshape, transpose


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastAttributes:
    """`dimensions[i]` is the result dimension that operand dimension i becomes."""

    dimensions: tuple[int, ...] = attr("int_list", default=(), always=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshapeAttributes:
    """`inferred_dimension` names the one dynamic dimension whose size follows from the others."""

    inferred_dimension: int = attr("int", default=-1)


def _infer_broadcast(request: ShapeRequest) -> Shape:
    """Check the declared shape: its sizes at `dimensions` are those of the operand."""
    operand, dims = array_operand(request, 0), request.attributes.dimensions
    if len(dims) != operand.rank:
        raise HloError(
            f"dimensions has {len(dims)} entries, but the operand has rank {operand.rank}: "
            f"{operand.text_without_layout}"
        )
    if request.declared is None:
        return _smallest_broadcast(operand, dims)
    result = array_of(request.declared, "the result")
    if result.dtype is not operand.dtype:
        raise HloError(f"operand has element type {operand.dtype}, result {result.dtype}")
    check_dimensions(dims, result.rank, "result")
    for i, dim in enumerate(dims):
        if operand.dims[i] != result.dims[dim] and UNBOUNDED not in (
            operand.dims[i],
            result.dims[dim],
        ):
            raise HloError(
                f"dimension {i} of the operand has size {operand.dims[i]}, "
                f"but dimension {dim} of the result has size {result.dims[dim]}"
            )
    return result


MAX_INFERRED_RANK = 64
"""Largest accepted `dimensions` entry: beyond it the rank would be absurd."""


def _smallest_broadcast(operand: ArrayShape, dims: tuple[int, ...]) -> ArrayShape:
    """Return the result when the text leaves it out: size 1 where no operand dimension goes."""
    rank = max(dims, default=-1) + 1
    check_dimensions(dims, min(rank, MAX_INFERRED_RANK), "result")
    sizes, dynamic = [1] * rank, [False] * rank
    for i, dim in enumerate(dims):
        sizes[dim], dynamic[dim] = operand.dims[i], operand.is_dynamic(i)
    return ArrayShape(operand.dtype, tuple(sizes), None, tuple(dynamic))


def _evaluate_broadcast(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    dims, array = inst.array.dims, operands[0]
    if not dims:  # a scalar in a reducer that is evaluated for all elements at once
        return array
    places: list[int] = [1] * len(dims)
    for i, dim in enumerate(inst.attributes.dimensions):
        places[dim] = array.shape[i]
    order = np.argsort(inst.attributes.dimensions)
    return np.broadcast_to(array.transpose(order).reshape(places), dims)


def _infer_reshape(request: ShapeRequest) -> Shape:
    """Return the declared shape, of as many elements as the operand."""
    operand, result = array_operand(request, 0), declared_array(request)
    check_same_elements(operand, result)
    if not -1 <= request.attributes.inferred_dimension < result.rank:
        raise HloError(
            f"inferred_dimension is {request.attributes.inferred_dimension}, "
            f"but the result has rank {result.rank}"
        )
    return result


def _evaluate_reshape(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    if not inst.array.dims and not inst.operands[0].array.dims:
        return operands[0]
    return operands[0].reshape(inst.array.dims)


def _infer_transpose(request: ShapeRequest) -> Shape:
    """Return the sizes in the order of `dimensions`: `f32[2,3,4]`, `{2,0,1}` -> `f32[4,2,3]`."""
    operand, dims = array_operand(request, 0), request.attributes.dimensions
    if sorted(dims) != list(range(operand.rank)):
        raise HloError(
            f"dimensions={{{','.join(map(str, dims))}}} is not a permutation of the dimensions "
            f"of {operand.text_without_layout}"
        )
    return ArrayShape(
        operand.dtype,
        tuple(operand.dims[dim] for dim in dims),
        _permuted_layout(operand, dims),
        tuple(operand.is_dynamic(dim) for dim in dims),
    )


def _permuted_layout(operand: ArrayShape, dims: tuple[int, ...]) -> Layout:
    """Return the layout that makes the transpose a change of view only."""
    place = {dim: i for i, dim in enumerate(dims)}
    order = tuple(place[dim] for dim in operand.minor_to_major)
    return replace(operand.layout or row_major(operand.rank), minor_to_major=order)


def _factors_of_broadcast(draft: FactorDraft, inst: Instruction) -> None:
    for dim, size in enumerate(inst.array.dims):
        draft.results[0][dim] = draft.factor(size)
    for dim, target in enumerate(inst.attributes.dimensions):
        if inst.operands[0].array.dims[dim] == inst.array.dims[target]:
            draft.operands[0][dim] = draft.results[0][target]


def _factors_of_transpose(draft: FactorDraft, inst: Instruction) -> None:
    for dim, source in enumerate(inst.attributes.dimensions):
        factor = draft.factor(inst.array.dims[dim])
        draft.results[0][dim] = draft.operands[0][source] = factor


def _factors_of_reshape(draft: FactorDraft, inst: Instruction) -> None:
    """Link the major dimensions of groups of dimensions with equal products, in equal parts."""
    old, new = inst.operands[0].array.dims, inst.array.dims
    if 0 in old:
        return
    i = j = 0
    while i < len(old) and j < len(new):
        first_i, first_j = i, j
        m, n = old[i], new[j]
        while m != n:
            if m < n:
                i += 1
                m *= old[i]
            else:
                j += 1
                n *= new[j]
        group_i = [d for d in range(first_i, i + 1) if old[d] > 1]
        group_j = [d for d in range(first_j, j + 1) if new[d] > 1]
        if group_i and group_j:
            a, b = group_i[0], group_j[0]
            factor = draft.factor(gcd(old[a], new[b]))
            draft.operands[0][a] = draft.results[0][b] = factor
            if len(group_i) + len(group_j) > 2:
                draft.even.add(factor)
        i, j = i + 1, j + 1


BROADCAST = define(
    reads="broadcast(x)[i] = x[i at dimensions]",
    infer=_infer_broadcast,
    attributes=BroadcastAttributes,
    evaluate=_evaluate_broadcast,
    factors=_factors_of_broadcast,
    data_movement=True,
)
RESHAPE = define(
    reads="reshape(x) has the elements of x in row-major order",
    infer=_infer_reshape,
    shape_required=True,
    attributes=ReshapeAttributes,
    evaluate=_evaluate_reshape,
    factors=_factors_of_reshape,
    weight=1,
    data_movement=True,
    gpu_weight=8,
)
TRANSPOSE = define(
    name="transpose",
    reads="result dimension i is operand dimension dimensions[i]",
    arity=1,
    infer=_infer_transpose,
    attributes=DimensionsAttributes,
    evaluate=lambda inst, operands, _call: operands[0].transpose(inst.attributes.dimensions),
    factors=_factors_of_transpose,
    data_movement=True,
    gpu_weight=2,
)

# ---------------------------------------------------------------- copy, bitcast


def _infer_bitcast(request: ShapeRequest) -> Shape:
    """Return the declared shape, of as many bytes as the operand."""
    operand, result = array_operand(request, 0), declared_array(request)
    if operand.size_bytes != result.size_bytes:
        raise HloError(
            f"operand {operand.text_without_layout} has {operand.size_bytes} bytes, "
            f"but result {result.text_without_layout} has {result.size_bytes}"
        )
    return result


def _evaluate_bitcast(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    source, result = inst.operands[0].array, inst.array
    memory = np.ascontiguousarray(operands[0].transpose(source.minor_to_major[::-1]))
    order = result.minor_to_major[::-1]
    stored = memory.reshape(-1).view(result.dtype.numpy)
    in_memory_order = stored.reshape([result.dims[dim] for dim in order])
    return in_memory_order.transpose(np.argsort(order))


COPY = define(
    reads="copy(x) = x, perhaps in another layout",
    infer=as_operand,
    evaluate=first_operand,
    elemental=lambda _b, _inst, x: x,
    data_movement=True,
)
BITCAST = define(
    reads="bitcast(x) reads the memory of x with another type, shape or layout",
    infer=_infer_bitcast,
    shape_required=True,
    evaluate=_evaluate_bitcast,
    data_movement=True,
)
