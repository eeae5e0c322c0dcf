"""The logarithm in f64 to about 68 bits, by a table of 128 intervals.

x = z * 2**e with z between 0.703 and 1.406; in the interval of z lies a number c whose inverse has
so few bits that r = z / c - 1 is exact with one fused multiply-add, and |r| < 2**-7.4. Then
log x = e * ln 2 + log c + log(1 + r). The interval around 1 has c = 1, so that r is z - 1 there.

Source: the method of P. T. P. Tang (1990), with sums in two parts; the table is computed here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from hloc.codegen.builder.math.double.parts import Pair, d, sum_of, table_of, word
from hloc.codegen.builder.math.parts import estrin, fma
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64, S64

if TYPE_CHECKING:
    from decimal import Decimal

_INTERVAL_BITS = 45
_INTERVALS = 128
_AROUND_ONE = 75
_ONE_BITS = 0x3FF0000000000000
_FIRST_BITS = _ONE_BITS - (_AROUND_ONE << _INTERVAL_BITS) - (1 << (_INTERVAL_BITS - 1))
"""Bits of the smallest z, chosen so that 1 is in the middle of an interval."""

_GRID = 2**43
"""High parts of logarithms are multiples of its inverse, so that their sums are exact."""

_SERIES = (1 / 3, -1 / 4, 1 / 5, -1 / 6, 1 / 7, -1 / 8, 1 / 9)
"""(log(1 + r) - r + r**2 / 2) / r**3, error of the logarithm 2**-75."""


def logarithm(b: MathBuilder, x: Value) -> Pair:
    """Return log(x) in two parts for positive finite x."""
    bits = b.bitcast(x, S64)
    tiny = b.compare("LT", bits, word(b, 1 << 52))
    bits = b.select(tiny, b.bitcast(b.fmul(x, d(b, 2.0**54)), S64), bits)
    above = b.isub(bits, word(b, _FIRST_BITS))
    exponent = b.ashr(above, word(b, 52))
    z = b.bitcast(b.isub(bits, b.shl(exponent, word(b, 52))), F64)
    rows, ln2 = _numbers()
    interval = b.and_(b.ashr(above, word(b, _INTERVAL_BITS)), word(b, _INTERVALS - 1))
    first = b.imul(interval, word(b, 3))
    table = table_of(b, [number for row in rows for number in row])
    inverse, log_c, log_c_rest = (b.load(table, F64, b.iadd(first, word(b, i))) for i in range(3))
    exponent = b.isub(exponent, b.select(tiny, word(b, 54), word(b, 0)))
    e = b.convert(exponent, F64)

    r = fma(b, z, inverse, d(b, -1.0))
    known = fma(b, e, d(b, ln2[0]), log_c)
    sum_1 = b.fadd(known, r)
    rest_1 = b.fadd(b.fsub(known, sum_1), r)
    half = b.fmul(d(b, -0.5), r)
    square = fma(b, half, r, d(b, -0.0))
    square_rest = fma(b, half, r, b.fneg(square))
    sum_2 = b.fadd(sum_1, square)
    rest_2 = b.fadd(b.fsub(sum_1, sum_2), square)
    cubic = b.fmul(b.fmul(r, b.fmul(r, r)), estrin(b, r, _SERIES))
    # Added in the order in which they become available, to shorten the critical path.
    known_rests = b.fadd(b.fadd(fma(b, e, d(b, ln2[1]), log_c_rest), rest_1), square_rest)
    return sum_of(b, sum_2, b.fadd(known_rests, b.fadd(rest_2, cubic)))


@cache
def _numbers() -> tuple[Sequence[tuple[float, float, float]], tuple[float, float]]:
    """Return 1 / c and log c in two parts for each interval, and ln 2 in two parts."""
    from decimal import Context, Decimal  # few programs need it

    exact = Context(prec=45)
    rows = []
    for number in range(_INTERVALS):
        middle = _FIRST_BITS + (number << _INTERVAL_BITS) + (1 << (_INTERVAL_BITS - 1))
        c = struct.unpack("<d", struct.pack("<q", middle))[0]
        steps = 128 if c < 1 else 256  # below 1, z has a bit more behind the point
        inverse = round(steps / c) / steps
        rows.append((inverse, *_parts(-exact.ln(Decimal(inverse)), _GRID)))
    return rows, _parts(exact.ln(Decimal(2)), _GRID // 2)


def _parts(value: Decimal, grid: int) -> tuple[float, float]:
    high = (value * grid).to_integral_value() / grid
    return float(high), float(value - high)
