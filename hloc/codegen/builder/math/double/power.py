"""pow and cbrt in f64, within 1 ulp: the logarithm of pow is taken to about 68 bits."""

from __future__ import annotations

from hloc.codegen.builder.math.double.exp_table import BOUND, exponential
from hloc.codegen.builder.math.double.log_table import logarithm
from hloc.codegen.builder.math.double.parts import (
    d,
    f64_function,
    product_of,
    word,
)
from hloc.codegen.builder.math.parts import (
    INFINITY,
    absolute,
    fma,
    lower,
    upper,
    with_sign,
)
from hloc.codegen.builder.math.power import at_special
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64, S64


@f64_function
def pow(b: MathBuilder, x: Value, y: Value) -> Value:
    """Return x**y with C's results for zeros, infinities, NaN and negative bases."""
    base = absolute(b, x)
    # Bounds keep the exact products finite; whatever is beyond them overflows anyway.
    height = upper(b, lower(b, y, 2.0**70), -(2.0**70))
    high, low = logarithm(b, base)
    product, rest = product_of(b, high, height)
    value = exponential(b, (product, fma(b, low, height, rest)))
    is_beyond = b.compare("GT", absolute(b, product), d(b, BOUND))
    return at_special(b, x, y, value, is_beyond)


@f64_function
def cbrt(b: MathBuilder, x: Value) -> Value:
    """Return the cube root: a third of the exponent, two of Halley's steps, one exact one."""
    magnitude = absolute(b, x)
    one = d(b, 1.0)
    tiny = b.compare("LT", magnitude, d(b, 2.0**-900))
    huge = b.compare("GT", magnitude, d(b, 2.0**900))
    factor = b.select(tiny, d(b, 2.0**300), b.select(huge, d(b, 2.0**-300), one))
    bounded = b.fmul(magnitude, factor)
    third = b.idiv(b.lshr(b.bitcast(bounded, S64), word(b, 32)), word(b, 3))
    root = b.bitcast(b.shl(b.iadd(third, word(b, 715094163)), word(b, 32)), F64)
    for _ in range(3):
        cube = b.fmul(b.fmul(root, root), root)
        above = b.fadd(b.fadd(bounded, bounded), cube)
        root = b.fmul(root, b.fdiv(above, fma(b, cube, d(b, 2.0), bounded)))
    high, low = product_of(b, root, root)
    cube, rest = product_of(b, high, root)
    missing = b.fsub(b.fsub(bounded, cube), fma(b, low, root, rest))
    root = b.fadd(root, b.fdiv(missing, b.fmul(d(b, 3.0), high)))
    root = b.fmul(root, b.select(tiny, d(b, 2.0**-100), b.select(huge, d(b, 2.0**100), one)))
    zero = b.compare("EQ", x, d(b, 0.0))
    special = b.or_(zero, b.compare("EQ", magnitude, d(b, INFINITY)))
    return b.select(b.or_(special, b.is_nan(x)), x, with_sign(b, root, x))
