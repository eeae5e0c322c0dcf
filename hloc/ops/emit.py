"""Pieces of elemental emitters: dispatch on the element type, and complex arithmetic.

All use the `ScalarBuilder` protocol. Complex values are split into real and imaginary parts;
functions of narrow floats are computed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hloc.dtypes import DTYPES, F32, DType, component_of
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import ElementalFunction, ScalarBuilder

Value: TypeAlias = Any
"""A value in a register of the generated code; its `dtype` is an element type."""

Emit: TypeAlias = Callable[..., Value]
"""`emit(b, *values)` of values of one element type."""


def by_type(
    *,
    floats: Emit | None = None,
    integers: Emit | None = None,
    complexes: Emit | None = None,
    pred: Emit | None = None,
) -> ElementalFunction:
    """Return an emitter that selects the branch of the result's type and converts to it."""

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
    return lambda b, *values: b.math(name, *values)


def intrinsic(name: str) -> Emit:
    """Return the emitter of a float instruction that `ScalarBuilder.intrinsic` knows."""
    return in_f32(lambda b, *values: b.intrinsic(name, *values))


def one_bit_in_bytes(emit: Emit) -> Emit:
    """Return `emit` computed in bytes for s1 and u1, where constants such as 1 or -1 do not fit."""

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


def equal(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z == w, a pred."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    return b.and_(b.compare("EQ", x, u), b.compare("EQ", y, v))
