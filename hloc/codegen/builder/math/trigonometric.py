"""sin, cos, tan in f32, within 4 ulp for all arguments.

Up to 2**30 the argument is reduced to [-pi/4, pi/4] in f64, where pi/2 in two parts is enough.
Beyond, its 24 bits are multiplied by the bits of 1 / (2 pi) that lie at its exponent (Payne and
Hanek's reduction), which gives the part of a turn in 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

from hloc.codegen.builder.math.parts import (
    INFINITY,
    NAN,
    absolute,
    c,
    f32_function,
    fma,
    horner,
    u64,
)
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F32, F64, S32, S64, U32, U64

# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 of r**2, relative errors below 1e-9
_SIN = (-1.6666667e-01, 8.333332e-03, -1.9839985e-04, 2.7237043e-06)
_COS = (4.1666668e-02, -1.3888888e-03, 2.4800516e-05, -2.7290358e-07)

_HALF_PI_HIGH, _HALF_PI_LOW = pi / 2, 6.123233995736766e-17
_MAGIC = 1.5 * 2.0**52
# The first bits of 1 / (2 pi) after the point.
_TURN_BITS = (0x28BE60DB9391054A, 0x7F09D5F47D4D3770, 0x36D8A5664F10E410, 0x7F9458EAF7AEF158)


def _reduced(b: MathBuilder, x: Value) -> tuple[Value, Value]:
    """Return r and the quadrant n (its low bits) for x = n * pi/2 + r."""
    r, quadrant = _reduced_small(b, x)
    large_r, large_quadrant = _reduced_large(b, x)
    is_large = b.compare("GE", absolute(b, x), c(b, 2.0**30))
    return b.select(is_large, large_r, r), b.select(is_large, large_quadrant, quadrant)


def _reduced_large(b: MathBuilder, x: Value) -> tuple[Value, Value]:
    """Return r and the quadrant for 2**23 <= |x|; unspecified for others."""
    bits = b.convert(b.bitcast(absolute(b, x), U32), U64)
    mantissa = b.or_(b.and_(bits, u64(b, 0x7FFFFF)), u64(b, 0x800000))
    # Bit `place` after the point of 1 / (2 pi) is worth one turn to the lowest bit of x.
    place = b.isub(b.lshr(bits, u64(b, 23)), u64(b, 150))
    place = b.and_(place, u64(b, 127))
    shift = b.and_(place, u64(b, 63))
    beyond = b.compare("GE", place, u64(b, 64))
    words = [b.select(beyond, u64(b, _TURN_BITS[i + 1]), u64(b, _TURN_BITS[i])) for i in range(3)]
    turns = b.imul(mantissa, window(b, words[0], words[1], shift))
    rest = b.lshr(window(b, words[1], words[2], shift), u64(b, 32))
    turns = b.iadd(turns, b.lshr(b.imul(mantissa, rest), u64(b, 32)))
    quadrant = b.lshr(b.iadd(turns, u64(b, 1 << 61)), u64(b, 62))
    offset = b.bitcast(b.isub(turns, b.shl(quadrant, u64(b, 62))), S64)
    r = b.convert(b.fmul(b.convert(offset, F64), b.const(F64, 2 * pi / 2.0**64)), F32)
    low = b.convert(quadrant, S32)
    negative = b.compare("LT", x, c(b, 0.0))
    low = b.select(negative, b.isub(b.const(S32, 0), low), low)
    return b.select(negative, b.fneg(r), r), low


def window(b: MathBuilder, high: Value, low: Value, shift: Value) -> Value:
    """Return 64 bits of two words, from bit `shift` of the first one on."""
    kept = b.lshr(b.lshr(low, u64(b, 1)), b.isub(u64(b, 63), shift))
    return b.or_(b.shl(high, shift), kept)


def _reduced_small(b: MathBuilder, x: Value) -> tuple[Value, Value]:
    """Return r and the quadrant for |x| < 2**30."""
    wide = b.convert(x, F64)
    magic = b.const(F64, _MAGIC)
    shifted = fma(b, wide, b.const(F64, 2 / pi), magic)
    n = b.fsub(shifted, magic)
    r = fma(b, n, b.const(F64, -_HALF_PI_HIGH), wide)
    r = fma(b, n, b.const(F64, -_HALF_PI_LOW), r)
    quadrant = b.convert(b.bitcast(shifted, S64), S32)
    return b.convert(r, F32), quadrant


def _sin_cos(b: MathBuilder, r: Value) -> tuple[Value, Value]:
    """Return sine and cosine of |r| <= pi/4."""
    square = b.fmul(r, r)
    sine = fma(b, b.fmul(square, r), horner(b, square, _SIN), r)
    tail = fma(b, square, c(b, -0.5), c(b, 1.0))
    return sine, fma(b, b.fmul(square, square), horner(b, square, _COS), tail)


# ---------------------------------------------------------------- for f32 and f64


def _is_odd(b: MathBuilder, quadrant: Value) -> Value:
    word = quadrant.dtype
    return b.compare("NE", b.and_(quadrant, b.const(word, 1)), b.const(word, 0))


def sine_at(b: MathBuilder, sine: Value, cosine: Value, quadrant: Value) -> Value:
    """Return sin(quadrant * pi/2 + r), given those of r; the quadrant is as wide as they are."""
    word = quadrant.dtype
    value = b.select(_is_odd(b, quadrant), cosine, sine)
    sign = b.shl(b.and_(quadrant, b.const(word, 2)), b.const(word, word.bits - 2))
    return b.bitcast(b.xor(b.bitcast(value, word), sign), value.dtype)


def tangent_at(b: MathBuilder, sine: Value, cosine: Value, quadrant: Value) -> Value:
    """Return tan(quadrant * pi/2 + r): sine / cosine of r, or minus its reciprocal."""
    odd = _is_odd(b, quadrant)
    above = b.select(odd, b.fneg(cosine), sine)
    return b.fdiv(above, b.select(odd, sine, cosine))


def of_finite(b: MathBuilder, x: Value, value: Value) -> Value:
    """Return `value` if x is finite, else NaN."""
    infinity = b.const(x.dtype, INFINITY)
    is_finite = b.compare("LT", absolute(b, x), infinity)
    return b.select(is_finite, value, b.const(x.dtype, NAN))


def define(
    reduced: Callable[..., tuple[Any, Value]],
    sin_cos: Callable[..., tuple[Value, Value]],
    tiny: float,
) -> tuple[Callable[..., Value], ...]:
    """Return sin, cos and tan, which are NaN for infinities.

    Args:
        reduced: returns r and the quadrant of an argument.
        sin_cos: returns sine and cosine of r.
        tiny: below it x is its sine and tangent.
    """

    def sin(b: MathBuilder, x: Value) -> Value:
        r, quadrant = reduced(b, x)
        is_tiny = b.compare("LT", absolute(b, x), b.const(x.dtype, tiny))
        return b.select(is_tiny, x, of_finite(b, x, sine_at(b, *sin_cos(b, r), quadrant)))

    def cos(b: MathBuilder, x: Value) -> Value:
        r, quadrant = reduced(b, x)
        quadrant = b.iadd(quadrant, b.const(quadrant.dtype, 1))
        return of_finite(b, x, sine_at(b, *sin_cos(b, r), quadrant))

    def tan(b: MathBuilder, x: Value) -> Value:
        r, quadrant = reduced(b, x)
        value = tangent_at(b, *sin_cos(b, r), quadrant)
        is_tiny = b.compare("LT", absolute(b, x), b.const(x.dtype, tiny))
        return b.select(is_tiny, x, of_finite(b, x, value))

    return sin, cos, tan


sin, cos, tan = map(f32_function, define(_reduced, _sin_cos, 1e-4))
