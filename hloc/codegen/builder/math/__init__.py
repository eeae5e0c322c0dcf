"""Mathematical functions: hloc's own polynomials for f32, and for the cheaper functions in f64.

The f32 forms are branch-free, so that LLVM vectorises them like any other arithmetic. Polynomials
are least-squares fits reweighted towards the smallest maximum error; each file states its bounds,
and tests/unit/codegen/test_math.py checks them. Other f64 functions call the C library where there
is one, and so do sine, cosine and tangent of single f32 values.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.math import exponential, inverse, logarithm, power, special, trigonometric
from hloc.codegen.builder.math.double import exponential as double_exponential
from hloc.codegen.builder.math.double import inverse as double_inverse
from hloc.codegen.builder.math.double import logarithm as double_logarithm
from hloc.codegen.builder.math.double import power as double_power
from hloc.codegen.builder.math.double import special as double_special
from hloc.codegen.builder.math.double import trigonometric as double_trigonometric
from hloc.codegen.builder.math.double.parts import F64_FUNCTIONS
from hloc.codegen.builder.math.lane_remainder import lane_remainder
from hloc.codegen.builder.math.parts import F32_FUNCTIONS, NARROW_FUNCTIONS
from hloc.codegen.builder.math.remainder import remainder
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import VARYING, Value
from hloc.dtypes import F32

FAMILIES = (
    exponential,
    inverse,
    logarithm,
    power,
    special,
    trigonometric,
    double_exponential,
    double_inverse,
    double_logarithm,
    double_power,
    double_special,
    double_trigonometric,
)
"""The modules that register functions; named here so that they are imported."""

_CALLED = frozenset({"sin", "cos", "tan"})
"""Functions of f64 that are too long to be inlined for large arguments.

Those of f32 are called for single values: inline, both ways to reduce the argument are computed. A
pendulum by Runge and Kutta's method then compiles in 0.55 of the time, and runs in 0.5 of it.
"""


def emit_math(b: MathBuilder, name: str, args: Sequence[Value]) -> Value:
    """Return function `name` of f32 or f64 arguments."""
    is_called = name in _CALLED and b.has_fma and b.target.has_libm
    if is_called and args[0].dtype is F32 and b.has_single_values:
        return b.libm(name, *args)
    if args[0].dtype is F32 and name in F32_FUNCTIONS:
        value: Value = F32_FUNCTIONS[name](b, *args)
        return value
    if name == "logistic":
        logistic: Value = exponential.logistic(b, *args)
        return logistic
    if name == "fmod" and b.has_fma and any(isinstance(x, VARYING) for x in args):
        return lane_remainder(b, *args)  # type: ignore[arg-type]  # a builder with lanes supports it
    if is_called:
        return double_trigonometric.call_if_large(b, name, *args)  # type: ignore[arg-type]
    if b.target.has_libm and not _has_own(b, name):
        return b.libm(name, *args)
    if name == "fmod":
        return remainder(b, *args)
    own: Value = F64_FUNCTIONS[name](b, *args)
    return own


def emit_narrow_math(b: MathBuilder, name: str, args: Sequence[Value]) -> Value:
    """Return function `name` of f32 arguments, to be rounded to f16 or narrower."""
    shorter = NARROW_FUNCTIONS.get(name)
    return emit_math(b, name, args) if shorter is None else shorter(b, *args)


def _has_own(b: MathBuilder, name: str) -> bool:
    """True for functions of f64 that are faster inline than as calls per element.

    100,000 exponentials take 0.06 ms instead of 0.49. They need fused multiply-adds.
    """
    return b.has_fma and name in F64_FUNCTIONS
