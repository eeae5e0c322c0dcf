"""The exponential of a number in two parts, by a table of 128 powers of two.

x = (128 * e + j) * ln 2 / 128 + r with |r| <= ln 2 / 256, so exp(x) = 2**e * 2**(j / 128) * exp(r),
where the table holds 2**(j / 128) as c * (1 + t) with c in f64.

Source: the method of P. T. P. Tang (1989); the table is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hloc.codegen.builder.math.double.parts import LN2, LN2_REST, LOG2_E, Pair, d, table_of, word
from hloc.codegen.builder.math.parts import estrin, fma, nearest_integer, scale
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64

_BITS = 7
_STEPS = 1 << _BITS

BOUND = 750.0
"""Beyond it, the exponential is infinity or 0."""

_SERIES = (1 / 2, 1 / 6, 1 / 24, 1 / 120)
"""(exp(r) - 1 - r) / r**2, error of the exponential 2**-60."""


def exponential(b: MathBuilder, x: Pair) -> Value:
    """Return e**x for |x| <= BOUND within 0.53 ulp, and the rounding of a subnormal result."""
    high, low = x
    n, step = nearest_integer(b, high, _STEPS * LOG2_E)
    r = b.fadd(fma(b, n, d(b, -LN2 / _STEPS), high), fma(b, n, d(b, -LN2_REST / _STEPS), low))
    first = b.shl(b.and_(step, word(b, _STEPS - 1)), word(b, 1))
    table = table_of(b, _numbers())
    c, t = (b.load(table, F64, b.iadd(first, word(b, i))) for i in range(2))
    grown = fma(b, b.fmul(r, r), estrin(b, r, _SERIES), b.fadd(r, t))
    exponent = b.ashr(step, word(b, _BITS))
    return scale(b, fma(b, c, grown, c), exponent, b.convert(exponent, F64))


@cache
def _numbers() -> Sequence[float]:
    """Return c and t of every power of two."""
    from decimal import Context, Decimal  # few programs need it

    exact = Context(prec=45)
    numbers = []
    for step in range(_STEPS):
        power = exact.power(2, Decimal(step) / _STEPS)
        c = float(power)
        numbers += [c, float(exact.divide(power, Decimal(c)) - 1)]
    return numbers
