"""Convolution of any rank, with strides, dilations, groups and reversed windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.ir.attribute_fields import attr
from hloc.ir.attributes import ConvolutionDimensions, RawText, Window
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.lazy_dataclass import dataclass
from hloc.ops.block_sparsity import dense_operands, whole_arrays
from hloc.ops.checks import array_operand, require, result_type, same_size, wider
from hloc.ops.contraction import ALGORITHMS, is_integer, precisions, rounded_sum, wide_matmul
from hloc.ops.windows import overlap, window_of, windowed_dims
from hloc.shapes import UNBOUNDED, ArrayShape, Shape

CONVOLUTION_KINDS = ("unset", "fprop", "dgrad", "wgrad")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionAttributes:
    window: Window | None = attr("window", default=None)
    dim_labels: ConvolutionDimensions = attr("dim_labels")
    feature_group_count: int = attr("int", default=1)
    batch_group_count: int = attr("int", default=1)
    convolution_kind: str = attr("enum", default="unset", choices=CONVOLUTION_KINDS)
    operand_precision: tuple[str, ...] = precisions()
    algorithm: str = attr("enum", default="", choices=ALGORITHMS, fold_case=True)
    sparsity_config: RawText | None = attr("raw", default=None)


# ---------------------------------------------------------------- shape rule


def infer_convolution(request: ShapeRequest) -> Shape:
    """Return `[batch, features, spatial...]` in the order of `dim_labels`.

    `f32[1,8,8,3]`, `f32[3,3,3,16]`, `stride=2x2 pad=1_1x1_1` -> `f32[1,4,4,16]`.
    """
    name = "convolution"
    request = replace(request, operands=dense_operands(name, request))
    lhs, rhs = array_operand(name, request, 0), array_operand(name, request, 1)
    attributes = request.attributes
    labels: ConvolutionDimensions = attributes.dim_labels
    spatial = len(labels.input_spatial)
    for index, shape in enumerate((lhs, rhs)):
        require(
            shape.rank == spatial + 2,
            f"{name}: operand {index} must have rank {spatial + 2} for {labels}, "
            f"but is {shape.text_without_layout}",
        )
    _check_labels(labels, spatial + 2)
    window = window_of(name, attributes.window, spatial)
    _check_kernel(rhs, labels, window)
    batch, features = _check_groups(lhs, rhs, attributes)
    base = tuple(lhs.dims[dim] for dim in labels.input_spatial)
    dims = [0] * (spatial + 2)
    dims[labels.output_batch], dims[labels.output_feature] = batch, features
    sizes = windowed_dims(name, base, window)
    for dim, size in zip(labels.output_spatial, sizes, strict=True):
        dims[dim] = size
    dtype = result_type(name, wider(lhs.dtype, rhs.dtype), request.declared)
    return ArrayShape(dtype, tuple(dims))


def _check_labels(labels: ConvolutionDimensions, rank: int) -> None:
    roles = (
        (labels.input_batch, labels.input_feature, *labels.input_spatial),
        (labels.kernel_input_feature, labels.kernel_output_feature, *labels.kernel_spatial),
        (labels.output_batch, labels.output_feature, *labels.output_spatial),
    )
    for dims in roles:
        require(
            sorted(dims) == list(range(rank)),
            f"convolution: dim_labels {labels} do not name each of {rank} dimensions once",
        )


def _check_kernel(rhs: ArrayShape, labels: ConvolutionDimensions, window: Window) -> None:
    for dim, d in zip(labels.kernel_spatial, window.dimensions, strict=True):
        require(
            same_size(rhs.dims[dim], d.size),
            f"convolution: the window has size {d.size}, but dimension {dim} of the kernel "
            f"{rhs.text_without_layout} has {rhs.dims[dim]}",
        )


def _check_groups(
    lhs: ArrayShape, rhs: ArrayShape, attributes: ConvolutionAttributes
) -> tuple[int, int]:
    """Return batch and features of the result."""
    labels = attributes.dim_labels
    groups, batch_groups = attributes.feature_group_count, attributes.batch_group_count
    for what, count in (("feature", groups), ("batch", batch_groups)):
        require(count >= 1, f"convolution: {what}_group_count must be at least 1, but is {count}")
    require(
        groups == 1 or batch_groups == 1,
        f"convolution: feature_group_count {groups} and batch_group_count {batch_groups} "
        "cannot both be above 1",
    )
    batch, inputs = lhs.dims[labels.input_batch], lhs.dims[labels.input_feature]
    kernel_inputs = rhs.dims[labels.kernel_input_feature]
    outputs = rhs.dims[labels.kernel_output_feature]
    require(
        UNBOUNDED in (inputs, kernel_inputs) or inputs == kernel_inputs * groups,
        f"convolution: {inputs} input features do not match {kernel_inputs} of the kernel "
        f"in {groups} groups",
    )
    for what, size, count in (
        ("output features", outputs, groups),
        ("output features", outputs, batch_groups),
        ("batch", batch, batch_groups),
    ):
        require(
            size == UNBOUNDED or size % count == 0,
            f"convolution: {what} {size} cannot be divided into {count} groups",
        )
    return (batch if batch == UNBOUNDED else batch // batch_groups), outputs


# ---------------------------------------------------------------- evaluation


def _evaluate_convolution(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    attributes: ConvolutionAttributes = inst.attributes
    labels = attributes.dim_labels
    window = attributes.window or Window()
    lhs, rhs = whole_arrays(attributes.sparsity_config, operands)
    base, kernel = _grouped(lhs, rhs, attributes)
    spatial = tuple(inst.array.dims[dim] for dim in labels.output_spatial)
    by_kernel = prod(kernel.shape[3:]) <= prod(spatial)
    wide = (_by_kernel_position if by_kernel else _by_output_position)(
        base, kernel, window, spatial
    )
    groups, batch, features = wide.shape[:3]
    joined = np.moveaxis(wide, 0, 1).reshape(batch, groups * features, *spatial)
    order = (labels.output_batch, labels.output_feature, *labels.output_spatial)
    return rounded_sum(joined.transpose(np.argsort(order)), inst.array.dtype)


def _grouped(lhs: Array, rhs: Array, attributes: ConvolutionAttributes) -> tuple[Array, Array]:
    """Return base `[group, batch, feature, spatial...]`, kernel `[group, out, in, spatial...]`."""
    labels = attributes.dim_labels
    base = lhs.transpose(labels.input_batch, labels.input_feature, *labels.input_spatial)
    kernel = rhs.transpose(
        labels.kernel_output_feature, labels.kernel_input_feature, *labels.kernel_spatial
    )
    for axis, d in enumerate((attributes.window or Window()).dimensions):
        if d.reversal:
            kernel = np.flip(kernel, axis=2 + axis)
    count = attributes.feature_group_count * attributes.batch_group_count
    batch, features = base.shape[:2]
    if attributes.batch_group_count > 1:
        base = base.reshape(count, batch // count, features, *base.shape[2:])
    else:
        base = base.reshape(batch, count, features // count, *base.shape[2:]).swapaxes(0, 1)
    return base, kernel.reshape(count, kernel.shape[0] // count, *kernel.shape[1:])


def _by_kernel_position(
    base: Array, kernel: Array, window: Window, spatial: tuple[int, ...]
) -> Array:
    """Sum one matrix product per element of the kernel: `[group, batch, out, ...]`."""
    groups, outputs, features = kernel.shape[:3]
    batch, sizes = base.shape[1], base.shape[3:]
    total = _zeros(base, kernel, (groups, batch, *spatial, outputs))
    if not base.size or not kernel.size:
        return np.moveaxis(total, -1, 2)
    # Features last and floats widened once, since every step below reads rows of them.
    rows = np.ascontiguousarray(np.moveaxis(base, 2, -1))
    matrices = np.ascontiguousarray(np.moveaxis(kernel, (2, 1), (-2, -1)))
    if not is_integer(total.dtype):
        rows, matrices = rows.astype(total.dtype), matrices.astype(total.dtype)
    for position in product(*(range(d.size) for d in window.dimensions)):
        overlaps = [
            overlap(count, d.stride, at * d.window_dilation - d.pad_low, d.base_dilation, size)
            for count, at, size, d in zip(spatial, position, sizes, window.dimensions, strict=True)
        ]
        pairs = [pair for pair in overlaps if pair is not None]
        if len(pairs) < len(overlaps):
            continue
        read = rows[_at(2, [pair[1] for pair in pairs])].reshape(groups, -1, features)
        term = wide_matmul(read, matrices[_at(1, position)])
        written = total[_at(2, [pair[0] for pair in pairs])]
        written += term.reshape(written.shape)
    return np.moveaxis(total, -1, 2)


def _by_output_position(
    base: Array, kernel: Array, window: Window, spatial: tuple[int, ...]
) -> Array:
    """Compute one matrix product per element of the result; for kernels larger than it."""
    groups, outputs = kernel.shape[:2]
    batch = base.shape[1]
    total = _zeros(base, kernel, (groups, batch, outputs, *spatial))
    if not base.size or not kernel.size:
        return total
    for position in product(*(range(size) for size in spatial)):
        overlaps = [
            overlap(d.size, d.window_dilation, at * d.stride - d.pad_low, d.base_dilation, size)
            for at, size, d in zip(position, base.shape[3:], window.dimensions, strict=True)
        ]
        pairs = [pair for pair in overlaps if pair is not None]
        if len(pairs) < len(overlaps):
            continue
        rows = base[_at(3, [pair[1] for pair in pairs])].reshape(groups, batch, -1)
        matrix = kernel[_at(3, [pair[0] for pair in pairs])].reshape(groups, outputs, -1)
        total[_at(3, position)] = wide_matmul(rows, matrix.swapaxes(1, 2))
    return total


def _at(leading: int, index: Sequence[Any]) -> tuple[Any, ...]:
    """Return a full index of the `leading` dimensions, followed by `index`."""
    return (*[slice(None)] * leading, *index)


def _zeros(base: Array, kernel: Array, dims: tuple[int, ...]) -> Array:
    """Return zeros of the type that `wide_matmul` computes in."""
    sample = wide_matmul(np.zeros((1, 1), base.dtype), np.zeros((1, 1), kernel.dtype))
    return np.zeros(dims, sample.dtype)


# ---------------------------------------------------------------- factors


def _factors(draft: FactorDraft, inst: Instruction) -> None:
    """Link batch, output features and, summed, input features; spatial dimensions are whole."""
    at = inst.attributes
    if at.batch_group_count != 1 or at.feature_group_count != 1 or at.sparsity_config:
        return
    labels = at.dim_labels
    lhs, rhs = (operand.array for operand in inst.operands[:2])
    left, right = draft.operands[:2]
    result = draft.results[0]
    batch = draft.factor(lhs.dims[labels.input_batch])
    left[labels.input_batch] = result[labels.output_batch] = batch
    out = draft.factor(rhs.dims[labels.kernel_output_feature])
    right[labels.kernel_output_feature] = result[labels.output_feature] = out
    depth = draft.factor(lhs.dims[labels.input_feature])
    left[labels.input_feature] = right[labels.kernel_input_feature] = depth
    draft.reductions.add(depth)


# ---------------------------------------------------------------- row

CONVOLUTION = define(
    reads="convolution(x, k) sums x * k over the window and the input features",
    arity=None,
    infer=infer_convolution,
    attributes=ConvolutionAttributes,
    evaluate=_evaluate_convolution,
    factors=_factors,
    flops=2,
    contraction=True,
)
