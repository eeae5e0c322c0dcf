"""Elementwise operations on one array other than elementary functions: sign, rounding, bits.

The elementary functions (exponential, sine ...) are in `elementary.py`. Semantics: XLA's CPU run
time, samples in tests/unit/ops.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hloc.dtypes import F32, PRED, Array, component_of
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Opcode, Operands, ScalarBuilder, define
from hloc.ops import complex_arithmetic, complex_values, emit
from hloc.ops.array_values import computed_wide, narrowed, pointwise
from hloc.ops.emit import Value, by_type, in_f32, intrinsic, one_bit_in_bytes
from hloc.ops.shape_rules import same_shape
from hloc.ops.type_classes import is_float, is_float_or_complex, is_numeric, is_signed_numeric

# ---------------------------------------------------------------- abs, negate, sign


def _evaluate_abs(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    (x,) = operands
    if x.dtype.kind != "c":
        return _absolute(inst, operands, call)
    with np.errstate(all="ignore"):
        return narrowed(np.abs(x.astype(np.complex128)), inst.array.dtype)


_absolute = pointwise("abs")


def _emit_abs(b: ScalarBuilder, inst: Instruction, x: Value) -> Value:
    if x.dtype.is_complex:
        return complex_arithmetic.magnitude(b, x)
    if x.dtype.is_float:
        return intrinsic("fabs")(b, x)
    zero = b.const(x.dtype, 0)
    return b.select(b.compare("LT", x, zero), b.isub(zero, x), x)


def _negate_integer(b: ScalarBuilder, x: Value) -> Value:
    return b.isub(b.const(x.dtype, 0), x)


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        return complex_values.sign(x)
    if x.dtype.kind != "f":
        return np.sign(x)
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))


def _sign_float(b: ScalarBuilder, x: Value) -> Value:
    one, zero = b.const(x.dtype, 1.0), b.const(x.dtype, 0.0)
    unit = b.intrinsic("copysign", one, x)
    nonzero = b.or_(b.compare("LT", x, zero), b.compare("GT", x, zero))
    return b.select(nonzero, unit, x)


def _sign_integer(b: ScalarBuilder, x: Value) -> Value:
    zero, one, minus_one = (b.const(x.dtype, v) for v in (0, 1, -1))
    positive = b.select(b.compare("GT", x, zero), one, zero)
    return b.select(b.compare("LT", x, zero), minus_one, positive)


ABS = define(
    reads="abs(x) = |x|; the most negative integer stays itself; complex gives the real type",
    infer=same_shape(is_signed_numeric, component_of),
    evaluate=_evaluate_abs,
    elemental=_emit_abs,
    flops=1,
    keeps_finite=True,
)
NEGATE = define(
    reads="negate(x) = -x; integers wrap",
    infer=same_shape(is_numeric),
    evaluate=pointwise("negative"),
    elemental=by_type(
        floats=lambda b, x: b.fneg(x), integers=_negate_integer, complexes=emit.negate
    ),
    flops=1,
    modular=True,
    keeps_finite=True,
)
SIGN = define(
    reads="sign(x) = -1, 0 or 1; NaN and signed zeros stay; complex gives x / |x|",
    infer=same_shape(is_signed_numeric),
    evaluate=computed_wide(_sign),
    elemental=by_type(
        floats=in_f32(_sign_float),
        integers=one_bit_in_bytes(_sign_integer),
        complexes=complex_arithmetic.sign,
    ),
    flops=1,
    keeps_finite=True,
)

# ---------------------------------------------------------------- rounding to whole numbers


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    step = np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)
    return np.asarray(np.copysign(whole + step, x), dtype=x.dtype)


def _emit_round_away(b: ScalarBuilder, x: Value) -> Value:
    whole = b.intrinsic("trunc", x)
    rest = b.intrinsic("fabs", b.fsub(x, whole))
    unit = b.intrinsic("copysign", b.const(x.dtype, 1.0), x)
    up = b.compare("GE", rest, b.const(x.dtype, 0.5))
    return b.select(up, b.fadd(whole, unit), whole)


def _define_rounding(
    name: str, reads: str, function: str | Callable[[Array], Array], emitter: emit.Emit
) -> Opcode:
    return define(
        name=name,
        reads=reads,
        arity=1,
        infer=same_shape(is_float),
        evaluate=pointwise(function),
        elemental=by_type(floats=emitter),
        keeps_finite=True,
        flops=1,
    )


CEIL = _define_rounding("ceil", "least whole number >= x", "ceil", intrinsic("ceil"))
FLOOR = _define_rounding("floor", "greatest whole number <= x", "floor", intrinsic("floor"))
ROUND_NEAREST_EVEN = _define_rounding(
    "round-nearest-even", "nearest whole number, ties to even", "rint", intrinsic("rint")
)
ROUND_NEAREST_AFZ = _define_rounding(
    "round-nearest-afz",
    "nearest whole number, ties away from zero",
    _round_away,
    in_f32(_emit_round_away),
)

# ---------------------------------------------------------------- is-finite, real, imag


def _emit_is_finite(b: ScalarBuilder, inst: Instruction, x: Value) -> Value:
    wide = b.convert(x, F32) if x.dtype.bits < F32.bits else x
    return b.compare("LT", b.intrinsic("fabs", wide), b.const(wide.dtype, float("inf")))


def _evaluate_imag(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    (x,) = operands
    if x.dtype.kind == "c":
        return np.asarray(np.imag(x))
    return narrowed(np.zeros(x.shape, np.float32), inst.array.dtype)


IS_FINITE = define(
    reads="is-finite(x) is false for NaN and infinities",
    infer=same_shape(is_float, lambda _dtype: PRED),
    evaluate=lambda _inst, operands, _call: np.asarray(np.isfinite(operands[0].astype(np.float64))),
    elemental=_emit_is_finite,
    flops=1,
)
REAL = define(
    reads="real(x + iy) = x",
    infer=same_shape(is_float_or_complex, component_of),
    evaluate=lambda _inst, operands, _call: np.asarray(np.real(operands[0])),
    elemental=lambda b, _inst, x: b.real(x) if x.dtype.is_complex else x,
)
IMAG = define(
    reads="imag(x + iy) = y; 0 for a real operand",
    infer=same_shape(is_float_or_complex, component_of),
    evaluate=_evaluate_imag,
    elemental=lambda b, _inst, x: b.imag(x) if x.dtype.is_complex else b.const(x.dtype, 0.0),
)
