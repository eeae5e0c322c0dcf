"""Dot products: dot, ragged-dot, scaled-dot."""

from __future__ import annotations

import numpy as np

from hloc.dtypes import Array, DType
from hloc.ir.attribute_fields import attr
from hloc.ir.factors import WHOLE, FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.lazy_dataclass import dataclass
from hloc.ops.checks import (
    array_operand,
    check_dims,
    declared_shape,
    require,
    result_type,
    same_size,
    wider,
)
from hloc.ops.contraction import ALGORITHMS, contract, free_dims, precisions
from hloc.shapes import ArrayShape, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractionDims:
    """Batch and contracting dimensions of two operands."""

    lhs_batch_dims: tuple[int, ...] = attr("int_list", default=())
    lhs_contracting_dims: tuple[int, ...] = attr("int_list", default=(), always=True)
    rhs_batch_dims: tuple[int, ...] = attr("int_list", default=())
    rhs_contracting_dims: tuple[int, ...] = attr("int_list", default=(), always=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DotAttributes(ContractionDims):
    """Dimension numbers of a dot; `algorithm` "" is unset."""

    operand_precision: tuple[str, ...] = precisions()
    algorithm: str = attr("enum", default="", choices=ALGORITHMS, fold_case=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaggedDotAttributes(ContractionDims):
    """A dot, with the dimension of lhs that is divided into groups and that of rhs that picks one.

    `algorithm` is no attribute of ragged-dot.
    """

    lhs_ragged_dims: tuple[int, ...] = attr("int_list", default=(), always=True)
    rhs_group_dims: tuple[int, ...] = attr("int_list", default=())
    operand_precision: tuple[str, ...] = precisions()


# ---------------------------------------------------------------- shape rules


def dot_dims(
    name: str, lhs: ArrayShape, rhs: ArrayShape, a: ContractionDims, extra: tuple[int, ...] = ()
) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Check dimension numbers and return sizes and dynamic flags: batch, lhs free, rhs free.

    `extra` are dimensions of rhs that are neither free nor contracted (group dimensions).
    """
    check_dims(name, "lhs dimension", a.lhs_batch_dims + a.lhs_contracting_dims, lhs.rank)
    check_dims(name, "rhs dimension", a.rhs_batch_dims + a.rhs_contracting_dims + extra, rhs.rank)
    for what, left, right in (
        ("batch", a.lhs_batch_dims, a.rhs_batch_dims),
        ("contracting", a.lhs_contracting_dims, a.rhs_contracting_dims),
    ):
        require(
            len(left) == len(right),
            f"{name}: lhs has {len(left)} {what} dimensions, but rhs has {len(right)}",
        )
        for i, j in zip(left, right, strict=True):
            require(
                same_size(lhs.dims[i], rhs.dims[j]),
                f"{name}: {what} dimension {i} of {lhs.text_without_layout} does not match "
                f"dimension {j} of {rhs.text_without_layout}",
            )
    lhs_kept = a.lhs_batch_dims + free_dims(lhs.rank, a.lhs_batch_dims, a.lhs_contracting_dims)
    rhs_kept = free_dims(rhs.rank, a.rhs_batch_dims, a.rhs_contracting_dims, extra)
    sizes = [lhs.dims[dim] for dim in lhs_kept] + [rhs.dims[dim] for dim in rhs_kept]
    dynamic = [lhs.is_dynamic(dim) for dim in lhs_kept] + [rhs.is_dynamic(dim) for dim in rhs_kept]
    return tuple(sizes), tuple(dynamic)


def infer_dot(request: ShapeRequest) -> Shape:
    """Return `[batch..., lhs free..., rhs free...]`: `f32[4,2,3]`, `f32[4,3,5]` -> `f32[4,2,5]`.

    The element type is the wider of both, or the one that was declared.
    """
    lhs, rhs = array_operand("dot", request, 0), array_operand("dot", request, 1)
    dims, dynamic = dot_dims("dot", lhs, rhs, request.attributes)
    dtype = result_type("dot", wider(lhs.dtype, rhs.dtype), request.declared)
    return ArrayShape(dtype, dims, None, dynamic)


def infer_ragged_dot(request: ShapeRequest) -> Shape:
    """Return the shape of the dot; a ragged contracting dimension adds the groups in front."""
    lhs, rhs, sizes = (array_operand("ragged-dot", request, index) for index in range(3))
    a = request.attributes
    require(
        len(a.lhs_ragged_dims) == 1,
        f"ragged-dot: expected one lhs_ragged_dims, but found {list(a.lhs_ragged_dims)}",
    )
    (ragged,) = a.lhs_ragged_dims
    check_dims("ragged-dot", "lhs ragged dimension", (ragged,), lhs.rank)
    is_free = ragged not in a.lhs_batch_dims + a.lhs_contracting_dims
    require(
        len(a.rhs_group_dims) == int(is_free),
        f"ragged-dot: ragged dimension {ragged} needs {int(is_free)} rhs_group_dims, "
        f"but found {list(a.rhs_group_dims)}",
    )
    dims, dynamic = dot_dims("ragged-dot", lhs, rhs, a, a.rhs_group_dims)
    require(
        sizes.rank >= 1 and sizes.dtype.is_integer,
        f"ragged-dot: group sizes must be integers of rank 1 or more, "
        f"but are {sizes.text_without_layout}",
    )
    groups = sizes.dims[-1]
    if is_free:
        found = rhs.dims[a.rhs_group_dims[0]]
        require(
            same_size(found, groups),
            f"ragged-dot: rhs has {found} groups, but there are {groups} group sizes",
        )
    outer = tuple(lhs.dims[dim] for dim in _outer_dims(lhs.rank, a))
    require(
        sizes.rank == 1 or sizes.dims[:-1] == outer,
        f"ragged-dot: group sizes {sizes.text_without_layout} must have dimensions "
        f"[{','.join(map(str, (*outer, groups)))}] or [{groups}]",
    )
    if ragged in a.lhs_contracting_dims:
        dims, dynamic = (groups, *dims), (False, *dynamic)
    dtype = result_type("ragged-dot", wider(lhs.dtype, rhs.dtype), request.declared)
    return ArrayShape(dtype, dims, None, dynamic)


def _outer_dims(rank: int, a: RaggedDotAttributes) -> tuple[int, ...]:
    """Return the lhs dimensions with separate group sizes."""
    (ragged,) = a.lhs_ragged_dims
    if ragged in a.lhs_batch_dims:
        return a.lhs_batch_dims[: a.lhs_batch_dims.index(ragged)]
    if ragged in a.lhs_contracting_dims:
        before = a.lhs_contracting_dims[: a.lhs_contracting_dims.index(ragged)]
        return a.lhs_batch_dims + before
    free = free_dims(rank, a.lhs_batch_dims, a.lhs_contracting_dims)
    return a.lhs_batch_dims + free[: free.index(ragged)]


def infer_scaled_dot(request: ShapeRequest) -> Shape:
    """Check the declared shape of a dot of operands 0 and 1 with block scales 2 and 3.

    A scale is a scalar or has the rank of its operand, each size dividing the operand's.
    """
    lhs, rhs, *scales = (array_operand("scaled-dot", request, index) for index in range(4))
    declared = declared_shape("scaled-dot", request)
    dims, dynamic = dot_dims("scaled-dot", lhs, rhs, request.attributes)
    for shape in (lhs, rhs, *scales):
        require(
            not shape.dtype.is_complex,
            f"scaled-dot: operands cannot be complex, but one is {shape.text_without_layout}",
        )
    for operand, scale in zip((lhs, rhs), scales, strict=True):
        fits = scale.rank == 0 or (
            scale.rank == operand.rank
            and all(
                same_size(part, 1) or (part > 0 and size % part == 0)
                for size, part in zip(operand.dims, scale.dims, strict=True)
            )
        )
        require(
            fits,
            f"scaled-dot: scale {scale.text_without_layout} does not divide "
            f"{operand.text_without_layout}",
        )
    dtype = declared.dtype if isinstance(declared, ArrayShape) else lhs.dtype
    require(
        dtype.is_float,
        f"scaled-dot: the result must be float, but is {declared.text_without_layout}",
    )
    return ArrayShape(dtype, dims, None, dynamic)


# ---------------------------------------------------------------- evaluation


def _batch(a: ContractionDims) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return a.lhs_batch_dims, a.rhs_batch_dims


def _contracting(a: ContractionDims) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return a.lhs_contracting_dims, a.rhs_contracting_dims


def _evaluate_dot(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    a = inst.attributes
    return contract(operands[0], operands[1], _batch(a), _contracting(a), inst.array.dtype)


def _evaluate_ragged_dot(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    """Evaluate by a masked dot per group.

    Source: `jax.lax.ragged_dot_general`, whose three modes are the kinds of the ragged dimension.
    """
    lhs, rhs, sizes = operands
    a = inst.attributes
    dtype = inst.array.dtype
    (ragged,) = a.lhs_ragged_dims
    if ragged in a.lhs_batch_dims:
        return contract(lhs, rhs, _batch(a), _contracting(a), dtype)
    result = np.zeros(inst.array.dims, dtype.numpy)
    for group, mask in enumerate(_group_masks(lhs, sizes, a)):
        if ragged in a.lhs_contracting_dims:
            chosen = np.where(mask, lhs, np.zeros((), lhs.dtype))
            result[group] = contract(chosen, rhs, _batch(a), _contracting(a), dtype)
        else:
            part = _dot_of_group(lhs, rhs, group, a, dtype)
            free = free_dims(lhs.ndim, a.lhs_batch_dims, a.lhs_contracting_dims)
            order = (*a.lhs_batch_dims, *free, *a.lhs_contracting_dims)
            kept = mask.transpose(order).reshape(
                [mask.shape[dim] for dim in (*a.lhs_batch_dims, *free)]
                + [1] * (part.ndim - len(a.lhs_batch_dims) - len(free))
            )
            result = np.where(kept, part, result)
    return result


def _dot_of_group(
    lhs: Array, rhs: Array, group: int, a: RaggedDotAttributes, dtype: DType
) -> Array:
    """Return the dot of all of `lhs` with the part of `rhs` that belongs to `group`."""
    (dim,) = a.rhs_group_dims
    batch = (a.lhs_batch_dims, _renumbered(a.rhs_batch_dims, dim))
    contracting = (a.lhs_contracting_dims, _renumbered(a.rhs_contracting_dims, dim))
    return contract(lhs, np.take(rhs, group, axis=dim), batch, contracting, dtype)


def _renumbered(dims: tuple[int, ...], gone: int) -> tuple[int, ...]:
    return tuple(dim - (dim > gone) for dim in dims)


def _group_masks(lhs: Array, sizes: Array, a: RaggedDotAttributes) -> list[Array]:
    """Return one mask per group, which broadcasts against `lhs`."""
    (ragged,) = a.lhs_ragged_dims
    outer = _outer_dims(lhs.ndim, a)
    ends = np.cumsum(sizes.astype(np.int64), axis=-1)
    if sizes.ndim == 1:
        outer = ()
    positions = np.arange(lhs.shape[ragged])
    masks = []
    for group in range(sizes.shape[-1]):
        end = ends[..., group, np.newaxis]
        start = end - sizes[..., group, np.newaxis].astype(np.int64)
        mask = (positions >= start) & (positions < end)
        order = np.argsort([*outer, ragged])
        expanded = [1] * lhs.ndim
        for dim in (*outer, ragged):
            expanded[dim] = lhs.shape[dim]
        masks.append(mask.transpose(*order).reshape(expanded))
    return masks


def _evaluate_scaled_dot(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    lhs, rhs, lhs_scale, rhs_scale = operands
    a = inst.attributes
    left, right = _scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale)
    return contract(left, right, _batch(a), _contracting(a), inst.array.dtype)


def _scaled(array: Array, scale: Array) -> Array:
    """Return `array` in f64 times its scale, each scale repeated over its block."""
    factor = scale.astype(np.float64)
    if factor.ndim:
        for dim, size in enumerate(array.shape):
            factor = np.repeat(factor, size // max(1, factor.shape[dim]), axis=dim)
    return array.astype(np.float64) * factor


# ---------------------------------------------------------------- factors


def _factors_of_dot(draft: FactorDraft, inst: Instruction) -> None:
    """Batch dimensions have a factor in operands and result, contracted ones in both operands."""
    at, (lhs, rhs) = inst.attributes, (operand.array for operand in inst.operands[:2])
    if len(inst.operands) > 2:
        return
    left, right = draft.operands
    result: list[int] = []
    for a, b in zip(at.lhs_batch_dims, at.rhs_batch_dims, strict=True):
        left[a] = right[b] = draft.factor(lhs.dims[a])
        result.append(left[a])
    for a, b in zip(at.lhs_contracting_dims, at.rhs_contracting_dims, strict=True):
        left[a] = right[b] = draft.factor(lhs.dims[a])
        draft.reductions.add(left[a])
    for side, shape in ((left, lhs), (right, rhs)):
        for dim in range(shape.rank):
            if side[dim] == WHOLE:
                side[dim] = draft.factor(shape.dims[dim])
                result.append(side[dim])
    draft.results[0] = result


# ---------------------------------------------------------------- rows

DOT = define(
    reads="dot(x, y) sums x * y over the contracting dimensions: batch, free of x, free of y",
    infer=infer_dot,
    attributes=DotAttributes,
    evaluate=_evaluate_dot,
    factors=_factors_of_dot,
    flops=2,
    contraction=True,
    keeps_finite=True,
)

RAGGED_DOT = define(
    reads="ragged-dot(x, y, sizes) is a dot per group of rows of x, with its part of y",
    infer=infer_ragged_dot,
    attributes=RaggedDotAttributes,
    evaluate=_evaluate_ragged_dot,
    flops=2,
    contraction=True,
)

SCALED_DOT = define(
    reads="scaled-dot(x, y, sx, sy) is dot(x * sx, y * sy), scales repeated over blocks",
    infer=infer_scaled_dot,
    shape_required=True,
    attributes=DotAttributes,
    evaluate=_evaluate_scaled_dot,
    flops=2,
    contraction=True,
)
