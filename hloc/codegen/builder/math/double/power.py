"""pow and cbrt in f64, within 1 ulp: logarithm and product of pow are taken to about 100 bits."""

from __future__ import annotations

from hloc.codegen.builder.math.double.exponential import less_one, remainder
from hloc.codegen.builder.math.double.logarithm import split
from hloc.codegen.builder.math.double.parts import (
    LN2,
    LN2_REST,
    LOG2_E,
    Pair,
    add,
    d,
    f64_function,
    multiply,
    product_of,
    sum_of,
    word,
)
from hloc.codegen.builder.math.parts import (
    INFINITY,
    absolute,
    fma,
    horner,
    lower,
    nearest_integer,
    scale,
    upper,
    with_sign,
)
from hloc.codegen.builder.math.power import at_special
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64, S64

# (log((1 + s) / (1 - s)) / s - 2 - 2/3 s**2) / s**4 of s**2, error 2e-18
_LOG_TAIL = (
    0.4, 0.2857142857142937, 0.22222222221652765, 0.18181818336099848, 0.1538459488700718,
    0.1333480879881234, 0.11706126464563398, 0.11724327060846747,
)  # fmt: skip
_TWO_THIRDS, _TWO_THIRDS_REST = 0.6666666666666666, 3.700743415417188e-17


def _log(b: MathBuilder, x: Value) -> Pair:
    """Return log(x) in two parts for positive finite x."""
    m, exponent = split(b, x)
    one = d(b, 1.0)
    f = b.fsub(m, one)
    below, below_rest = sum_of(b, d(b, 2.0), f)
    s = b.fdiv(f, below)
    left = fma(b, b.fneg(s), below, f)
    left = fma(b, b.fneg(s), below_rest, left)
    pair = (s, b.fdiv(left, below))
    square = multiply(b, pair, pair)
    tail = b.fmul(square[0], horner(b, square[0], _LOG_TAIL, F64))
    series = add(b, (d(b, _TWO_THIRDS), d(b, _TWO_THIRDS_REST)), sum_of(b, tail, d(b, 0.0)))
    cubic = multiply(b, multiply(b, square, pair), series)
    doubled = (b.fadd(pair[0], pair[0]), b.fadd(pair[1], pair[1]))
    mantissa = add(b, doubled, cubic)
    e = b.convert(exponent, F64)
    high, low = product_of(b, e, d(b, LN2))
    shift = sum_of(b, high, fma(b, e, d(b, LN2_REST), low))
    is_whole = b.compare("EQ", exponent, word(b, 0))
    total = add(b, shift, mantissa)
    return b.select(is_whole, mantissa[0], total[0]), b.select(is_whole, mantissa[1], total[1])


def _exp(b: MathBuilder, x: Pair) -> Value:
    """Return e**x."""
    bounded = upper(b, lower(b, x[0], 720.0), -750.0)
    n, exponent = nearest_integer(b, bounded, LOG2_E)
    rest = b.select(b.compare("EQ", bounded, x[0]), x[1], d(b, 0.0))
    grown = less_one(b, *remainder(b, bounded, rest, n))
    return scale(b, b.fadd(grown, d(b, 1.0)), exponent, n)


@f64_function("pow")
def power(b: MathBuilder, x: Value, y: Value) -> Value:
    """Return x**y with C's results for zeros, infinities, NaN and negative bases."""
    base = absolute(b, x)
    # Bounds keep the exact products finite; whatever is beyond them overflows anyway.
    height = upper(b, lower(b, y, 2.0**70), -(2.0**70))
    logarithm = _log(b, base)
    value = _exp(b, multiply(b, logarithm, (height, d(b, 0.0))))
    return at_special(b, x, y, value)


@f64_function("cbrt")
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
