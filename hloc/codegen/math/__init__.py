"""Mathematical functions: own polynomials for f32; for f64 too where there is no C library.

The f32 forms are free of branches, so that LLVM widens them like any other arithmetic. Polynomials
are least-squares fits reweighted towards the smallest maximum error; bounds are stated in each file
and held by tests/unit/codegen/test_math.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloc.codegen.math import exponential, inverse, logarithm, power, special, trigonometric
from hloc.codegen.math.double import exponential as double_exponential
from hloc.codegen.math.double import inverse as double_inverse
from hloc.codegen.math.double import logarithm as double_logarithm
from hloc.codegen.math.double import power as double_power
from hloc.codegen.math.double import special as double_special
from hloc.codegen.math.double import trigonometric as double_trigonometric
from hloc.codegen.math.double.parts import F64_FUNCTIONS
from hloc.codegen.math.parts import F32_FUNCTIONS
from hloc.codegen.math.remainder import remainder
from hloc.dtypes import F32

if TYPE_CHECKING:
    from hloc.codegen.scalar_builder import LlvmBuilder
    from hloc.codegen.values import Value

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


def emit_math(b: LlvmBuilder, name: str, args: Sequence[Value]) -> Value:
    """Return function `name` of f32 or f64 arguments."""
    if args[0].dtype is F32 and name in F32_FUNCTIONS:
        value: Value = F32_FUNCTIONS[name](b, *args)
        return value
    if name == "logistic":
        logistic: Value = exponential.logistic(b, *args)
        return logistic
    if b.target.has_libm:
        return b.libm(name, *args)
    if name == "fmod":
        return remainder(b, *args)
    own: Value = F64_FUNCTIONS[name](b, *args)
    return own
