"""Rounding to a float format of fewer bits without a change of type: reduce-precision."""

from __future__ import annotations

import numpy as np

from hloc.dtypes import F32, Array, DType
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
from hloc.ops.array_values import narrowed
from hloc.ops.emit import Value, unsigned_of
from hloc.ops.shape_rules import array_operand
from hloc.ops.type_classes import check_type, is_float
from hloc.shapes import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducePrecisionAttributes:
    """The float format whose values are kept."""

    exponent_bits: int = attr("int")
    mantissa_bits: int = attr("int")


def _infer_reduce_precision(request: ShapeRequest) -> Shape:
    """Return the operand's shape, of a float type."""
    operand = array_operand(request, 0)
    check_type(operand, is_float, "operand 0")
    attributes: ReducePrecisionAttributes = request.attributes
    if attributes.exponent_bits < 1:
        raise HloError(f"exponent_bits is {attributes.exponent_bits}, but must be at least 1")
    if attributes.mantissa_bits < 0:
        raise HloError(f"mantissa_bits is {attributes.mantissa_bits}, but must not be negative")
    return operand


def _evaluate_reduce_precision(
    inst: Instruction, operands: Operands, call: CallFunction
) -> HostValue:
    dtype, attributes = inst.array.dtype, inst.attributes
    source = dtype if dtype.bits >= 16 else F32  # formats without infinities go through f32
    with np.errstate(all="ignore"):
        x = operands[0].astype(np.float64)
        rounded = _quantised(x, source, attributes.mantissa_bits)
        if attributes.exponent_bits < source.exponent_bits:
            rounded = _limited(rounded, attributes.exponent_bits)
        result = narrowed(np.where(np.isnan(x), x, np.copysign(rounded, x)), dtype)
    return np.where(np.isnan(x), operands[0], result)


def _quantised(x: Array, dtype: DType, mantissa_bits: int) -> Array:
    """Round to `mantissa_bits` after the leading bit; denormals by the place of their bits.

    Ties go to the even neighbour, counted by the bits of the format: without mantissa bits it is
    the exponent that is even, so 1.5 and 3 both give 2.
    """
    if mantissa_bits >= dtype.mantissa_bits:
        return x
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    _, exponent = np.frexp(x)
    leading = np.maximum(exponent - 1, 1 - bias)
    place = leading - mantissa_bits
    scaled = np.ldexp(x, -place)
    rounded = np.rint(scaled)
    if mantissa_bits == 0:
        even_exponent = (leading + bias) % 2 == 0
        rounded = np.where((np.abs(scaled) == 1.5) & even_exponent, np.copysign(1, x), rounded)
    rounded = np.ldexp(rounded, place)
    return np.asarray(np.where(np.isfinite(x), rounded, x))


def _limited(x: Array, exponent_bits: int) -> Array:
    """Overflow to infinity and flush to zero what has no normal exponent of that many bits."""
    bias = (1 << (exponent_bits - 1)) - 1
    size = np.abs(x)
    x = np.where(size >= np.ldexp(1.0, bias + 1), np.inf, x)
    return np.where(size < np.ldexp(1.0, 1 - bias), 0.0, x)


def _emit_reduce_precision(b: ScalarBuilder, inst: Instruction, x: Value) -> Value:
    if x.dtype.bits < 16:  # formats without infinities
        return b.convert(_emit_reduce_precision(b, inst, b.convert(x, F32)), x.dtype)
    dtype, unsigned = x.dtype, unsigned_of(x.dtype)
    exponent_bits = inst.attributes.exponent_bits
    dropped = dtype.mantissa_bits - inst.attributes.mantissa_bits
    sign_bit = 1 << (dtype.bits - 1)
    bits = b.bitcast(x, unsigned)
    sign = b.and_(bits, b.const(unsigned, sign_bit))
    size = b.and_(bits, b.const(unsigned, sign_bit - 1))
    infinity = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
    is_nan = b.compare("GT", size, b.const(unsigned, infinity))
    if dropped > 0:
        size = _emit_round_bits(b, size, dropped)
    if exponent_bits < dtype.exponent_bits:
        size = _emit_limit_exponent(b, size, dtype, exponent_bits)
    return b.select(is_nan, x, b.bitcast(b.or_(sign, size), dtype))


def _emit_round_bits(b: ScalarBuilder, size: Value, dropped: int) -> Value:
    """Round the bits of a float to nearest even at bit `dropped`."""
    unsigned = size.dtype
    last = b.lshr(size, b.const(unsigned, dropped))
    odd = b.and_(last, b.const(unsigned, 1))
    up = b.iadd(b.iadd(size, b.const(unsigned, (1 << (dropped - 1)) - 1)), odd)
    kept = ((1 << unsigned.bits) - 1) ^ ((1 << dropped) - 1)
    return b.and_(up, b.const(unsigned, kept))


def _emit_limit_exponent(b: ScalarBuilder, size: Value, dtype: DType, bits: int) -> Value:
    unsigned = size.dtype
    source_bias, bias = (1 << (dtype.exponent_bits - 1)) - 1, (1 << (bits - 1)) - 1
    infinity = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
    overflow = (source_bias + bias + 1) << dtype.mantissa_bits
    smallest = (source_bias - bias + 1) << dtype.mantissa_bits
    too_large = b.compare("GE", size, b.const(unsigned, overflow))
    too_small = b.compare("LT", size, b.const(unsigned, smallest))
    size = b.select(too_large, b.const(unsigned, infinity), size)
    return b.select(too_small, b.const(unsigned, 0), size)


REDUCE_PRECISION = define(
    name="reduce-precision",
    reads="rounds to a format of fewer exponent and mantissa bits; its denormals become 0",
    arity=1,
    infer=_infer_reduce_precision,
    shape_required=True,
    attributes=ReducePrecisionAttributes,
    evaluate=_evaluate_reduce_precision,
    elemental=_emit_reduce_precision,
    flops=1,
)
