"""Slices at computed indices, and dynamic sizes.

Start indices are clamped so that the slice fits (system reference 4.2). Source of shape rules:
XLA's shape inference.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hloc.dtypes import S32
from hloc.errors import HloError
from hloc.ir.attribute_fields import attr
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.lazy_dataclass import dataclass
from hloc.ops.array_values import narrowed
from hloc.ops.factors import whole_slices
from hloc.ops.shape_rules import (
    DimensionsAttributes,
    array_operand,
    check_same_elements,
    declared_array,
    one_dimension,
    promote,
    shapes_differ,
)
from hloc.shapes import UNBOUNDED, ArrayShape, Shape, array_shape

# ---------------------------------------------------------------- start indices


def _check_indices(request: ShapeRequest, first: int, rank: int) -> None:
    """Check one integer scalar per dimension, or the older single vector of `rank` entries."""
    indices = [array_operand(request, i) for i in range(first, len(request.operands))]
    for number, index in enumerate(indices, first):
        if not index.dtype.is_integer or index.dtype is not indices[0].dtype:
            raise HloError(
                f"operand {number} has shape {index.text_without_layout}, "
                "but start indices must be integers of one type"
            )
    if len(indices) == 1 and indices[0].rank == 1:
        if indices[0].dims[0] not in (rank, UNBOUNDED):
            raise HloError(
                f"operand {first} has shape {indices[0].text_without_layout}, "
                f"but {rank} start indices are needed"
            )
        return
    if len(indices) != rank:
        raise HloError(f"{len(indices)} start indices given, but {rank} are needed")
    for number, index in enumerate(indices, first):
        if index.rank:
            raise HloError(
                f"operand {number} has shape {index.text_without_layout}, "
                "but a start index must be a scalar"
            )


def _starts(
    indices: tuple[HostValue, ...], dims: tuple[int, ...], sizes: tuple[int, ...]
) -> list[int]:
    """Return the start indices, clamped to where a slice of `sizes` fits into `dims`."""
    flat = [int(value) for index in indices for value in np.ravel(index)]
    return [
        min(max(start, 0), dim - size) for start, dim, size in zip(flat, dims, sizes, strict=True)
    ]


def _ranges(starts: list[int], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))


# ---------------------------------------------------------------- dynamic-slice


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSliceAttributes:
    """The size of the slice in each dimension."""

    dynamic_slice_sizes: tuple[int, ...] = attr("int_list")


def _infer_dynamic_slice(request: ShapeRequest) -> Shape:
    """Return sizes `dynamic_slice_sizes`; there is one scalar start per dimension."""
    if not request.operands:
        raise HloError("dynamic-slice needs an operand and start indices")
    operand, sizes = array_operand(request, 0), request.attributes.dynamic_slice_sizes
    _check_indices(request, 1, operand.rank)
    if len(sizes) != operand.rank:
        raise HloError(
            f"dynamic_slice_sizes has {len(sizes)} entries, but the operand has rank "
            f"{operand.rank}: {operand.text_without_layout}"
        )
    for dim, (size, whole) in enumerate(zip(sizes, operand.dims, strict=True)):
        if size < 0 or (whole != UNBOUNDED and size > whole):
            raise HloError(
                f"dynamic_slice_sizes[{dim}] is {size}, but the operand has size {whole} there"
            )
    return ArrayShape(operand.dtype, sizes)


def _evaluate_dynamic_slice(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    array, sizes = operands[0], inst.attributes.dynamic_slice_sizes
    return np.asarray(array[_ranges(_starts(operands[1:], array.shape, sizes), sizes)])


def _factors_of_dynamic_slice(draft: FactorDraft, inst: Instruction) -> None:
    sizes, whole = inst.attributes.dynamic_slice_sizes, inst.operands[0].array.dims
    whole_slices(draft, sizes, whole, draft.operands[:1])


DYNAMIC_SLICE = define(
    reads="dynamic-slice(x, s...)[i] = x[s + i], s clamped so that the slice fits",
    infer=_infer_dynamic_slice,
    shape_required=True,
    attributes=DynamicSliceAttributes,
    evaluate=_evaluate_dynamic_slice,
    factors=_factors_of_dynamic_slice,
    weight=1,
    data_movement=True,
    gpu_weight=4,
)

# ---------------------------------------------------------------- dynamic-update-slice


def _infer_dynamic_update_slice(request: ShapeRequest) -> Shape:
    """Return the operand's shape; the update must not be larger; one scalar start per dimension."""
    if len(request.operands) < 2:
        raise HloError("dynamic-update-slice needs an operand, an update and start indices")
    operand, update = array_operand(request, 0), array_operand(request, 1)
    _check_indices(request, 2, operand.rank)
    if update.rank != operand.rank or promote(operand.dtype, update.dtype) is None:
        raise shapes_differ(1, update, operand, "rank and element type must be equal")
    for dim, (size, whole) in enumerate(zip(update.dims, operand.dims, strict=True)):
        if UNBOUNDED not in (size, whole) and size > whole:
            raise shapes_differ(1, update, operand, f"the update is too large in dimension {dim}")
    return operand


def _evaluate_dynamic_update_slice(
    inst: Instruction, operands: Operands, call: CallFunction
) -> HostValue:
    array, update = operands[:2]
    result = np.array(array)
    starts = _starts(operands[2:], array.shape, update.shape)
    result[_ranges(starts, update.shape)] = narrowed(update, inst.array.dtype)
    return result


def _factors_of_dynamic_update_slice(draft: FactorDraft, inst: Instruction) -> None:
    whole_slices(draft, inst.operands[1].array.dims, inst.array.dims, draft.operands[:2])


DYNAMIC_UPDATE_SLICE = define(
    reads="dynamic-update-slice(x, u, s...) is x with u at s, clamped so that u fits",
    infer=_infer_dynamic_update_slice,
    shape_required=True,
    evaluate=_evaluate_dynamic_update_slice,
    factors=_factors_of_dynamic_update_slice,
)

# ---------------------------------------------------------------- sizes as values


def _infer_get_dimension_size(request: ShapeRequest) -> Shape:
    """Return `s32[]`."""
    one_dimension(request, array_operand(request, 0))
    return array_shape(S32)


def _evaluate_get_dimension_size(
    inst: Instruction, operands: Operands, call: CallFunction
) -> HostValue:
    return np.asarray(operands[0].shape[inst.attributes.dimensions[0]], dtype=np.int32)


def _infer_set_dimension_size(request: ShapeRequest) -> Shape:
    """Return the operand's shape with the dimension made dynamic: `f32[8]` -> `f32[<=8]`."""
    operand, size = array_operand(request, 0), array_operand(request, 1)
    dim = one_dimension(request, operand)
    if size.rank or size.dtype is not S32:
        raise HloError(
            f"operand 1 has shape {size.text_without_layout}, but the size must be s32[]"
        )
    flags = tuple(d == dim or operand.is_dynamic(d) for d in range(operand.rank))
    return replace(operand, dynamic=flags)


def _evaluate_set_dimension_size(
    inst: Instruction, operands: Operands, call: CallFunction
) -> HostValue:
    """Clamp sizes to the bound; new elements are zero."""
    array, bounds = operands[0], inst.operands[0].array.dims
    (dim,) = inst.attributes.dimensions
    size = min(max(int(operands[1]), 0), bounds[dim])
    room = [(0, max(0, size - array.shape[d]) if d == dim else 0) for d in range(array.ndim)]
    return np.pad(array, room)[tuple(slice(size if d == dim else None) for d in range(array.ndim))]


GET_DIMENSION_SIZE = define(
    name="get-dimension-size",
    reads="the present size of one dimension",
    arity=1,
    infer=_infer_get_dimension_size,
    attributes=DimensionsAttributes,
    evaluate=_evaluate_get_dimension_size,
)
SET_DIMENSION_SIZE = define(
    name="set-dimension-size",
    reads="x cut to a size in one dimension, which becomes dynamic",
    arity=2,
    infer=_infer_set_dimension_size,
    attributes=DimensionsAttributes,
    evaluate=_evaluate_set_dimension_size,
)

# ---------------------------------------------------------------- dynamic-reshape


def _infer_dynamic_reshape(request: ShapeRequest) -> Shape:
    """Return the declared shape, of as many elements as the operand, one size operand each."""
    if not request.operands:
        raise HloError("dynamic-reshape needs an operand and one size per dimension")
    operand, result = array_operand(request, 0), declared_array(request)
    if len(request.operands) != 1 + result.rank:
        raise HloError(
            f"{len(request.operands) - 1} sizes given, but the result has rank {result.rank}"
        )
    for index in range(1, len(request.operands)):
        size = array_operand(request, index)
        if size.rank or size.dtype is not S32:
            raise HloError(
                f"operand {index} has shape {size.text_without_layout}, but a size must be s32[]"
            )
    check_same_elements(operand, result)
    return result


def _evaluate_dynamic_reshape(
    inst: Instruction, operands: Operands, call: CallFunction
) -> HostValue:
    sizes = tuple(int(size) for size in operands[1:])
    if any(size < 0 for size in sizes) or int(np.prod(sizes, dtype=object)) != operands[0].size:
        raise HloError(
            f"sizes {list(sizes)} do not hold the {operands[0].size} elements of the operand"
        )
    return operands[0].reshape(sizes)


DYNAMIC_RESHAPE = define(
    name="dynamic-reshape",
    reads="the elements of x in row-major order, in sizes that are values",
    arity=None,
    infer=_infer_dynamic_reshape,
    shape_required=True,
    evaluate=_evaluate_dynamic_reshape,
)
