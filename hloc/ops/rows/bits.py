"""Operations on the bits of integers and on truth values: not, and, or, xor, shifts, counts.

Shift amounts are unsigned; the width or more shifts every bit out. Semantics: XLA's CPU run time,
samples in tests/unit/ops.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hloc.dtypes import DTYPES, PRED
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
from hloc.ops import emit
from hloc.ops.array_values import compute_type, narrowed, pointwise, unsigned_bits
from hloc.ops.emit import Value, by_type, signed_of, unsigned_of
from hloc.ops.shape_rules import elementwise_binary, same_shape
from hloc.ops.type_classes import is_integer, is_numeric, is_pred_or_integer

# ---------------------------------------------------------------- not, popcnt, count-leading-zeros


def _emit_not(b: ScalarBuilder, x: Value) -> Value:
    return b.xor(x, b.const(x.dtype, emit.all_ones(x.dtype)))


def _evaluate_popcnt(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    dtype = inst.array.dtype
    return narrowed(np.bitwise_count(unsigned_bits(operands[0], dtype)), dtype)


def _evaluate_clz(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    dtype = inst.array.dtype
    smeared = unsigned_bits(operands[0], dtype)
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < dtype.bits:
            smeared = smeared | (smeared >> smeared.dtype.type(shift))
    return narrowed(dtype.bits - np.bitwise_count(smeared).astype(np.int64), dtype)


def _zero_extended(b: ScalarBuilder, x: Value) -> Value:
    """Emit the bits of `x` as an unsigned integer of at least 8 bits."""
    unsigned = x if x.dtype.is_unsigned else b.bitcast(x, unsigned_of(x.dtype))
    return unsigned if x.dtype.bits >= 8 else b.convert(unsigned, DTYPES["u8"])


def _emit_popcnt(b: ScalarBuilder, x: Value) -> Value:
    return b.convert(b.intrinsic("ctpop", _zero_extended(b, x)), x.dtype)


def _emit_clz(b: ScalarBuilder, x: Value) -> Value:
    wide = _zero_extended(b, x)
    extra = b.const(wide.dtype, wide.dtype.bits - x.dtype.bits)
    return b.convert(b.isub(b.intrinsic("ctlz", wide), extra), x.dtype)


NOT = define(
    reads="not(x) flips every bit; pred: true and false change places",
    infer=same_shape(is_pred_or_integer),
    evaluate=pointwise("invert"),
    elemental=by_type(integers=_emit_not, pred=lambda b, x: b.xor(x, b.const(PRED, True))),
    modular=True,
)
POPCNT = define(
    name="popcnt",
    reads="number of set bits within the width of the type",
    arity=1,
    infer=same_shape(is_integer),
    evaluate=_evaluate_popcnt,
    elemental=by_type(integers=_emit_popcnt),
    weight=2,
)
COUNT_LEADING_ZEROS = define(
    name="count-leading-zeros",
    reads="number of zero bits above the highest set one; the width for 0",
    arity=1,
    infer=same_shape(is_integer),
    evaluate=_evaluate_clz,
    elemental=by_type(integers=_emit_clz),
)

# ---------------------------------------------------------------- and, or, xor


def _define_bitwise(name: str, function: str, emitter: emit.Emit) -> Opcode:
    return define(
        name=name,
        reads=f"bitwise {name}; logical for pred",
        arity=2,
        infer=elementwise_binary(is_pred_or_integer),
        evaluate=pointwise(function),
        elemental=by_type(integers=emitter, pred=emitter),
        commutative=True,
        associative=True,
        idempotent=name != "xor",
        modular=True,
    )


AND = _define_bitwise("and", "bitwise_and", lambda b, x, y: b.and_(x, y))
OR = _define_bitwise("or", "bitwise_or", lambda b, x, y: b.or_(x, y))
XOR = _define_bitwise("xor", "bitwise_xor", lambda b, x, y: b.xor(x, y))

# ---------------------------------------------------------------- shifts


def _shift(
    inst: Instruction, operands: Operands, call: CallFunction, *, logical: bool, left: bool
) -> HostValue:
    """Evaluate a shift; the amount is unsigned, and the width or more shifts all bits out."""
    dtype = inst.array.dtype
    amount = unsigned_bits(operands[1], dtype)
    beyond = amount >= dtype.bits
    if logical:
        bits = unsigned_bits(operands[0], dtype)
        safe = np.where(beyond, 0, amount).astype(bits.dtype)
        shifted = np.where(beyond, 0, bits << safe if left else bits >> safe)
        return narrowed(shifted.astype(bits.dtype), dtype)
    value = operands[0].astype(compute_type(dtype)).view(f"i{dtype.storage_bytes}")
    if dtype.is_unsigned and dtype.bits < 8:
        value = narrowed(value, signed_of(dtype)).astype(np.int8)
    safe = np.where(beyond, dtype.bits - 1, amount).astype(value.dtype)
    return narrowed(value >> safe, dtype)


def _beyond(b: ScalarBuilder, y: Value) -> Value:
    """Return "the amount is the width or more"."""
    dtype = y.dtype
    unsigned = y if dtype.is_unsigned else b.bitcast(y, unsigned_of(dtype))
    # The width does not fit into types of 1 or 2 bits; the largest amount always does.
    return b.compare("GT", unsigned, b.const(unsigned.dtype, dtype.bits - 1))


def _within(b: ScalarBuilder, y: Value) -> Value:
    """Return the amount modulo the width, a power of two: that is how processors shift scalars."""
    return b.and_(y, b.const(y.dtype, y.dtype.bits - 1))


def _emit_shift_left(b: ScalarBuilder, x: Value, y: Value) -> Value:
    return b.select(_beyond(b, y), b.const(x.dtype, 0), b.shl(x, _within(b, y)))


def _emit_shift_right_logical(b: ScalarBuilder, x: Value, y: Value) -> Value:
    return b.select(_beyond(b, y), b.const(x.dtype, 0), b.lshr(x, _within(b, y)))


def _emit_shift_right_arithmetic(b: ScalarBuilder, x: Value, y: Value) -> Value:
    dtype, signed = x.dtype, signed_of(x.dtype)
    amount = b.select(_beyond(b, y), b.const(dtype, dtype.bits - 1), y)
    if dtype is signed:
        return b.ashr(x, amount)
    return b.bitcast(b.ashr(b.bitcast(x, signed), b.bitcast(amount, signed)), dtype)


def _define_shift(name: str, reads: str, evaluate: EvaluateFunction, integers: emit.Emit) -> Opcode:
    return define(
        name=name,
        reads=reads,
        arity=2,
        infer=elementwise_binary(is_numeric, needed=is_integer),
        evaluate=evaluate,
        elemental=by_type(integers=integers),
    )


SHIFT_LEFT = _define_shift(
    "shift-left",
    "x * 2^y; 0 for amounts of the width or more",
    partial(_shift, logical=True, left=True),
    _emit_shift_left,
)
SHIFT_RIGHT_LOGICAL = _define_shift(
    "shift-right-logical",
    "the bits of x moved down, zeros from above; 0 for amounts of the width or more",
    partial(_shift, logical=True, left=False),
    _emit_shift_right_logical,
)
SHIFT_RIGHT_ARITHMETIC = _define_shift(
    "shift-right-arithmetic",
    "the bits of x moved down, copies of the top bit from above",
    partial(_shift, logical=False, left=False),
    _emit_shift_right_arithmetic,
)
