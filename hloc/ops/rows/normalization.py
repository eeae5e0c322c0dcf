"""Batch normalisation: batch-norm-training, batch-norm-inference, batch-norm-grad."""

from __future__ import annotations

import numpy as np

from hloc.dtypes import Array
from hloc.ir.attribute_fields import attr
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, ShapeRequest, define
from hloc.lazy_dataclass import dataclass
from hloc.ops.array_values import narrowed
from hloc.ops.checks import array_operand, check_dims, require, same_type
from hloc.shapes import ArrayShape, Shape, TupleShape, same_dims


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormAttributes:
    epsilon: float = attr("float")
    feature_index: int = attr("int")


def _checked(name: str, request: ShapeRequest, vectors: range) -> ArrayShape:
    """Return the operand's shape; `vectors` are the operands with one value per feature."""
    operand = array_operand(name, request, 0)
    feature = request.attributes.feature_index
    check_dims(name, "feature_index", (feature,), operand.rank)
    require(
        operand.dtype.is_float,
        f"{name}: operand 0 must be of a float type, but is {operand.text_without_layout}",
    )
    for index in vectors:
        shape = array_operand(name, request, index)
        require(
            shape.dims == (operand.dims[feature],) and same_type(shape.dtype, operand.dtype),
            f"{name}: operand {index} must have one value for each of the "
            f"{operand.dims[feature]} features, but is {shape.text_without_layout}",
        )
    return operand


def _with_vectors(operand: ArrayShape, vector: ArrayShape) -> TupleShape:
    return TupleShape((operand, vector, vector))


def infer_training(request: ShapeRequest) -> Shape:
    """Return `(normalised, mean, variance)`: `f32[8,4]` -> `(f32[8,4], f32[4], f32[4])`."""
    operand = _checked("batch-norm-training", request, range(1, 3))
    return _with_vectors(operand, array_operand("batch-norm-training", request, 1))


def infer_inference(request: ShapeRequest) -> Shape:
    """Return the operand's shape."""
    return _checked("batch-norm-inference", request, range(1, 5))


def infer_grad(request: ShapeRequest) -> Shape:
    """Return `(gradient of operand, of scale, of offset)`."""
    operand = _checked("batch-norm-grad", request, range(1, 4))
    output = array_operand("batch-norm-grad", request, 4)
    require(
        same_dims(output, operand) and same_type(output.dtype, operand.dtype),
        f"batch-norm-grad: operand 4 has shape {output.text_without_layout}, "
        f"but operand 0 has shape {operand.text_without_layout}",
    )
    return _with_vectors(operand, array_operand("batch-norm-grad", request, 1))


def _wide(inst: Instruction, operands: Operands) -> tuple[list[Array], tuple[int, ...]]:
    """Return the operands in f64, vectors shaped to broadcast, and the dimensions summed over."""
    rank = operands[0].ndim
    feature = inst.attributes.feature_index
    expanded = [1] * rank
    expanded[feature] = operands[0].shape[feature]
    values = []
    for operand in operands:
        value = operand.astype(np.float64)
        values.append(value if operand.ndim == rank and rank > 1 else value.reshape(expanded))
    return values, tuple(dim for dim in range(rank) if dim != feature)


def _rounded(inst: Instruction, arrays: tuple[Array, ...]) -> HostValue:
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    results = tuple(
        narrowed(array.reshape(shape.dims), shape.dtype)
        for array, shape in zip(arrays, shapes, strict=True)
        if isinstance(shape, ArrayShape)
    )
    return results if isinstance(inst.shape, TupleShape) else results[0]


def _evaluate_training(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    (x, scale, offset), dims = _wide(inst, operands)
    mean, variance = x.mean(dims, keepdims=True), x.var(dims, keepdims=True)
    result = (x - mean) / np.sqrt(variance + inst.attributes.epsilon) * scale + offset
    return _rounded(inst, (result, mean, variance))


def _evaluate_inference(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    (x, scale, offset, mean, variance), _ = _wide(inst, operands)
    result = (x - mean) / np.sqrt(variance + inst.attributes.epsilon) * scale + offset
    return _rounded(inst, (result,))


def _evaluate_grad(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    (x, scale, mean, variance, grad), dims = _wide(inst, operands)
    inverse = 1 / np.sqrt(variance + inst.attributes.epsilon)
    normalised = (x - mean) * inverse
    grad_scale = (grad * normalised).sum(dims, keepdims=True)
    grad_offset = grad.sum(dims, keepdims=True)
    count = x.size / max(1, x.shape[inst.attributes.feature_index])
    grad_x = scale * inverse * (grad - grad_offset / count - normalised * grad_scale / count)
    return _rounded(inst, (grad_x, grad_scale, grad_offset))


BATCH_NORM_TRAINING = define(
    reads="batch-norm-training(x, scale, offset) is (normalised x, mean, biased variance)",
    infer=infer_training,
    attributes=BatchNormAttributes,
    evaluate=_evaluate_training,
    flops=8,
)

BATCH_NORM_INFERENCE = define(
    reads="batch-norm-inference(x, s, o, m, v) is (x - m) / sqrt(v + epsilon) * s + o",
    infer=infer_inference,
    attributes=BatchNormAttributes,
    evaluate=_evaluate_inference,
    flops=6,
)

BATCH_NORM_GRAD = define(
    reads="batch-norm-grad(x, s, m, v, dy) is the gradient for (x, scale, offset)",
    infer=infer_grad,
    attributes=BatchNormAttributes,
    evaluate=_evaluate_grad,
    flops=12,
)
