"""Operations that take parts of arrays or join arrays: slice to pad.

Rules: format reference 12.4. A reverse is a slice with a negative stride, so it is here too.
"""

from __future__ import annotations

import numpy as np

from hloc.errors import HloError
from hloc.ir.attribute_fields import attr
from hloc.ir.attributes import PaddingDimension, SliceDimension
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.lazy_dataclass import dataclass
from hloc.ops.factors import dims_not_named
from hloc.ops.shape_rules import (
    DimensionsAttributes,
    array_operand,
    check_dimensions,
    one_dimension,
    promote,
    shapes_differ,
)
from hloc.shapes import UNBOUNDED, ArrayShape, Shape

# ---------------------------------------------------------------- slice, reverse


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceAttributes:
    """`slice={[0:2], [1:9:4]}`: one range per dimension."""

    slice: tuple[SliceDimension, ...] = attr("slice")


def _infer_slice(request: ShapeRequest) -> Shape:
    """Return `(limit - start) / stride`, rounded up, of each dimension."""
    operand, ranges = array_operand(request, 0), request.attributes.slice
    if len(ranges) != operand.rank:
        raise HloError(
            f"slice has {len(ranges)} ranges, but the operand has rank {operand.rank}: "
            f"{operand.text_without_layout}"
        )
    sizes = []
    for dim, (part, size) in enumerate(zip(ranges, operand.dims, strict=True)):
        bound = part.limit if size == UNBOUNDED else size
        if part.stride < 1 or not 0 <= part.start <= part.limit <= bound:
            raise HloError(
                f"slice [{part.start}:{part.limit}:{part.stride}] of dimension {dim} does not fit: "
                f"0 <= start <= limit <= {bound} and stride >= 1 are needed"
            )
        sizes.append(-((part.start - part.limit) // part.stride))
    return ArrayShape(operand.dtype, tuple(sizes), None, operand.dynamic)


def _evaluate_slice(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    ranges = tuple(slice(d.start, d.limit, d.stride) for d in inst.attributes.slice)
    return np.asarray(operands[0][ranges])


def _infer_reverse(request: ShapeRequest) -> Shape:
    """Return the operand's shape, which has the reversed dimensions."""
    operand = array_operand(request, 0)
    check_dimensions(request.attributes.dimensions, operand.rank)
    return operand


def _evaluate_reverse(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    return np.asarray(np.flip(operands[0], inst.attributes.dimensions))


def _factors_of_slice(draft: FactorDraft, inst: Instruction) -> None:
    whole = inst.operands[0].array.dims
    dims = (
        dim
        for dim, part in enumerate(inst.attributes.slice)
        if (part.start, part.limit, part.stride) == (0, whole[dim], 1)
    )
    draft.link(dims, whole)


SLICE = define(
    reads="slice(x)[i] = x[start + i * stride]",
    infer=_infer_slice,
    shape_required=True,
    attributes=SliceAttributes,
    evaluate=_evaluate_slice,
    factors=_factors_of_slice,
    data_movement=True,
    gpu_weight=2,
)
REVERSE = define(
    reads="reverse(x)[i] = x[size - 1 - i] along dimensions",
    infer=_infer_reverse,
    attributes=DimensionsAttributes,
    evaluate=_evaluate_reverse,
    factors=dims_not_named,
    data_movement=True,
    gpu_weight=2,
)

# ---------------------------------------------------------------- concatenate, pad


@dataclass(frozen=True, slots=True, kw_only=True)
class PadAttributes:
    """`padding=0_1x2_3_1`: low, high and interior per dimension."""

    padding: tuple[PaddingDimension, ...] = attr("padding")


def _infer_concatenate(request: ShapeRequest) -> Shape:
    """Return sizes added up in one dimension: `f32[2,3]`, `f32[2,4]` -> `f32[2,7]`."""
    if not request.operands:
        raise HloError("concatenate needs at least one operand")
    first = array_operand(request, 0)
    dim = one_dimension(request, first)
    total, dtype = 0, first.dtype
    sizes, dynamic = list(first.dims), [False] * first.rank
    for index in range(len(request.operands)):
        shape = array_operand(request, index)
        common = promote(dtype, shape.dtype)
        if common is None or not _fits_beside(first, shape, dim):
            raise shapes_differ(index, shape, first, f"only dimension {dim} may differ")
        dtype = common
        unbounded = UNBOUNDED in (total, shape.dims[dim])
        total = UNBOUNDED if unbounded else total + shape.dims[dim]
        for d, size in enumerate(shape.dims):
            sizes[d] = size if sizes[d] == UNBOUNDED else sizes[d]
            dynamic[d] |= shape.is_dynamic(d) and (d == dim or size != UNBOUNDED)
    sizes[dim] = total
    flags = (flag or size == UNBOUNDED for flag, size in zip(dynamic, sizes, strict=True))
    return ArrayShape(dtype, tuple(sizes), None, tuple(flags))


def _fits_beside(first: ArrayShape, shape: ArrayShape, dim: int) -> bool:
    return shape.rank == first.rank and all(
        d == dim or m == n or UNBOUNDED in (m, n)
        for d, (m, n) in enumerate(zip(first.dims, shape.dims, strict=True))
    )


def _evaluate_concatenate(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    parts = [x.astype(inst.array.dtype.numpy, copy=False) for x in operands]
    return np.concatenate(parts, axis=inst.attributes.dimensions[0])


def _infer_pad(request: ShapeRequest) -> Shape:
    """Return padded sizes: `f32[4]`, `padding=1_2_1` -> `f32[10]`."""
    operand, value = array_operand(request, 0), array_operand(request, 1)
    padding = request.attributes.padding
    dtype = promote(operand.dtype, value.dtype)
    if value.rank or dtype is None:
        raise HloError(
            f"operand 1 has shape {value.text_without_layout}, "
            f"but the padding value must be {operand.dtype}[]"
        )
    if len(padding) != operand.rank:
        raise HloError(
            f"padding has {len(padding)} dimensions, but the operand has rank {operand.rank}: "
            f"{operand.text_without_layout}"
        )
    sizes = tuple(
        _padded_size(dim, size, pad)
        for dim, (size, pad) in enumerate(zip(operand.dims, padding, strict=True))
    )
    return ArrayShape(dtype, sizes, None, operand.dynamic)


def _padded_size(dim: int, size: int, pad: PaddingDimension) -> int:
    if pad.interior < 0:
        raise HloError(f"interior padding of dimension {dim} is negative: {pad.interior}")
    if size == UNBOUNDED:
        return UNBOUNDED
    result = pad.low + size + max(size - 1, 0) * pad.interior + pad.high
    if result < 0:
        raise HloError(f"padding makes the size of dimension {dim} negative: {result}")
    return result


def _evaluate_pad(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    array, value = operands
    result = np.empty(inst.array.dims, dtype=inst.array.dtype.numpy)
    result[...] = value
    target, source = [], []
    for size, total, pad in zip(array.shape, result.shape, inst.attributes.padding, strict=True):
        step = pad.interior + 1
        first = max(0, -(pad.low // step))
        last = min(size, -((pad.low - total) // step))
        source.append(slice(first, max(first, last)))
        start = pad.low + first * step
        target.append(slice(start, start + max(0, last - first) * step, step))
    result[tuple(target)] = array[tuple(source)]
    return result


def _factors_of_pad(draft: FactorDraft, inst: Instruction) -> None:
    dims = (
        dim
        for dim, pad in enumerate(inst.attributes.padding)
        if (pad.low, pad.high, pad.interior) == (0, 0, 0)
    )
    draft.link(dims, inst.array.dims)


CONCATENATE = define(
    name="concatenate",
    reads="operands one after the other along dimensions[0]",
    arity=None,
    infer=_infer_concatenate,
    attributes=DimensionsAttributes,
    evaluate=_evaluate_concatenate,
    factors=dims_not_named,
    weight=3,
    data_movement=True,
    gpu_weight=6,
)
PAD = define(
    reads="pad(x, v)[low + i * (interior + 1)] = x[i], v elsewhere; negative edges trim",
    infer=_infer_pad,
    attributes=PadAttributes,
    evaluate=_evaluate_pad,
    factors=_factors_of_pad,
    weight=2,
    data_movement=True,
    gpu_weight=6,
)
