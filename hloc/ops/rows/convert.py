"""Changes of element type: convert, bitcast-convert, stochastic-convert.

Source: XLA's `literal.cc` and CPU run time; samples in tests/unit/ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.dtypes import F32, Array, DType
from hloc.errors import HloError
from hloc.ir.factors import FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CallFunction,
    HostValue,
    Operands,
    ScalarBuilder,
    ShapeRequest,
    define,
)
from hloc.ops.array_values import compute_type, narrowed, round_once, unsigned_bits, wrap_small
from hloc.ops.emit import Value
from hloc.ops.shape_rules import NO_BROADCAST, array_operand, declared_array, shapes_differ
from hloc.ops.type_classes import check_type, is_float, is_integer
from hloc.shapes import ArrayShape, Shape, same_dims


def _same_dims_as_operand(request: ShapeRequest) -> tuple[ArrayShape, ArrayShape]:
    """Return operand and result of an instruction that changes the element type only."""
    operand, result = array_operand(request, 0), declared_array(request)
    if not same_dims(operand, result):
        raise shapes_differ(0, operand, result, NO_BROADCAST, other="the result")
    return operand, result


# ---------------------------------------------------------------- convert


def _infer_convert(request: ShapeRequest) -> Shape:
    """Return the declared shape, whose sizes are the operand's; complex stays complex."""
    operand, result = _same_dims_as_operand(request)
    if operand.dtype.is_complex and not result.dtype.is_complex:
        raise HloError(
            f"cannot convert {operand.dtype} to {result.dtype}, the imaginary part would be lost",
            notes=("take real or imag first",),
        )
    return result


def _evaluate_convert(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    return converted(operands[0], inst.operands[0].array.dtype, inst.array.dtype)


def converted(x: Array, source: DType, target: DType) -> Array:
    """Return `x` of type `source` in type `target`, by HLO's rules.

    Floats to integers truncate, saturate, and NaN gives 0; integers wrap; floats round to nearest
    even, once; anything but zero is true.
    """
    if source is target:
        return x
    with np.errstate(all="ignore"):
        if target.is_pred:
            return np.asarray(x.astype(_wide(source)) != 0)
        if source.is_float and target.is_integer:
            return _saturated(x.astype(np.float64), target)
        if target.is_integer:
            return _wrapped(x.astype(_wide(source)), target)
        if source.is_integer and target.is_float and target.bits < 32:
            return round_once(_sticky_float64(x.astype(_wide(source))), target)
        if source.is_complex or target.is_complex:
            return np.asarray(x.astype(_wide(source)).astype(target.numpy))
        return narrowed(x.astype(_wide(source)), target)


def _wide(dtype: DType) -> np.dtype[Any]:
    """Return a built-in NumPy type that holds every value of `dtype`."""
    return np.dtype(np.uint8) if dtype.is_pred else compute_type(dtype)


def _wrapped(x: Array, target: DType) -> Array:
    return wrap_small(x, target) if target.bits < 8 else x.astype(target.numpy)


def _saturated(x: Array, target: DType) -> Array:
    """Truncate float64 to an integer type, clamped to its range."""
    bits = target.bits - target.is_signed
    low, high = (-(1 << bits) if target.is_signed else 0), (1 << bits) - 1
    # 2^63 and 2^64 are floats; the largest integers below them are not.
    inside = (x > low - 1.0) & (x < float(1 << bits)) & ~np.isnan(x)
    wide = np.int64 if target.is_signed else np.uint64
    whole = np.trunc(np.where(inside, x, 0.0)).astype(wide)
    whole = np.where(inside | np.isnan(x), whole, np.where(x < 0, wide(low), wide(high)))
    return _wrapped(whole.astype(wide), target)


def _sticky_float64(x: Array) -> Array:
    """Return integers as float64 values that round to a narrow float as the integers would."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    low = x.dtype.type((1 << 11) - 1)
    lost = x & low
    odd = (x - lost) | np.where(lost != 0, x.dtype.type(1 << 11), x.dtype.type(0))
    exact = np.abs(x.astype(np.float64)) < float(1 << 53)
    return np.where(exact, x.astype(np.float64), odd.astype(np.float64))


CONVERT = define(
    name="convert",
    reads="the same value in another element type; to integers truncated and saturated",
    arity=1,
    infer=_infer_convert,
    shape_required=True,
    evaluate=_evaluate_convert,
    elemental=lambda b, inst, x: b.convert(x, inst.array.dtype),
    flops=1,
    keeps_finite=True,
)

# ---------------------------------------------------------------- bitcast-convert


def memory_bits(dtype: DType) -> int:
    """Return the width of a value where types are reinterpreted: pred takes 8 bits."""
    return 8 if dtype.is_pred else dtype.bits


def _infer_bitcast_convert(request: ShapeRequest) -> Shape:
    """Check the declared shape: `f32[8]` -> `u32[8]`, `u8[8,4]`; `u8[8,4]` -> `f32[8]`."""
    operand, result = array_operand(request, 0), declared_array(request)
    old, new = memory_bits(operand.dtype), memory_bits(result.dtype)
    if operand.dtype.is_complex != result.dtype.is_complex:
        raise HloError(f"cannot bitcast {operand.dtype} to {result.dtype}: one of them is complex")
    expected = operand.dims
    if old > new and old % new == 0:
        expected = (*operand.dims, old // new)
    elif old < new and operand.dims and new == old * operand.dims[-1]:
        expected = operand.dims[:-1]
    elif old != new:
        raise HloError(
            f"cannot bitcast {operand.text_without_layout} to {result.dtype}: "
            f"the last dimension must hold {new}/{old} elements"
        )
    if not same_dims(ArrayShape(result.dtype, expected), result):
        raise HloError(
            f"result has shape {result.text_without_layout}, "
            f"but {ArrayShape(result.dtype, expected).text_without_layout} is needed"
        )
    return result


def _evaluate_bitcast_convert(
    inst: Instruction, operands: Operands, call: CallFunction
) -> HostValue:
    source, target = inst.operands[0].array.dtype, inst.array.dtype
    old, new = memory_bits(source), memory_bits(target)
    if source.is_complex or target.is_complex:
        return _regrouped(operands[0], target, old, new)
    bits = _as_unsigned(operands[0], source)
    if old > new:
        shifts = np.arange(0, old, new, dtype=bits.dtype)
        bits = (bits[..., None] >> shifts) & bits.dtype.type((1 << new) - 1)
    elif old < new:
        wide = bits.astype(f"u{max(new // 8, 1)}")
        shifts = np.arange(0, new, old, dtype=wide.dtype)
        bits = np.bitwise_or.reduce(wide << shifts, axis=-1)
    return _from_unsigned(bits, target)


def _regrouped(x: Array, target: DType, old: int, new: int) -> Array:
    data = np.ascontiguousarray(x)
    if old == new:
        return data.view(target.numpy).reshape(x.shape)
    if old > new:
        return data.reshape(*x.shape, 1).view(target.numpy)
    return data.view(target.numpy).reshape(x.shape[:-1])


def _as_unsigned(x: Array, dtype: DType) -> Array:
    if dtype.is_integer:
        return unsigned_bits(x, dtype)
    bits = np.ascontiguousarray(x).view(f"u{dtype.storage_bytes}").reshape(x.shape)
    return np.asarray(bits & bits.dtype.type((1 << memory_bits(dtype)) - 1))


def _from_unsigned(bits: Array, dtype: DType) -> Array:
    if dtype.is_pred:
        return np.asarray(bits != 0)
    if dtype.is_integer and dtype.bits < 8:
        return wrap_small(bits, dtype)
    packed = np.ascontiguousarray(bits.astype(f"u{dtype.storage_bytes}"))
    return packed.view(dtype.numpy).reshape(bits.shape)


def _emit_bitcast_convert(b: ScalarBuilder, inst: Instruction, x: Value) -> Value:
    assert x.dtype.bits == inst.array.dtype.bits, inst
    return x if x.dtype is inst.array.dtype else b.bitcast(x, inst.array.dtype)


def _factors_of_bitcast_convert(draft: FactorDraft, inst: Instruction) -> None:
    """Link all dimensions but the one that holds the parts of elements."""
    for dim in range(min(inst.operands[0].array.rank, inst.array.rank)):
        draft.operands[0][dim] = draft.results[0][dim] = draft.factor(inst.array.dims[dim])


BITCAST_CONVERT = define(
    name="bitcast-convert",
    reads="the same bits as another type, low bits first; the last dimension takes up the rest",
    arity=1,
    infer=_infer_bitcast_convert,
    shape_required=True,
    evaluate=_evaluate_bitcast_convert,
    elemental=_emit_bitcast_convert,
    elementwise=False,
    factors=_factors_of_bitcast_convert,
)

# ---------------------------------------------------------------- stochastic-convert


def _infer_stochastic_convert(request: ShapeRequest) -> Shape:
    """Return the declared shape of integers; random bits are as wide as the floats."""
    operand, result = _same_dims_as_operand(request)
    random = array_operand(request, 1)
    check_type(operand, is_float, "operand 0")
    check_type(result, is_integer, "the result")
    if not random.dtype.is_unsigned or random.dtype.bits != operand.dtype.bits:
        raise HloError(
            f"operand 1 has shape {random.text_without_layout}, "
            f"but u{operand.dtype.bits} is needed beside {operand.dtype}"
        )
    if not same_dims(operand, random):
        raise shapes_differ(1, random, operand, NO_BROADCAST)
    return result


def _evaluate_stochastic_convert(
    inst: Instruction, operands: Operands, call: CallFunction
) -> HostValue:
    target, bits = inst.array.dtype, inst.operands[1].array.dtype.bits
    with np.errstate(all="ignore"):
        x = operands[0].astype(np.float64)
        size = np.abs(x)
        whole = np.trunc(size)
        threshold = np.ldexp(size - whole, bits)
        threshold = np.where(np.isfinite(threshold), threshold, 0.0).astype(np.uint64)
        up = operands[1].astype(np.uint64) < threshold
        return _saturated(np.copysign(whole + up, x), target)


def _emit_stochastic_convert(b: ScalarBuilder, inst: Instruction, x: Value, random: Value) -> Value:
    target = inst.array.dtype
    wide = b.convert(x, F32) if x.dtype.bits < F32.bits else x
    size = b.intrinsic("fabs", wide)
    whole = b.intrinsic("trunc", size)
    scale = b.const(wide.dtype, 2.0**random.dtype.bits)
    threshold = b.convert(b.fmul(b.fsub(size, whole), scale), random.dtype)
    one, zero = b.const(wide.dtype, 1.0), b.const(wide.dtype, 0.0)
    step = b.select(b.compare("LT", random, threshold), one, zero)
    return b.convert(b.intrinsic("copysign", b.fadd(whole, step), wide), target)


STOCHASTIC_CONVERT = define(
    name="stochastic-convert",
    reads="x to an integer, away from zero if random / 2^bits < the fraction of |x|",
    arity=2,
    infer=_infer_stochastic_convert,
    shape_required=True,
    evaluate=_evaluate_stochastic_convert,
    elemental=_emit_stochastic_convert,
    flops=3,
)
