"""Comparison and choice: compare, select, clamp."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hloc.dtypes import F32, PRED, U8, Array, DType
from hloc.errors import HloError
from hloc.ir.attribute_fields import attr
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CallFunction,
    HostValue,
    Operands,
    ScalarBuilder,
    ShapeRequest,
    define,
)
from hloc.lazy_dataclass import dataclass
from hloc.ops import emit
from hloc.ops.array_values import compute_type, larger, narrowed, pointwise, smaller
from hloc.ops.emit import Value, same_type, signed_of
from hloc.ops.ordering import total_order_key
from hloc.ops.shape_rules import NO_BROADCAST, array_operand, joined, promote, shapes_differ
from hloc.shapes import ArrayShape, Shape, same_dims

DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
COMPARISON_TYPES = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")

# ---------------------------------------------------------------- compare


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareAttributes:
    """`direction=LT, type=TOTALORDER`; an empty `type` is the default of the operand type."""

    direction: str = attr("enum", choices=DIRECTIONS)
    type: str = attr("enum", default="", choices=COMPARISON_TYPES)


def comparison_type(dtype: DType) -> str:
    """Return the `type` that comparing values of `dtype` has if none is written."""
    if dtype.is_float or dtype.is_complex:
        return "FLOAT"
    return "SIGNED" if dtype.is_signed else "UNSIGNED"


def _infer_compare(request: ShapeRequest) -> Shape:
    """Return the shape of both operands with type `pred`."""
    lhs, rhs = array_operand(request, 0), array_operand(request, 1)
    verifying = request.declared is not None
    shape = joined(lhs, rhs, strict=verifying)
    if verifying:
        _check_comparison(shape.dtype, request.attributes)
    return shape.with_dtype(PRED)


def _check_comparison(dtype: DType, attributes: CompareAttributes) -> None:
    direction, written = attributes.direction, attributes.type
    if dtype.is_complex and direction not in ("EQ", "NE"):
        raise HloError(f"direction is {direction}, but complex numbers have only EQ and NE")
    # XLA compares integers and pred by the sign of their type, whatever `type` says.
    integers = () if dtype.is_complex else ("SIGNED", "UNSIGNED")
    allowed = ("FLOAT", "TOTALORDER") if dtype.is_float else integers or (comparison_type(dtype),)
    if written and written not in allowed:
        raise HloError(
            f"type is {written}, but operands of type {dtype} compare as {' or '.join(allowed)}"
        )


_COMPARE = {
    "EQ": "equal",
    "NE": "not_equal",
    "GE": "greater_equal",
    "GT": "greater",
    "LE": "less_equal",
    "LT": "less",
}


def _evaluate_compare(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    dtype = promote(inst.operands[0].array.dtype, inst.operands[1].array.dtype)
    assert dtype is not None, inst
    x, y = (narrowed(operand, dtype) for operand in operands)
    if inst.attributes.type == "TOTALORDER" and dtype.is_float:
        x, y = total_order_key(x), total_order_key(y)
    else:
        x, y = x.astype(compute_type(dtype)), y.astype(compute_type(dtype))
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, _COMPARE[inst.attributes.direction])(x, y))


def _emit_compare(b: ScalarBuilder, inst: Instruction, x: Value, y: Value) -> Value:
    """Compare in a type that has the instruction: `pred` as bytes, narrow floats as f32.

    Total order compares integers that are ordered as the bits of the floats are.
    """
    direction = inst.attributes.direction
    dtype = promote(x.dtype, y.dtype)
    assert dtype is not None, inst
    x, y = same_type(b, x, dtype), same_type(b, y, dtype)
    if dtype.is_complex:
        equal = emit.equal(b, x, y)
        return equal if direction == "EQ" else b.xor(equal, b.const(PRED, True))
    if dtype.is_pred:
        return b.compare(direction, b.convert(x, U8), b.convert(y, U8))
    if dtype.is_float and inst.attributes.type == "TOTALORDER":
        # No integer type has 6 bits, and f8e8m0fnu has no sign; their values are all in f32.
        if dtype.bits == 6 or not dtype.has_sign:
            x, y = b.convert(x, F32), b.convert(y, F32)
        return b.compare(direction, _emit_order_key(b, x), _emit_order_key(b, y))
    if dtype.is_float and dtype.bits < F32.bits:
        return b.compare(direction, b.convert(x, F32), b.convert(y, F32))
    return b.compare(direction, x, y)


def _emit_order_key(b: ScalarBuilder, x: Value) -> Value:
    """Emit a signed integer that orders floats totally: all but the sign flip if negative."""
    signed = signed_of(x.dtype)
    bits = b.bitcast(x, signed)
    magnitude = b.const(signed, (1 << (signed.bits - 1)) - 1)
    negative = b.compare("LT", bits, b.const(signed, 0))
    return b.select(negative, b.xor(bits, magnitude), bits)


COMPARE = define(
    name="compare",
    reads="x EQ, NE, LT, LE, GT or GE y; IEEE for floats, -NaN to NaN with type=TOTALORDER",
    arity=2,
    infer=_infer_compare,
    attributes=CompareAttributes,
    evaluate=_evaluate_compare,
    elemental=_emit_compare,
    flops=1,
    keeps_finite=True,
)

# ---------------------------------------------------------------- select


def _infer_select(request: ShapeRequest) -> Shape:
    """Return the shape of operands 1 and 2; operand 0 is `pred` of that shape or a scalar."""
    pred, on_true, on_false = (array_operand(request, i) for i in range(3))
    if not pred.dtype.is_pred:
        raise HloError(f"operand 0 has shape {pred.text_without_layout}, but pred is needed")
    if promote(on_true.dtype, on_false.dtype) is None or not same_dims(on_true, on_false):
        raise shapes_differ(2, on_false, on_true, other="operand 1")
    if pred.rank and not same_dims(pred, on_true):
        raise shapes_differ(0, pred, on_true, NO_BROADCAST, other="operand 1")
    shape = joined(on_true, on_false)
    same_type = on_true.dtype is on_false.dtype
    return replace(shape, layout=on_true.layout if same_type else None)


def _evaluate_select(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    pred, on_true, on_false = operands
    dtype = inst.array.dtype
    return np.where(pred, narrowed(on_true, dtype), narrowed(on_false, dtype))


def _emit_select(b: ScalarBuilder, inst: Instruction, pred: Value, x: Value, y: Value) -> Value:
    dtype = inst.array.dtype
    x, y = same_type(b, x, dtype), same_type(b, y, dtype)
    if not dtype.is_complex:
        return b.select(pred, x, y)
    real = b.select(pred, b.real(x), b.real(y))
    return b.complex(real, b.select(pred, b.imag(x), b.imag(y)))


SELECT = define(
    reads="select(p, x, y) = x where p, else y; p may be a scalar",
    infer=_infer_select,
    evaluate=_evaluate_select,
    elemental=_emit_select,
    flops=1,
    keeps_finite=True,
)

# ---------------------------------------------------------------- clamp


def _infer_clamp(request: ShapeRequest) -> Shape:
    """Return the shape of operand 1; the bounds have that shape or are scalars."""
    low, x, high = (array_operand(request, i) for i in range(3))
    for index, bound in ((0, low), (2, high)):
        if promote(bound.dtype, x.dtype) is None:
            raise shapes_differ(index, bound, x, "element types must be equal", other="operand 1")
        if bound.rank and not same_dims(bound, x):
            raise shapes_differ(index, bound, x, NO_BROADCAST, other="operand 1")
    if request.declared is not None and x.dtype.is_complex:
        raise HloError("operand 1 is complex, but clamp needs numbers that have an order")
    return _with_bounds_dynamic(x, (low, high))


def _with_bounds_dynamic(x: ArrayShape, bounds: tuple[ArrayShape, ...]) -> ArrayShape:
    flags = [x.is_dynamic(dim) for dim in range(x.rank)]
    for bound in bounds:
        if bound.rank:
            flags = [flag or bound.is_dynamic(dim) for dim, flag in enumerate(flags)]
    return x if tuple(flags) == x.dynamic or not any(flags) else replace(x, dynamic=tuple(flags))


def _clamp(low: Array, x: Array, high: Array) -> Array:
    return smaller(high, larger(x, low))


def _emit_clamp(b: ScalarBuilder, inst: Instruction, *operands: Value) -> Value:
    dtype = inst.array.dtype
    low, x, high = (same_type(b, operand, dtype) for operand in operands)
    if dtype.is_pred:
        return b.and_(high, b.or_(x, low))
    if dtype.is_float:
        return emit.in_f32(_emit_clamp_float)(b, low, x, high)
    raised = b.select(b.compare("GE", x, low), x, low)
    return b.select(b.compare("LE", raised, high), raised, high)


def _emit_clamp_float(b: ScalarBuilder, low: Value, x: Value, high: Value) -> Value:
    return b.intrinsic("minimum", b.intrinsic("maximum", x, low), high)


CLAMP = define(
    reads="clamp(low, x, high) = min(high, max(x, low)); NaN if any is NaN; scalar bounds fit",
    infer=_infer_clamp,
    evaluate=pointwise(_clamp),
    elemental=_emit_clamp,
    flops=2,
    keeps_finite=True,
)
