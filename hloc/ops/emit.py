"""Pieces of elemental emitters: dispatch on the element type, and arithmetic of complex numbers.

All speak to the `ScalarBuilder` protocol. Complex values are taken apart into real and imaginary
parts; functions of narrow floats are computed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hloc.dtypes import DTYPES, F32, DType, component_of
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import ElementalFunction, ScalarBuilder

Value: TypeAlias = Any
"""A `ScalarValue`."""

Emit: TypeAlias = Callable[..., Value]
"""`emit(b, *values)` of values of one element type."""


def by_type(
    *,
    floats: Emit | None = None,
    integers: Emit | None = None,
    complexes: Emit | None = None,
    pred: Emit | None = None,
) -> ElementalFunction:
    """Return the emitter that takes the branch of the result's type and converts operands to it."""

    def emit(b: ScalarBuilder, inst: Instruction, *operands: Value) -> Value:
        dtype = inst.array.dtype
        values = [same_type(b, x, dtype) for x in operands]
        if dtype.is_float:
            branch = floats
        elif dtype.is_complex:
            branch = complexes
        else:
            branch = pred if dtype.is_pred else integers
        assert branch is not None, f"{inst.opcode.name} has no meaning for {dtype}"
        return branch(b, *values)

    return emit


def same_type(b: ScalarBuilder, x: Value, dtype: DType) -> Value:
    """Return `x` in type `dtype`."""
    return x if x.dtype is dtype else b.convert(x, dtype)


def in_f32(emit: Emit) -> Emit:
    """Return `emit` computed in f32 for narrower floats and rounded once."""

    def wide(b: ScalarBuilder, *values: Value) -> Value:
        dtype = values[0].dtype
        if dtype.bits >= F32.bits:
            return emit(b, *values)
        return b.convert(emit(b, *(b.convert(x, F32) for x in values)), dtype)

    return wide


def math(name: str) -> Emit:
    """Return the emitter of a function that `ScalarBuilder.math` knows."""
    return in_f32(lambda b, *values: b.math(name, *values))


def intrinsic(name: str) -> Emit:
    """Return the emitter of a float instruction that `ScalarBuilder.intrinsic` knows."""
    return in_f32(lambda b, *values: b.intrinsic(name, *values))


def one_bit_in_bytes(emit: Emit) -> Emit:
    """Return `emit` computed in bytes for s1 and u1, where constants as 1 or -1 do not fit."""

    def wide(b: ScalarBuilder, *values: Value) -> Value:
        dtype = values[0].dtype
        if dtype.bits > 1:
            return emit(b, *values)
        byte = DTYPES["s8" if dtype.is_signed else "u8"]
        return b.convert(emit(b, *(b.convert(x, byte) for x in values)), dtype)

    return wide


def unsigned_of(dtype: DType) -> DType:
    """Return the unsigned integer type of the same width."""
    return DTYPES[f"u{dtype.bits}"]


def signed_of(dtype: DType) -> DType:
    """Return the signed integer type of the same width."""
    return DTYPES[f"s{dtype.bits}"]


def all_ones(dtype: DType) -> int:
    """Return the value of integer `dtype` whose bits are all set."""
    return -1 if dtype.is_signed else (1 << dtype.bits) - 1


# ---------------------------------------------------------------- complex arithmetic


def parts(b: ScalarBuilder, z: Value) -> tuple[Value, Value]:
    """Return the real and the imaginary part."""
    return b.real(z), b.imag(z)


def constant_like(b: ScalarBuilder, z: Value, value: float) -> Value:
    """Return `value` in the type of the parts of `z`."""
    return b.const(component_of(z.dtype), value)


def complex_of_real(b: ScalarBuilder, x: Value) -> Value:
    """Return x + 0i."""
    return b.complex(x, constant_like(b, x, 0.0))


def add(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z + w."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    return b.complex(b.fadd(x, u), b.fadd(y, v))


def subtract(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z - w."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    return b.complex(b.fsub(x, u), b.fsub(y, v))


def multiply(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z * w by the schoolbook formula, as XLA does; infinities may give NaN."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    real = b.fsub(b.fmul(x, u), b.fmul(y, v))
    return b.complex(real, b.fadd(b.fmul(x, v), b.fmul(y, u)))


def divide(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z / w by Smith's method, which avoids overflow of |w|^2; infinities as in C99 G.5.1."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    size_u, size_v = b.intrinsic("fabs", u), b.intrinsic("fabs", v)
    flat = b.compare("GE", size_u, size_v)
    large, small = b.select(flat, u, v), b.select(flat, v, u)
    ratio = b.fdiv(small, large)
    scale = b.fdiv(constant_like(b, u, 1.0), b.fadd(large, b.fmul(small, ratio)))
    xr, yr = b.fmul(x, ratio), b.fmul(y, ratio)
    real = b.fmul(b.select(flat, b.fadd(x, yr), b.fadd(xr, y)), scale)
    imag = b.fmul(b.select(flat, b.fsub(y, xr), b.fsub(yr, x)), scale)
    return _recovered_quotient(b, z, w, b.complex(real, imag))


def _recovered_quotient(b: ScalarBuilder, z: Value, w: Value, quotient: Value) -> Value:
    """Emit `quotient`, or where it is NaN + i NaN the infinity or zero that z / w tends to."""
    (x, y), (u, v), (real, imag) = parts(b, z), parts(b, w), parts(b, quotient)
    zero, infinity = constant_like(b, u, 0.0), constant_like(b, u, float("inf"))
    lost = b.and_(b.compare("NE", real, real), b.compare("NE", imag, imag))
    by_zero = b.and_(b.compare("EQ", u, zero), b.compare("EQ", v, zero))
    huge = b.and_(_either_infinite(b, x, y), _both_finite(b, u, v))
    tiny = b.and_(_both_finite(b, x, y), _either_infinite(b, u, v))
    x, y = (b.select(huge, _direction(b, part), part) for part in (x, y))
    u, v = (b.select(tiny, _direction(b, part), part) for part in (u, v))
    factor = b.select(tiny, zero, infinity)
    toward_real = b.fmul(factor, b.fadd(b.fmul(x, u), b.fmul(y, v)))
    toward_imag = b.fmul(factor, b.fsub(b.fmul(y, u), b.fmul(x, v)))
    pole = b.intrinsic("copysign", infinity, u)
    toward_real = b.select(by_zero, b.fmul(pole, x), toward_real)
    toward_imag = b.select(by_zero, b.fmul(pole, y), toward_imag)
    recovers = b.and_(lost, b.or_(by_zero, b.or_(huge, tiny)))
    return b.complex(b.select(recovers, toward_real, real), b.select(recovers, toward_imag, imag))


def _is_infinite(b: ScalarBuilder, x: Value) -> Value:
    return b.compare("EQ", b.intrinsic("fabs", x), constant_like(b, x, float("inf")))


def _either_infinite(b: ScalarBuilder, x: Value, y: Value) -> Value:
    return b.or_(_is_infinite(b, x), _is_infinite(b, y))


def _both_finite(b: ScalarBuilder, x: Value, y: Value) -> Value:
    infinity = constant_like(b, x, float("inf"))
    first = b.compare("LT", b.intrinsic("fabs", x), infinity)
    return b.and_(first, b.compare("LT", b.intrinsic("fabs", y), infinity))


def _direction(b: ScalarBuilder, x: Value) -> Value:
    """Emit 1 for an infinite part and 0 for a finite one, with the sign of `x`."""
    one, zero = constant_like(b, x, 1.0), constant_like(b, x, 0.0)
    return b.intrinsic("copysign", b.select(_is_infinite(b, x), one, zero), x)


def negate(b: ScalarBuilder, z: Value) -> Value:
    """Emit -z."""
    x, y = parts(b, z)
    return b.complex(b.fneg(x), b.fneg(y))


def times_i(b: ScalarBuilder, z: Value) -> Value:
    """Emit i z."""
    x, y = parts(b, z)
    return b.complex(b.fneg(y), x)


def over_i(b: ScalarBuilder, z: Value) -> Value:
    """Emit z / i = -i z."""
    x, y = parts(b, z)
    return b.complex(y, b.fneg(x))


def magnitude(b: ScalarBuilder, z: Value) -> Value:
    """Emit |z| without overflow; an infinite part gives infinity."""
    x, y = (b.intrinsic("fabs", part) for part in parts(b, z))
    flat = b.compare("GE", x, y)
    large, small = b.select(flat, x, y), b.select(flat, y, x)
    ratio = b.fdiv(small, large)
    one, zero = constant_like(b, x, 1.0), constant_like(b, x, 0.0)
    size = b.fmul(large, b.intrinsic("sqrt", b.fadd(one, b.fmul(ratio, ratio))))
    infinity = constant_like(b, x, float("inf"))
    size = b.select(b.compare("EQ", large, zero), b.fadd(x, y), size)
    infinite = b.or_(b.compare("EQ", x, infinity), b.compare("EQ", y, infinity))
    return b.select(infinite, infinity, size)


def exponential(b: ScalarBuilder, z: Value) -> Value:
    """Emit e^x (cos y + i sin y); real for a real `z`, also an infinite one."""
    x, y = parts(b, z)
    growth = b.math("exp", x)
    zero = constant_like(b, x, 0.0)
    imag = b.fmul(growth, b.math("sin", y))
    imag = b.select(b.compare("EQ", y, zero), y, imag)
    turned = b.fmul(growth, b.math("cos", y))
    vanished = b.compare("EQ", growth, zero)
    return b.complex(b.select(vanished, zero, turned), b.select(vanished, zero, imag))


def log(b: ScalarBuilder, z: Value) -> Value:
    """Emit log |z| + i arg z; near |z| = 1 by log1p, which does not cancel."""
    x, y = parts(b, z)
    one, half, two = (constant_like(b, x, v) for v in (1.0, 0.5, 2.0))
    size_x, size_y = b.intrinsic("fabs", x), b.intrinsic("fabs", y)
    flat = b.compare("GE", size_x, size_y)
    large, small = b.select(flat, size_x, size_y), b.select(flat, size_y, size_x)
    # |z|^2 - 1 = (large - 1) (large + 1) + small^2
    excess = b.fmul(b.fsub(large, one), b.fadd(large, one))
    excess = b.fadd(excess, b.fmul(small, small))
    size = magnitude(b, z)
    near = b.and_(b.compare("GT", size, half), b.compare("LT", size, two))
    real = b.select(near, b.fmul(half, b.math("log1p", excess)), b.math("log", size))
    return b.complex(real, b.math("atan2", y, x))


def sqrt(b: ScalarBuilder, z: Value) -> Value:
    """Emit the square root with a real part of at least 0, without cancellation."""
    x, y = parts(b, z)
    half, zero = constant_like(b, x, 0.5), constant_like(b, x, 0.0)
    # |z| / 2 + |x| / 2 cannot overflow where |z| does not.
    size = b.fadd(b.fmul(half, magnitude(b, z)), b.fmul(half, b.intrinsic("fabs", x)))
    large = b.intrinsic("sqrt", size)
    small = b.fdiv(b.fmul(half, b.intrinsic("fabs", y)), large)
    small = b.select(b.compare("EQ", large, zero), zero, small)
    right = b.compare("GE", x, zero)
    imag = b.select(right, small, large)
    return b.complex(b.select(right, large, small), b.intrinsic("copysign", imag, y))


def reciprocal(b: ScalarBuilder, z: Value) -> Value:
    """Emit 1 / z."""
    return divide(b, complex_of_real(b, constant_like(b, z, 1.0)), z)


def equal(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z == w, a pred."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    return b.and_(b.compare("EQ", x, u), b.compare("EQ", y, v))
