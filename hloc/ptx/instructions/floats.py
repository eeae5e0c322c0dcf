"""Floating-point arithmetic, exact to the bit where the hardware is.

Source: PTX ISA, "Floating Point Instructions" and "Half Precision Floating-Point Instructions".
Approximate instructions (.approx) are computed in f64 and rounded; the hardware differs in the
last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from hloc.ptx.frame import Frame
from hloc.ptx.operation import Decoder, Function, Operation, elementwise, mapped, type_of
from hloc.ptx.program import Instruction, Operand
from hloc.ptx.rounding import (
    bf16_of_f32,
    exact_directed,
    f32_of_bf16,
    fma_f32,
    fma_f64,
    fma_narrow,
)
from hloc.ptx.value_types import TYPES, Array, PtxType, some

_DIRECTED = ("rz", "rm", "rp")


def flushed(values: Array) -> Array:
    """Return f32 values with subnormals flushed to zero of the same sign (.ftz)."""
    tiny = np.abs(values) < np.float32(2.0**-126)
    return np.where(tiny, np.copysign(np.float32(0), values), values)


def canonical_nan(values: Array) -> Array:
    """Return f32 values with the one NaN that the hardware produces, 0x7fffffff."""
    wrong = values != values
    if not some(wrong):
        return values
    return np.where(wrong, _NAN[values.dtype.itemsize], values)


_NAN: dict[int, Array] = {
    2: np.array(0x7FFF, np.uint16).view(np.float16),
    4: np.array(0x7FFFFFFF, np.uint32).view(np.float32),
    8: np.array(0x7FF8000000000000, np.uint64).view(np.float64),
}


def in_format(function: Function, of: PtxType, instruction: Instruction) -> Function:
    """Return `function`, written for f16, f32 or f64 arrays, acting on rows of type `of`.

    Applies the qualifiers: .ftz to operands and result, .sat and .relu to the result; bf16 is
    computed in f32. NaN results get the hardware's bits.
    """
    flush = instruction.has("ftz") and of.size * of.columns == 4 and of.columns == 1
    saturate, relu = instruction.has("sat"), instruction.has("relu")
    brain = of.name.startswith("bf16")

    if not (flush or saturate or relu or brain):
        return lambda *values: canonical_nan(function(*values))

    def run(*sources: Array) -> Array:
        values = [f32_of_bf16(s) if brain else s for s in sources]
        if flush:
            values = [flushed(v) for v in values]
        result = function(*values)
        if flush:
            result = flushed(result)
        if saturate:
            result = np.clip(result, result.dtype.type(0), result.dtype.type(1))
            result = np.where(result == result, result, result.dtype.type(0))
        elif relu:
            result = np.where(result < 0, result.dtype.type(0), result)
        if brain:
            return bf16_of_f32(result)
        return canonical_nan(result)

    return run


def result_type(instruction: Instruction, frame: Frame) -> PtxType:
    """Return the type of the result: the first of two types, as in add.f32.bf16."""
    before = TYPES.get(instruction.parts[-2])
    return before if before is not None else type_of(instruction, frame)


def mixed_sources(
    instruction: Instruction, of: PtxType, operands: list[Operand], frame: Frame
) -> tuple[list[int], Callable[[Function], Function]]:
    """Return the rows of the sources, and the function that widens narrower ones.

    In add.f32.bf16 and fma.f32.bf16 all sources but the last are bf16.
    """
    narrow = type_of(instruction, frame)
    if narrow is of:
        return [frame.source(operand, of) for operand in operands], lambda function: function
    rows = [frame.source(operand, narrow) for operand in operands[:-1]]
    rows.append(frame.source(operands[-1], of))
    brain = narrow.name == "bf16"

    def widen(function: Function) -> Function:
        def run(*values: Array) -> Array:
            wide = [f32_of_bf16(v) if brain else v.astype(of.dtype) for v in values[:-1]]
            return function(*wide, values[-1])

        return run

    return rows, widen


def decode_arithmetic(nearest: Callable[[PtxType], Function]) -> Decoder:
    """Return the decoder of an arithmetic instruction; `nearest` rounds as PTX's .rn does."""

    def decode(instruction: Instruction, frame: Frame) -> Operation:
        of = result_type(instruction, frame)
        d, *operands = instruction.operands
        mode = next((p for p in instruction.parts if p in _DIRECTED), None)
        name = "fma" if len(operands) == 3 else instruction.parts[0]
        chosen = nearest(of) if mode is None else exact_directed(name, mode, of.dtype)
        sources, widen = mixed_sources(instruction, of, operands, frame)
        run = widen(in_format(chosen, of, instruction))
        return elementwise(run, frame.target(d, of), *sources)

    return decode


def _fma_f16(a: Array, b: Array, c: Array) -> Array:
    return fma_narrow(*(x.astype(np.float64) for x in (a, b, c))).astype(np.float16)


def fma_of(of: PtxType) -> Function:
    """Return a * b + c rounded once for f16, f32 or f64 arrays, and bf16 ones given as f32."""
    if of.size == 8 and of.columns == 1:
        return fma_f64
    if of.dtype == np.float32:
        return fma_f32
    if of.dtype == np.float16:
        return _fma_f16

    def brain(a: Array, b: Array, c: Array) -> Array:
        exact = fma_narrow(*(x.astype(np.float64) for x in (a, b, c)))
        # To f32 by truncation, with a sticky last bit: rounding to odd once more.
        return odd_f32(exact)

    return brain


def odd_f32(values: Array) -> Array:
    """Return f64 values as f32, rounded to odd."""
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    inexact = (back != values) & np.isfinite(back)
    bits = nearest.view(np.int32)
    toward_zero = np.where(inexact & (np.abs(back) > np.abs(values)), bits - 1, bits)
    return np.where(inexact, toward_zero | 1, bits).astype(np.int32).view(np.float32)


def minimum(a: Array, b: Array) -> Array:
    """Return the smaller number; -0 is smaller than +0; NaN only if both are."""
    return _extreme(a, b, np.fmin, np.signbit(a))


def maximum(a: Array, b: Array) -> Array:
    """Return the larger number; +0 is larger than -0; NaN only if both are."""
    return _extreme(a, b, np.fmax, np.signbit(b))


def _extreme(a: Array, b: Array, function: Function, first: Array) -> Array:
    zeros = (a == 0) & (b == 0)
    result = np.where(zeros, np.where(first, a, b), function(a, b))
    # NumPy's functions return a NaN where one operand is a signalling NaN.
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, result))


def decode_extreme(lower: bool) -> Decoder:
    """Return the decoder of min or max, with .NaN and .xorsign.abs, of two or three values."""
    choose = minimum if lower else maximum

    def decode(instruction: Instruction, frame: Frame) -> Operation:
        """Return `min` or `max`: a NaN operand gives the other one, or NaN with `.NaN`."""
        of = type_of(instruction, frame)
        keep_nan, xor_sign = instruction.has("NaN"), instruction.has("xorsign")

        def function(*values: Array) -> Array:
            signs = np.signbit(values[0]) ^ np.signbit(values[1])
            if xor_sign or instruction.has("abs"):
                values = tuple(np.abs(v) for v in values)
            result = values[0]
            for value in values[1:]:
                either = (result != result) | (value != value)
                result = choose(result, value)
                if keep_nan:
                    result = np.where(either, result.dtype.type(np.nan), result)
            if xor_sign:
                result = np.copysign(result, np.where(signs, -1, 1).astype(result.dtype))
            return np.asarray(result)

        sources = [of] * (len(instruction.operands) - 1)
        return mapped(instruction, frame, in_format(function, of, instruction), of, *sources)

    return decode


def decode_sign(instruction: Instruction, frame: Frame, *, flip: bool) -> Operation:
    """Neg (`flip`) or abs: on the bits, so that NaN keeps its payload."""
    of = type_of(instruction, frame)
    bits = np.dtype(f"u{of.dtype.itemsize}")
    top = bits.type(1 << 8 * bits.itemsize - 1)
    flush = instruction.has("ftz") and of.name == "f32"
    plain = TYPES[f"b{8 * bits.itemsize}"] if of.columns == 1 else TYPES["u16x2"]

    def function(x: Array) -> Array:
        if flush:
            x = flushed(np.ascontiguousarray(x).view(np.float32)).view(np.uint32)
        return np.asarray(x ^ top if flip else x & ~top)

    return mapped(instruction, frame, function, plain, plain)


def decode_copysign(instruction: Instruction, frame: Frame) -> Operation:
    """Copysign: the sign of a, the magnitude of b."""
    of = TYPES[f"b{type_of(instruction, frame).bits}"]
    top = of.dtype.type(1 << of.bits - 1)
    return mapped(instruction, frame, lambda x, y: (x & top) | (y & ~top), of, of, of)


def through_f64(function: Callable[[Array], Array]) -> Decoder:
    """Return the decoder of an approximate function, computed in f64 and rounded."""

    def decode(instruction: Instruction, frame: Frame) -> Operation:
        of = type_of(instruction, frame)

        def run(x: Array) -> Array:
            return np.asarray(function(x.astype(np.float64))).astype(x.dtype)

        return mapped(instruction, frame, in_format(run, of, instruction), of, of)

    return decode


DECODERS: dict[str, Decoder] = {
    "add": decode_arithmetic(lambda _: np.add),
    "sub": decode_arithmetic(lambda _: np.subtract),
    "mul": decode_arithmetic(lambda _: np.multiply),
    "div": decode_arithmetic(lambda _: np.divide),
    "fma": decode_arithmetic(fma_of),
    "mad": decode_arithmetic(fma_of),
    "min": decode_extreme(lower=True),
    "max": decode_extreme(lower=False),
    "neg": partial(decode_sign, flip=True),
    "abs": partial(decode_sign, flip=False),
    "copysign": decode_copysign,
    "rcp": decode_arithmetic(lambda _: lambda x: x.dtype.type(1) / x),
    "sqrt": decode_arithmetic(lambda _: np.sqrt),
    "rsqrt": through_f64(lambda x: 1 / np.sqrt(x)),
    "ex2": through_f64(np.exp2),
    "lg2": through_f64(np.log2),
    "sin": through_f64(np.sin),
    "cos": through_f64(np.cos),
    "tanh": through_f64(np.tanh),
}
