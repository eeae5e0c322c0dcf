"""Integer arithmetic. Results wrap; source: PTX ISA, "Integer Arithmetic Instructions"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hloc.ptx.frame import Frame
from hloc.ptx.operation import Decoder, Function, Operation, mapped, of_one_type, type_of
from hloc.ptx.program import Instruction
from hloc.ptx.value_types import TYPES, Array, PtxType


def saturated(function: Callable[[Array, Array], Array]) -> Function:
    """Return 32-bit signed arithmetic that clamps instead of wrapping."""

    def run(a: Array, b: Array) -> Array:
        exact = function(a.astype(np.int64), b.astype(np.int64))
        return np.clip(exact, -(1 << 31), (1 << 31) - 1).astype(np.int32)

    return run


def high_half(a: Array, b: Array) -> Array:
    """Return the upper half of the product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return np.asarray((a.astype(wide) * b.astype(wide)) >> bits, a.dtype)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    x, y = a.view(np.uint64), b.view(np.uint64)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = (middle & low) + x0 * y1
    high = x1 * y1 + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return np.asarray(high.view(a.dtype))


def quotient(a: Array, b: Array) -> Array:
    """Return a / b rounded towards zero; division by zero gives all ones, as the hardware does."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(zero, ~a.dtype.type(0), a // safe)
    # The magnitude is computed unsigned, where even the smallest integer has one.
    bits = np.dtype(f"u{a.dtype.itemsize}")
    x, y = _magnitude(a, bits), _magnitude(safe, bits)
    q = (x // y).view(a.dtype)
    return np.where(zero, a.dtype.type(-1), np.where((a < 0) != (safe < 0), -q, q))


def _magnitude(a: Array, bits: np.dtype[np.unsignedinteger]) -> Array:
    u = a.view(bits)
    return np.where(a < 0, bits.type(0) - u, u)


def remainder(a: Array, b: Array) -> Array:
    """Return a - b * (a / b), with the sign of a; a modulo zero is a."""
    return np.where(b == 0, a, a - quotient(a, b) * b)


def decode_sum(instruction: Instruction, frame: Frame) -> Operation:
    """Add and sub, with .sat and packed 16-bit pairs."""
    of = type_of(instruction, frame)
    function: Function = np.add if instruction.parts[0] == "add" else np.subtract
    if instruction.has("sat"):
        function = saturated(function)
    return mapped(instruction, frame, function, of, of, of)


def wide_type(of: PtxType, frame: Frame) -> PtxType:
    """Return the type of twice the width."""
    name = f"{of.name[0]}{2 * of.bits}"
    if name not in TYPES:
        raise frame.fault(f"no type is twice as wide as .{of.name}")
    return TYPES[name]


def decode_mul(instruction: Instruction, frame: Frame) -> Operation:
    """Mul and mad: .lo, .hi or .wide; mul24 and mad24 are .lo of values of 24 bits."""
    of = type_of(instruction, frame)
    result = of
    function: Function = np.multiply
    if instruction.has("wide"):
        result = wide_type(of, frame)
        dtype = result.dtype

        def function(x: Array, y: Array) -> Array:
            return np.asarray(np.multiply(x, y, dtype=dtype))

    elif instruction.has("hi"):
        function = high_half
    if len(instruction.operands) == 3:
        return mapped(instruction, frame, function, result, of, of)
    total: Function = saturated(np.add) if instruction.has("sat") else np.add
    product = function
    return mapped(
        instruction, frame, lambda x, y, z: total(product(x, y), z), result, of, of, result
    )


def distance_sum(a: Array, b: Array, c: Array) -> Array:
    """Return c + |a - b|."""
    return c + np.where(a < b, b - a, a - b)


def decode_dot(instruction: Instruction, frame: Frame) -> Operation:
    """dp4a and dp2a: dot product of bytes with bytes or halves, added to c."""
    a_type, b_type = TYPES[instruction.parts[-2]], TYPES[instruction.parts[-1]]
    is_signed = "signed" in (a_type.kind, b_type.kind)
    result = TYPES["s32" if is_signed else "u32"]
    pairs = instruction.parts[0] == "dp2a"
    first = 2 if instruction.has("hi") else 0

    def pieces(word: Array, letter: str, size: int) -> Array:
        return np.ascontiguousarray(word).view(np.dtype(f"{letter}{size}")).reshape(len(word), -1)

    letters = ["i" if t.kind == "signed" else "u" for t in (a_type, b_type)]

    def function(x: Array, y: Array, z: Array) -> Array:
        left = pieces(x, letters[0], 2 if pairs else 1).astype(np.int64)
        right = pieces(y, letters[1], 1).astype(np.int64)
        if pairs:
            right = right[:, first : first + 2]
        return np.asarray((left * right).sum(axis=1) + z).astype(result.dtype)

    plain = TYPES["b32"]
    return mapped(instruction, frame, function, result, plain, plain, result)


DECODERS: dict[str, Decoder] = {
    "add": decode_sum,
    "sub": decode_sum,
    "mul": decode_mul,
    "mad": decode_mul,
    "mul24": decode_mul,
    "mad24": decode_mul,
    "div": of_one_type(quotient, 2),
    "rem": of_one_type(remainder, 2),
    "min": of_one_type(np.minimum, 2),
    "max": of_one_type(np.maximum, 2),
    "neg": of_one_type(np.negative, 1),
    "abs": of_one_type(np.abs, 1),
    "sad": of_one_type(distance_sum, 3),
    "dp4a": decode_dot,
    "dp2a": decode_dot,
}
