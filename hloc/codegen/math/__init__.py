"""Mathematical functions: own polynomials for f32, the C library for f64.

The f32 forms are free of branches, so that LLVM widens them like any other arithmetic. Polynomials
are least-squares fits reweighted towards the smallest maximum error; bounds are stated in each file
and held by tests/unit/codegen/test_math.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloc.codegen.math import exponential, inverse, logarithm, power, special, trigonometric
from hloc.codegen.math.parts import F32_FUNCTIONS
from hloc.dtypes import F32

if TYPE_CHECKING:
    from hloc.codegen.scalar_builder import LlvmBuilder
    from hloc.codegen.values import Value

FAMILIES = (exponential, inverse, logarithm, power, special, trigonometric)
"""The modules that register f32 functions; named here so that they are imported."""


def emit_math(b: LlvmBuilder, name: str, args: Sequence[Value]) -> Value:
    """Return function `name` of f32 or f64 arguments."""
    if args[0].dtype is F32 and name in F32_FUNCTIONS:
        value: Value = F32_FUNCTIONS[name](b, *args)
        return value
    if name == "logistic":
        logistic: Value = exponential.logistic(b, *args)
        return logistic
    return b.libm(name, *args)
