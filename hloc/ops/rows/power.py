"""Elementwise operations on two arrays other than plain arithmetic: power, atan2, complex.

Integer powers are exact modulo 2^width; XLA's CPU run time uses the low 6 bits of the exponent.
"""

from __future__ import annotations

import math

import numpy as np

from hloc.dtypes import Array, complex_of
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CallFunction,
    HostValue,
    Operands,
    ScalarBuilder,
    ShapeRequest,
    define,
)
from hloc.ops import complex_functions, complex_values, emit
from hloc.ops.array_values import computed_wide
from hloc.ops.emit import Value, by_type, one_bit_in_bytes
from hloc.ops.shape_rules import array_operand, elementwise_binary, joined
from hloc.ops.type_classes import is_float_or_complex, is_numeric
from hloc.shapes import Shape


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        return complex_values.power(x, y)
    if x.dtype.kind == "f":
        return np.asarray(np.power(x, y))
    return _integer_power(x, y)


def _integer_power(x: Array, y: Array) -> Array:
    """Square and multiply, wrapping; a negative exponent gives 1 / x^-y, which is 0, 1 or -1."""
    base, y = np.broadcast_arrays(x, y)
    x, result = base, np.ones_like(base)
    exponent = np.where(y < 0, 0, y).astype(y.dtype)
    while exponent.any():
        result = np.where(exponent & 1, result * base, result).astype(x.dtype)
        base = base * base
        exponent = exponent >> 1
    unit = np.where((x == -1) & ((y & 1) == 0), 1, np.where(np.abs(x) == 1, x, 0))
    return np.where(y < 0, unit, result).astype(x.dtype)


def _emit_power(b: ScalarBuilder, inst: Instruction, x: Value, y: Value) -> Value:
    """Emit x^y; exponents of plus or minus 1/2, 3/2 and 5/2 use a square root, within 2 ulp."""
    exponent = _fused_exponent(inst)
    if abs(exponent) in (0.5, 1.5, 2.5):
        return emit.in_f32(lambda b, x: _root_power(b, x, exponent))(b, x)
    return _GENERAL(b, inst, x, y)


def _fused_exponent(inst: Instruction) -> float:
    """Return the exponent if it is a single constant that the code may depend on, else 0.

    A kernel of one instruction has its operands in memory, and is shared by all of these shapes.
    """
    exponent = inst.operands[1]
    if exponent.is_a("broadcast"):
        exponent = exponent.operands[0]
    if not (inst.array.dtype.is_float and exponent.is_a("constant") and inst.computation.is_fusion):
        return 0.0
    value = exponent.attributes.literal.uniform
    return 0.0 if value is None else float(value)


def _root_power(b: ScalarBuilder, x: Value, exponent: float) -> Value:
    """Return x^exponent for halves of odd numbers; +0 and infinity as C's pow gives them."""
    base, root = b.intrinsic("fabs", x), b.intrinsic("fabs", b.intrinsic("sqrt", x))
    infinity = b.const(x.dtype, math.inf)
    value, grows = root, exponent > 0
    if not grows:
        value = b.fdiv(b.const(x.dtype, 1.0), root)
    for _ in range(int(abs(exponent))):
        # Divided step by step, so that nothing overflows before the result does.
        value = b.fmul(value, base) if grows else b.fdiv(value, base)
    end = infinity if grows else b.const(x.dtype, 0.0)
    return b.select(b.compare("EQ", base, infinity), end, value)


def _emit_integer_power(b: ScalarBuilder, x: Value, y: Value) -> Value:
    dtype = x.dtype
    zero, one = b.const(dtype, 0), b.const(dtype, 1)
    result, base = one, x
    for bit in range(dtype.bits - (1 if dtype.is_signed else 0)):
        mask = b.const(dtype, 1 << bit)
        unset = b.compare("EQ", b.and_(y, mask), zero)
        result = b.select(unset, result, b.imul(result, base))
        base = b.imul(base, base)
    if not dtype.is_signed:
        return result
    odd = b.compare("NE", b.and_(y, one), zero)
    minus_one = b.const(dtype, -1)
    flipped = b.select(b.compare("EQ", x, minus_one), b.select(odd, minus_one, one), zero)
    inverse = b.select(b.compare("EQ", x, one), one, flipped)
    return b.select(b.compare("LT", y, zero), inverse, result)


_GENERAL = by_type(
    floats=emit.math("pow"),
    integers=one_bit_in_bytes(_emit_integer_power),
    complexes=complex_functions.power,
)


def _atan2(y: Array, x: Array) -> Array:
    if x.dtype.kind == "c":
        return complex_values.atan2(y, x)
    return np.asarray(np.arctan2(y, x))


def _infer_complex(request: ShapeRequest) -> Shape:
    """Return the shape of both operands: `f32[8]` -> `c64[8]`, `f64[8]` -> `c128[8]`."""
    lhs, rhs = array_operand(request, 0), array_operand(request, 1)
    shape = joined(lhs, rhs, strict=request.declared is not None)
    dtype = complex_of(shape.dtype)
    if dtype is None or lhs.dtype is not rhs.dtype:
        raise HloError(
            f"operands have element types {lhs.dtype} and {rhs.dtype}, but both must be f32 or f64"
        )
    return shape.with_dtype(dtype)


def _evaluate_complex(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    real, imag = np.broadcast_arrays(*operands)
    result = np.empty(real.shape, inst.array.dtype.numpy)
    result.real, result.imag = real, imag
    return result


POWER = define(
    reads="power(x, y) = x^y; 1^y = x^0 = 1 also for NaN; integers wrap, 1 / x^-y truncates",
    infer=elementwise_binary(is_numeric),
    evaluate=computed_wide(_power),
    elemental=_emit_power,
    transcendental=True,
    weight=40,
    gpu_weight=60,
)
ATAN2 = define(
    reads="atan2(y, x): angle of the point (x, y), from -pi to pi",
    infer=elementwise_binary(is_float_or_complex),
    evaluate=computed_wide(_atan2),
    elemental=by_type(floats=emit.math("atan2"), complexes=complex_functions.atan2),
    transcendental=True,
    weight=40,
    gpu_weight=50,
)
COMPLEX = define(
    reads="complex(x, y) = x + iy",
    infer=_infer_complex,
    evaluate=_evaluate_complex,
    elemental=lambda b, _inst, x, y: b.complex(x, y),
)
