"""sin, cos, tan in f64, within 1 ulp (tan: 2) for all arguments.

Up to 2**20 the argument is reduced to [-pi/4, pi/4] by pi/2 in three parts. Beyond, its 53 bits are
multiplied by the bits of 1 / (2 pi) that lie at its exponent (Payne and Hanek's reduction), which
gives the part of a turn in 128 bits; or the C library is called, where there is one.
"""

from __future__ import annotations

from hloc.codegen.builder.math.double.parts import (
    Pair,
    d,
    f64_function,
    multiply,
    product_of,
    sum_of,
    word,
)
from hloc.codegen.builder.math.parts import absolute, fma, horner, nearest_integer, u64
from hloc.codegen.builder.math.trigonometric import define, window
from hloc.codegen.builder.math_builder import LaneMathBuilder, MathBuilder
from hloc.codegen.builder.values import Lanes, Value
from hloc.dtypes import F64, S64, U8, U64

# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 of r**2, errors below 2e-20
_SIN = (
    -0.16666666666666666, 0.008333333333333331, -0.00019841269841264821, 2.7557319219150783e-06,
    -2.5052106167335705e-08, 1.6058521349954986e-10, -7.586094789672621e-13,
)  # fmt: skip
_COS = (
    0.041666666666666664, -0.0013888888888888887, 2.480158730158451e-05, -2.755731922129809e-07,
    2.0876755754879594e-09, -1.1470455178216906e-11, 4.745537017319258e-14,
)  # fmt: skip
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
_TWO_PI = (6.283185307179586, 2.4492935982947064e-16)
_LARGE = 2.0**20
# The bits of 1 / (2 pi) in words, the first one before the point.
_TURN_BITS = (
    0x0000000000000000,
    0x28BE60DB9391054A, 0x7F09D5F47D4D3770, 0x36D8A5664F10E410, 0x7F9458EAF7AEF158,
    0x6DC91B8E909374B8, 0x01924BBA82746487, 0x3F877AC72C4A69CF, 0xBA208D7D4BAED121,
    0x3A671C09AD17DF90, 0x4E64758E60D4CE7D, 0x272117E2EF7E4A0E, 0xC7FE25FFF7816603,
    0xFBCBC462D6829B47, 0xDB4D9FB3C9F2C26D, 0xD3D18FD9A797FA8B, 0x5D49EEB1FAF97C5E,
    0xCF41CE7DE294A4BA, 0x9AFED7EC47E35742, 0x1580CC11BF1EDAEA, 0xFC33EF0826BD0D87,
)  # fmt: skip


def _reduced(b: MathBuilder, x: Value) -> tuple[Pair, Value]:
    """Return r and the quadrant n (its low bits) for x = n * pi/2 + r."""
    (high, low), quadrant = _reduced_small(b, x)
    (large_high, large_low), large_quadrant = _reduced_large(b, x)
    is_large = b.compare("GE", absolute(b, x), d(b, _LARGE))
    r = (b.select(is_large, large_high, high), b.select(is_large, large_low, low))
    return r, b.select(is_large, large_quadrant, quadrant)


def _reduced_small(b: MathBuilder, x: Value) -> tuple[Pair, Value]:
    """Return r and the quadrant for |x| < 2**20."""
    n, quadrant = nearest_integer(b, x, 1 / _HALF_PI[0])
    first = fma(b, n, d(b, -_HALF_PI[0]), x)
    high, low = product_of(b, n, d(b, _HALF_PI[1]))
    total = b.fsub(first, high)
    rest = b.fsub(b.fsub(first, total), high)
    return (total, b.fsub(rest, fma(b, n, d(b, _HALF_PI[2]), low))), quadrant


def _reduced_large(b: MathBuilder, x: Value) -> tuple[Pair, Value]:
    """Return r and the quadrant for |x| >= 2**20; unspecified for others."""
    bits = b.bitcast(absolute(b, x), U64)
    mantissa = b.or_(b.and_(bits, u64(b, (1 << 52) - 1)), u64(b, 1 << 52))
    # Bit `place` of the table is worth one turn to the lowest bit of x, which is x * 2**1075.
    place = b.isub(b.lshr(bits, u64(b, 52)), u64(b, 1075 - 64))
    place = b.intrinsic("smax", b.bitcast(place, S64), word(b, 0))
    first = b.lshr(place, word(b, 6))
    shift = b.bitcast(b.and_(place, word(b, 63)), U64)
    table = _table(b)
    words = [b.load(table, U64, b.iadd(first, word(b, i))) for i in range(4)]
    high, middle, low = (window(b, words[i], words[i + 1], shift) for i in range(3))
    carried, _ = _wide_product(b, mantissa, low)
    upper, lower = _wide_product(b, mantissa, middle)
    lower, carry = _sum_and_carry(b, lower, carried)
    turns = b.iadd(b.iadd(b.imul(mantissa, high), upper), carry)
    quadrant = b.lshr(b.iadd(turns, u64(b, 1 << 61)), u64(b, 62))
    turns = b.isub(turns, b.shl(quadrant, u64(b, 62)))
    r, negative = _in_radians(b, turns, lower)
    flips = b.xor(negative, b.compare("LT", x, d(b, 0.0)))
    r = (_negated(b, flips, r[0]), _negated(b, flips, r[1]))
    quadrant = b.bitcast(quadrant, S64)
    below = b.compare("LT", x, d(b, 0.0))
    return r, b.select(below, b.isub(word(b, 0), quadrant), quadrant)


def _in_radians(b: MathBuilder, high: Value, low: Value) -> tuple[Pair, Value]:
    """Return the magnitude, in radians, of a signed 128-bit fraction of a turn; and its sign."""
    negative = b.compare("LT", b.bitcast(high, S64), word(b, 0))
    zero = u64(b, 0)
    borrowed = b.convert(b.compare("EQ", low, zero), U64)
    opposite = b.iadd(b.xor(high, u64(b, (1 << 64) - 1)), borrowed)
    high = b.bitcast(b.select(negative, opposite, high), S64)
    low = b.select(negative, b.isub(zero, low), low)
    large = b.convert(high, F64)
    rest = b.convert(b.isub(high, b.convert(large, S64)), F64)
    small = fma(b, b.convert(low, F64), d(b, 2.0**-64), rest)
    turns = sum_of(b, large, small)
    unit = (d(b, _TWO_PI[0] * 2.0**-64), d(b, _TWO_PI[1] * 2.0**-64))
    return multiply(b, turns, unit), negative


def _negated(b: MathBuilder, negative: Value, x: Value) -> Value:
    return b.select(negative, b.fneg(x), x)


def _table(b: MathBuilder) -> Value:
    initial = ", ".join(f"i64 {bits}" for bits in _TURN_BITS)
    return Value(U8, b.fn.global_constant(f"[{len(_TURN_BITS)} x i64]", f"[{initial}]"))


def _wide_product(b: MathBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the upper and the lower 64 bits of a product."""
    parts = [b.fn.value(f"zext i64 {value.text} to i128") for value in (x, y)]
    product = b.fn.value(f"mul i128 {parts[0]}, {parts[1]}")
    upper = b.fn.value(f"lshr i128 {product}, 64")
    return (
        Value(U64, b.fn.value(f"trunc i128 {upper} to i64")),
        Value(U64, b.fn.value(f"trunc i128 {product} to i64")),
    )


def _sum_and_carry(b: MathBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    total = b.iadd(x, y)
    return total, b.convert(b.compare("LT", total, x), U64)


def _sin_cos(b: MathBuilder, r: Pair) -> tuple[Value, Value]:
    """Return sine and cosine of |r| <= pi/4."""
    high, low = r
    square = b.fmul(high, high)
    half = b.fmul(d(b, 0.5), square)
    rest = b.fsub(d(b, 1.0), half)
    tail = fma(b, b.fmul(square, high), horner(b, square, _SIN, F64), b.fmul(low, rest))
    sine = b.fadd(high, tail)
    lost = b.fsub(b.fsub(d(b, 1.0), rest), half)
    tail = fma(b, b.fmul(square, square), horner(b, square, _COS, F64), lost)
    return sine, b.fadd(rest, fma(b, b.fneg(high), low, tail))


sin, cos, tan = map(f64_function, define(_reduced, _sin_cos, 1e-9))
_OF_SMALL = dict(zip(("sin", "cos", "tan"), define(_reduced_small, _sin_cos, 1e-9), strict=True))


def call_if_large(b: LaneMathBuilder, name: str, x: Value) -> Value:
    """Return sin, cos or tan of x; the C library is called if an argument is 2**20 or more.

    50,000 sines take 0.06 ms; a call for each takes 0.39 ms.
    """
    fn, value = b.fn, _OF_SMALL[name](b, x)
    is_large = b.compare("GE", absolute(b, x), d(b, _LARGE))
    is_vector = isinstance(x, Lanes)
    called, after, before = fn.new_block(), fn.new_block(), fn.block
    fn.branch((b.any_lane(is_large) if is_vector else is_large).text, called, after)
    fn.start_block(called)
    kind = b.kind(x.dtype) if isinstance(x, Lanes) else "double"
    found = _call_each(b, name, x) if isinstance(x, Lanes) else b.libm(name, x)
    found = b.select(is_large, found, value)
    last = fn.block
    fn.jump(after)
    fn.start_block(after)
    text = fn.value(f"phi {kind} [ {value.text}, %{before} ], [ {found.text}, %{last} ]")
    return Lanes(x.dtype, text) if is_vector else Value(x.dtype, text)


def _call_each(b: LaneMathBuilder, name: str, x: Lanes) -> Lanes:
    """Return a function of the C library of each lane of x."""
    fn, kind, found = b.fn, b.kind(x.dtype), "poison"
    for lane in range(b.lanes):
        one = Value(x.dtype, fn.value(f"extractelement {kind} {x.text}, i64 {lane}"))
        result = b.libm(name, one).text
        found = fn.value(f"insertelement {kind} {found}, double {result}, i64 {lane}")
    return Lanes(x.dtype, found)
