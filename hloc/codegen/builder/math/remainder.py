"""Exact fmod in f32 and f64 for targets without a C library.

x = m * 2**e and y = n * 2**f with integers m and n: the remainder is (m * 2**(e - f) mod n) * 2**f.
The power of two is multiplied in, as many bits at a time as fit in a 64-bit word.
"""

from __future__ import annotations

from hloc.codegen.builder.math.parts import INFINITY, NAN, absolute, u64, with_sign
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F32, S64, U32, U64, DType
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Format:
    """Bits of the mantissa that are stored, and the bias of the exponent."""

    word: DType
    bits: int
    bias: int


def remainder(b: MathBuilder, x: Value, y: Value) -> Value:
    """Return x - y * trunc(x / y), with the sign of x; NaN for x infinite or y zero."""
    dtype = x.dtype
    form = _Format(U32, 23, 127) if dtype is F32 else _Format(U64, 52, 1023)
    size, divisor = absolute(b, x), absolute(b, y)
    m, e = _parts(b, size, form)
    n, f = _parts(b, divisor, form)
    n = b.intrinsic("umax", n, u64(b, 1))  # nothing is divided by 0; such results are not used
    rest = _reduced(b, b.irem(m, n), n, b.isub(e, f), 63 - form.bits)
    value = _scaled(b, b.convert(rest, dtype), b.isub(f, b.const(S64, form.bias + form.bits)), form)
    value = b.select(b.compare("LT", size, divisor), size, value)
    infinity, zero = b.const(dtype, INFINITY), b.const(dtype, 0)
    wrong = b.or_(b.compare("EQ", size, infinity), b.compare("EQ", divisor, zero))
    wrong = b.or_(wrong, b.or_(b.is_nan(x), b.is_nan(y)))
    return b.select(wrong, b.const(dtype, NAN), with_sign(b, value, x))


def _parts(b: MathBuilder, x: Value, form: _Format) -> tuple[Value, Value]:
    """Return m and the biased e for x = m * 2**(e - bias - bits), x not negative."""
    bits = b.convert(b.bitcast(x, form.word), U64)
    e = b.lshr(bits, u64(b, form.bits))
    stored = b.and_(bits, u64(b, (1 << form.bits) - 1))
    normal = b.intrinsic("umin", e, u64(b, 1))
    m = b.or_(stored, b.shl(normal, u64(b, form.bits)))
    return m, b.bitcast(b.intrinsic("umax", e, u64(b, 1)), S64)


def _reduced(b: MathBuilder, rest: Value, n: Value, shift: Value, step: int) -> Value:
    """Return rest * 2**shift mod n for rest < n; `rest` if the shift is not positive."""
    fn = b.fn
    before, head, after = fn.block, fn.new_block(), fn.new_block()
    fn.branch(b.compare("GT", shift, b.const(S64, 0)).text, head, after)
    fn.start_block(head)
    current, left = fn.reserve_value(), fn.reserve_value()
    slots = fn.reserve_line(), fn.reserve_line()
    taken = b.intrinsic("smin", Value(S64, left), b.const(S64, step))
    following = b.irem(b.shl(Value(U64, current), b.bitcast(taken, U64)), n)
    remaining = b.isub(Value(S64, left), taken)
    fn.fill_line(
        slots[0], f"{current} = phi i64 [ {rest.text}, %{before} ], [ {following.text}, %{head} ]"
    )
    fn.fill_line(
        slots[1], f"{left} = phi i64 [ {shift.text}, %{before} ], [ {remaining.text}, %{head} ]"
    )
    fn.branch(b.compare("GT", remaining, b.const(S64, 0)).text, head, after)
    fn.start_block(after)
    result = fn.value(f"phi i64 [ {rest.text}, %{before} ], [ {following.text}, %{head} ]")
    return Value(U64, result)


def _scaled(b: MathBuilder, x: Value, exponent: Value, form: _Format) -> Value:
    """Return x * 2**exponent, which is exact, in two steps that are powers of normal numbers."""
    half = b.ashr(exponent, b.const(S64, 1))
    for part in (half, b.isub(exponent, half)):
        biased = b.convert(b.iadd(part, b.const(S64, form.bias)), form.word)
        x = b.fmul(x, b.bitcast(b.shl(biased, b.const(form.word, form.bits)), x.dtype))
    return x
