"""erf in f32, within 2 ulp: an odd polynomial below 1, else 1 - exp(polynomial).

For results of f16 and narrower, one odd polynomial suffices, within 0.51 ulp of f16.
"""

from __future__ import annotations

from hloc.codegen.builder.math.exponential import normal_exp
from hloc.codegen.builder.math.parts import (
    absolute,
    c,
    f32_function,
    fma,
    horner,
    lower,
    narrow_function,
    with_sign,
)
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value

SMALL_END = 1.0
# erf(x) / x - 1 of x**2 on |x| <= 1, absolute error 4e-11
_SMALL = (
    1.2837917e-01, -3.7612638e-01, 1.1283782e-01, -2.68654e-02,
    5.2209455e-03, -8.482829e-04, 1.1256949e-04, -9.641519e-06,
)  # fmt: skip
# log(erfc(x)) of x - 2.5 on 0.95 <= x <= 4, absolute error 7e-9
_LARGE = (
    -7.806815e00, -5.3526807e00, -9.438936e-01, -1.08582955e-02, 2.165128e-03,
    -4.2048848e-04, 7.742101e-05, -1.3111093e-05, 1.6074134e-06, -3.8160792e-08,
)  # fmt: skip

_NARROW_END = 2.65  # erf is 1 in f16 from here on
# erf(x) / x of x**2 below _NARROW_END, relative error 7e-7
_NARROW = (
    1.1283784e00, -3.7610570e-01, 1.1274495e-01, -2.6698830e-02, 5.0661657e-03,
    -7.6620723e-04, 8.8715111e-05, -7.2716425e-06, 3.6900926e-07, -8.593183e-09,
)  # fmt: skip


@f32_function
def erf(b: MathBuilder, x: Value) -> Value:
    """Return the error function."""
    magnitude = absolute(b, x)
    exponent = horner(b, b.fsub(lower(b, magnitude, 4.0), c(b, 2.5)), _LARGE)
    large = with_sign(b, b.fsub(c(b, 1.0), normal_exp(b, exponent)), x)
    return b.select(b.compare("LT", magnitude, c(b, SMALL_END)), small_erf(b, x), large)


def small_erf(b: MathBuilder, x: Value) -> Value:
    """Return the error function of x from -`SMALL_END` to `SMALL_END`."""
    return fma(b, x, horner(b, b.fmul(x, x), _SMALL), x)


@narrow_function
def narrow_erf(b: MathBuilder, x: Value) -> Value:
    """Return the error function to 20 bits."""
    near = with_sign(b, lower(b, absolute(b, x), _NARROW_END), x)
    return b.fmul(near, horner(b, b.fmul(near, near), _NARROW))
