"""Elementary functions of floats and complex numbers: exponential, log, sine, square roots ...

The evaluator computes in f64 or c128 and rounds once, so that it is nearly correctly rounded for
narrower types. Special values are those of C99 (Annex F and G).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.ir.opcode import Opcode, define
from hloc.ops import complex_arithmetic, complex_functions, complex_values, emit
from hloc.ops.array_values import computed_wide
from hloc.ops.emit import Emit, by_type, in_f32, intrinsic
from hloc.ops.shape_rules import same_shape
from hloc.ops.type_classes import is_float, is_float_or_complex


def _define(
    name: str,
    reads: str,
    function: Any,
    floats: Emit,
    complexes: Emit | None,
    *,
    weight: int = 30,
    gpu_weight: int = 40,
    keeps_finite: bool = False,
) -> Opcode:
    """Define one function; without a `complexes` emitter it takes floats only."""
    return define(
        name=name,
        reads=reads,
        arity=1,
        infer=same_shape(is_float if complexes is None else is_float_or_complex),
        evaluate=computed_wide(function),
        elemental=by_type(floats=floats, complexes=complexes),
        transcendental=True,
        weight=weight,
        gpu_weight=gpu_weight,
        keeps_finite=keeps_finite,
        result_accuracy=True,
    )


# ---------------------------------------------------------------- evaluation beyond NumPy


def _either(floats: Any, complexes: Any) -> Any:
    """Return the function that is `floats` of real and `complexes` of complex arrays."""
    return lambda x: complexes(x) if x.dtype.kind == "c" else floats(x)


def _logistic(x: Array) -> Array:
    """1 / (1 + e^-x); e^x / (1 + e^x) on the left, where e^-x overflows."""
    left = x < 0
    power = np.exp(np.where(left, x, -x))
    return np.asarray(np.where(left, power, 1) / (1 + power))


def _rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


def _erf_array(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), dtype=np.float64)


# ---------------------------------------------------------------- emission


COS = _define(
    "cosine",
    "cos(x)",
    "cos",
    emit.math("cos"),
    complex_functions.cosine,
    weight=20,
    keeps_finite=True,
)
SIN = _define(
    "sine", "sin(x)", "sin", emit.math("sin"), complex_functions.sine, weight=20, keeps_finite=True
)
TAN = _define("tan", "tan(x)", "tan", emit.math("tan"), complex_functions.tan, gpu_weight=50)
COSH = _define("cosh", "cosh(x)", "cosh", emit.math("cosh"), complex_functions.cosh)
SINH = _define("sinh", "sinh(x)", "sinh", emit.math("sinh"), complex_functions.sinh)
TANH = _define(
    "tanh",
    "tanh(x)",
    "tanh",
    emit.math("tanh"),
    complex_functions.tanh,
    weight=15,
    gpu_weight=20,
    keeps_finite=True,
)
ACOS = _define("acos", "arccos(x)", "arccos", emit.math("acos"), complex_functions.acos)
ASIN = _define("asin", "arcsin(x)", "arcsin", emit.math("asin"), complex_functions.asin)
ACOSH = _define("acosh", "arcosh(x)", "arccosh", emit.math("acosh"), complex_functions.acosh)
ASINH = _define("asinh", "arsinh(x)", "arcsinh", emit.math("asinh"), complex_functions.asinh)
ATANH = _define("atanh", "artanh(x)", "arctanh", emit.math("atanh"), complex_functions.atanh)
EXPONENTIAL = _define(
    "exponential",
    "e^x",
    "exp",
    emit.math("exp"),
    complex_arithmetic.exponential,
    weight=10,
    gpu_weight=10,
    keeps_finite=True,
)
EXPONENTIAL_MINUS_ONE = _define(
    "exponential-minus-one",
    "e^x - 1, accurate near 0",
    _either(lambda x: np.expm1(x), complex_values.expm1),
    emit.math("expm1"),
    complex_functions.expm1,
    weight=15,
    gpu_weight=25,
)
LOG = _define(
    "log",
    "natural logarithm",
    "log",
    emit.math("log"),
    complex_arithmetic.log,
    weight=12,
    gpu_weight=20,
)
LOG_PLUS_ONE = _define(
    "log-plus-one",
    "log(1 + x), accurate near 0",
    _either(lambda x: np.log1p(x), complex_values.log1p),
    emit.math("log1p"),
    complex_functions.log1p,
    weight=15,
    gpu_weight=25,
)
LOGISTIC = _define(
    "logistic",
    "logistic(x) = 1 / (1 + e^-x)",
    _either(_logistic, complex_values.logistic),
    emit.math("logistic"),
    complex_functions.logistic,
    weight=15,
    gpu_weight=20,
    keeps_finite=True,
)
SQRT = _define(
    "sqrt",
    "square root",
    "sqrt",
    intrinsic("sqrt"),
    complex_arithmetic.sqrt,
    weight=5,
    gpu_weight=8,
)
RSQRT = _define(
    "rsqrt",
    "1 / sqrt(x)",
    _either(_rsqrt, complex_values.rsqrt),
    in_f32(lambda b, x: b.fdiv(b.const(x.dtype, 1.0), b.intrinsic("sqrt", x))),
    complex_functions.rsqrt,
    weight=5,
    gpu_weight=6,
)
CBRT = _define("cbrt", "cube root, also of negative x", "cbrt", emit.math("cbrt"), None, weight=20)
ERF = _define("erf", "error function", _erf_array, emit.math("erf"), None, weight=20, gpu_weight=30)
