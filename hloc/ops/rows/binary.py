"""Arithmetic on two arrays of one shape: add to remainder, maximum and minimum.

Integers wrap; division by zero is defined as XLA's CPU run time has it, samples in tests/unit/ops.
"""

from __future__ import annotations

import numpy as np

from hloc.dtypes import DTYPES, Array
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CallFunction,
    EvaluateFunction,
    HostValue,
    Opcode,
    Operands,
    ScalarBuilder,
    define,
)
from hloc.ops import complex_arithmetic, complex_values, emit
from hloc.ops.array_values import computed_wide, larger, narrowed, pointwise, smaller
from hloc.ops.emit import Value, all_ones, by_type, one_bit_in_bytes
from hloc.ops.shape_rules import elementwise_binary
from hloc.ops.type_classes import is_array_type, is_integer, is_numeric, is_real, is_real_number


def _minus_one_or_zero(y: Array) -> Array:
    """Return where dividing by `y` is a special case: 0, and -1 since INT_MIN / -1 overflows."""
    return np.asarray((y == 0) | (y == -1)) if y.dtype.kind == "i" else np.asarray(y == 0)


# ---------------------------------------------------------------- add, subtract, multiply

ADD = define(
    reads="add(x, y) = x + y; integers wrap, pred is x or y",
    infer=elementwise_binary(is_array_type),
    evaluate=pointwise("add"),
    elemental=by_type(
        floats=lambda b, x, y: b.fadd(x, y),
        integers=lambda b, x, y: b.iadd(x, y),
        complexes=emit.add,
        pred=lambda b, x, y: b.or_(x, y),
    ),
    commutative=True,
    flops=1,
    associative=True,
    modular=True,
    keeps_finite=True,
)
SUBTRACT = define(
    reads="subtract(x, y) = x - y; integers wrap",
    infer=elementwise_binary(is_numeric),
    evaluate=pointwise("subtract"),
    elemental=by_type(
        floats=lambda b, x, y: b.fsub(x, y),
        integers=lambda b, x, y: b.isub(x, y),
        complexes=emit.subtract,
    ),
    flops=1,
    modular=True,
    keeps_finite=True,
)
MULTIPLY = define(
    reads="multiply(x, y) = x * y; integers wrap, pred is x and y",
    infer=elementwise_binary(is_array_type),
    evaluate=pointwise("multiply"),
    elemental=by_type(
        floats=lambda b, x, y: b.fmul(x, y),
        integers=lambda b, x, y: b.imul(x, y),
        complexes=emit.multiply,
        pred=lambda b, x, y: b.and_(x, y),
    ),
    commutative=True,
    flops=1,
    associative=True,
    modular=True,
    keeps_finite=True,
)


def _evaluate_mulhi(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    dtype = inst.array.dtype
    exact = np.frompyfunc(lambda x, y: (int(x) * int(y)) >> dtype.bits, 2, 1)
    wide = np.int64 if dtype.is_signed else np.uint64
    return narrowed(np.asarray(exact(*operands)).astype(wide), dtype)


def _emit_mulhi(b: ScalarBuilder, x: Value, y: Value) -> Value:
    dtype = x.dtype
    if dtype.bits == 64:
        return _mulhi_by_halves(b, x, y)
    wide = DTYPES["s64" if dtype.is_signed else "u64"]
    product = b.imul(b.convert(x, wide), b.convert(y, wide))
    return b.convert(b.lshr(product, b.const(wide, dtype.bits)), dtype)


def _mulhi_by_halves(b: ScalarBuilder, x: Value, y: Value) -> Value:
    """Emit the high 64 bits of a product from four products of 32-bit halves."""
    dtype = x.dtype
    width, low = b.const(dtype, 32), b.const(dtype, (1 << 32) - 1)
    high_half = b.ashr if dtype.is_signed else b.lshr
    x0, y0, x1, y1 = b.and_(x, low), b.and_(y, low), high_half(x, width), high_half(y, width)
    carry = b.lshr(b.imul(x0, y0), width)
    middle = b.iadd(b.imul(x1, y0), carry)
    other = b.iadd(b.imul(x0, y1), b.and_(middle, low))
    upper = b.iadd(high_half(middle, width), high_half(other, width))
    return b.iadd(b.imul(x1, y1), upper)


MULHI = define(
    name="mulhi",
    reads="high half of the product of two integers, by the sign of the type",
    arity=2,
    infer=elementwise_binary(is_array_type, needed=is_integer),
    evaluate=_evaluate_mulhi,
    elemental=by_type(integers=_emit_mulhi),
    commutative=True,
    flops=1,
)

# ---------------------------------------------------------------- divide, remainder


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        return complex_values.divide(x, y)
    if x.dtype.kind == "f":
        return np.asarray(np.divide(x, y))
    careful = _minus_one_or_zero(y)
    safe = np.where(careful, 1, y).astype(y.dtype)
    # NumPy's // rounds down; HLO truncates.
    quotient = (x - np.fmod(x, safe)) // safe
    quotient = np.where(careful & (y != 0), np.negative(x), quotient)
    return np.where(y == 0, np.bitwise_not(np.zeros_like(y)), quotient).astype(x.dtype)


def _remainder(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(np.fmod(x, y))
    careful = _minus_one_or_zero(y)
    rest = np.fmod(x, np.where(careful, 1, y).astype(y.dtype))
    return np.where(careful, np.where(y == 0, x, 0), rest).astype(x.dtype)


def _guarded_divisor(b: ScalarBuilder, y: Value) -> tuple[Value, Value | None, Value]:
    """Return "y is 0", "y is -1" (None for unsigned types), and `y` with those replaced by 1."""
    by_zero = b.compare("EQ", y, b.const(y.dtype, 0))
    one = b.const(y.dtype, 1)
    if not y.dtype.is_signed:
        return by_zero, None, b.select(by_zero, one, y)
    negates = b.compare("EQ", y, b.const(y.dtype, -1))
    return by_zero, negates, b.select(b.or_(by_zero, negates), one, y)


def _is_plain_divisor(b: ScalarBuilder, y: Value) -> bool:
    """True if `y` is a constant other than 0 and -1."""
    return b.integer_constant(y) not in (None, 0, -1)


def _emit_divide(b: ScalarBuilder, x: Value, y: Value) -> Value:
    if _is_plain_divisor(b, y):
        return b.idiv(x, y)
    by_zero, negates, safe = _guarded_divisor(b, y)
    quotient = b.idiv(x, safe)
    if negates is not None:
        quotient = b.select(negates, b.isub(b.const(x.dtype, 0), x), quotient)
    return b.select(by_zero, b.const(x.dtype, all_ones(x.dtype)), quotient)


def _emit_remainder(b: ScalarBuilder, x: Value, y: Value) -> Value:
    if _is_plain_divisor(b, y):
        return b.irem(x, y)
    # The remainder of x by the 1 that replaces -1 is 0, as required.
    by_zero, _, safe = _guarded_divisor(b, y)
    return b.select(by_zero, x, b.irem(x, safe))


_divide_rounding_each = pointwise(_divide)
_divide_complex = computed_wide(_divide)


def _evaluate_divide(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    if inst.array.dtype.is_complex:
        return _divide_complex(inst, operands, call)
    return _divide_rounding_each(inst, operands, call)


DIVIDE = define(
    reads="divide(x, y) = x / y; integers truncate, x / 0 has all bits set, MIN / -1 = MIN",
    infer=elementwise_binary(is_numeric),
    evaluate=_evaluate_divide,
    elemental=by_type(
        floats=lambda b, x, y: b.fdiv(x, y),
        integers=one_bit_in_bytes(_emit_divide),
        complexes=complex_arithmetic.divide,
    ),
    flops=1,
    weight=4,
    gpu_weight=10,
)
REMAINDER = define(
    reads="remainder(x, y) has the sign of x; integers: x rem 0 = x, MIN rem -1 = 0",
    infer=elementwise_binary(is_numeric, needed=is_real_number),
    evaluate=computed_wide(_remainder),
    elemental=by_type(floats=emit.math("fmod"), integers=one_bit_in_bytes(_emit_remainder)),
    flops=1,
    weight=12,
    gpu_weight=30,
)

# ---------------------------------------------------------------- maximum, minimum


def _define_extremum(
    name: str, reads: str, evaluate: EvaluateFunction, direction: str, pred: emit.Emit
) -> Opcode:
    """Define `maximum` or `minimum`; `direction` is the comparison by which x is taken."""

    def integers(b: ScalarBuilder, x: Value, y: Value) -> Value:
        return b.select(b.compare(direction, x, y), x, y)

    return define(
        name=name,
        reads=reads,
        arity=2,
        infer=elementwise_binary(is_array_type, needed=is_real),
        evaluate=evaluate,
        elemental=by_type(floats=emit.intrinsic(name), integers=integers, pred=pred),
        commutative=True,
        associative=True,
        idempotent=True,
        keeps_finite=True,
        flops=1,
    )


MAXIMUM = _define_extremum(
    "maximum",
    "the larger; NaN if either is NaN, +0 over -0; pred is x or y",
    pointwise(larger),
    "GE",
    lambda b, x, y: b.or_(x, y),
)
MINIMUM = _define_extremum(
    "minimum",
    "the smaller; NaN if either is NaN, -0 over +0; pred is x and y",
    pointwise(smaller),
    "LE",
    lambda b, x, y: b.and_(x, y),
)
