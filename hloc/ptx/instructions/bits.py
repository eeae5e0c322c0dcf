"""Logic and shifts, bit fields and counts.

Source: PTX ISA, "Logic and Shift Instructions" and "Integer Arithmetic Instructions".
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hloc.ptx.frame import Frame
from hloc.ptx.operation import (
    Decoder,
    Function,
    Operation,
    elementwise,
    mapped,
    of_one_type,
    of_types,
    type_of,
)
from hloc.ptx.program import Immediate, Instruction
from hloc.ptx.value_types import TYPES, Array, unsigned


def shift_left(a: Array, n: Array) -> Array:
    """Return a << n; 0 if n is at least the width."""
    width = 8 * a.dtype.itemsize
    shifted = a << np.minimum(n, width - 1).astype(a.dtype)
    return np.asarray(np.where(n >= width, a.dtype.type(0), shifted))


def shift_right(a: Array, n: Array) -> Array:
    """Return a >> n, filled with the sign of a signed value; n is clamped to the width."""
    width = 8 * a.dtype.itemsize
    shifted = a >> np.minimum(n, width - 1).astype(a.dtype)
    if a.dtype.kind == "i":
        return np.asarray(shifted)
    return np.asarray(np.where(n >= width, a.dtype.type(0), shifted))


def decode_shift(instruction: Instruction, frame: Frame) -> Operation:
    """Shl and shr."""
    of = type_of(instruction, frame)
    d, a, n = instruction.operands
    left = instruction.parts[0] == "shl"
    target, source = frame.target(d, of), frame.source(a, of)
    if isinstance(n, Immediate):
        if n.value < of.bits:
            plain: Function = np.left_shift if left else np.right_shift
            return elementwise(plain, target, source, frame.constant(n.value, of))
        if not left and of.kind == "signed":
            last = frame.constant(of.bits - 1, of)
            return elementwise(np.right_shift, target, source, last)
        return elementwise(np.zeros_like, target, source)
    count = frame.source(n, TYPES["u32"])
    return elementwise(shift_left if left else shift_right, target, source, count)


def funnel(low: Array, high: Array, n: Array, *, wrap: bool, r: bool) -> Array:
    """Shf: 32 bits out of the 64 of {b, a}, shifted; .wrap takes the count modulo 32."""
    count = (n & np.uint32(31) if wrap else np.minimum(n, np.uint32(32))).astype(np.uint64)
    both = high.astype(np.uint64) << np.uint64(32) | low
    moved = both >> count if r else both << count >> np.uint64(32)
    return np.asarray(moved).astype(np.uint32)


def extract_field(a: Array, position: Array, length: Array) -> Array:
    """Bfe: bits [position, position + length), sign-extended for signed types."""
    width = 8 * a.dtype.itemsize
    start = (position & 0xFF).astype(np.int64)
    count = (length & 0xFF).astype(np.int64)
    if a.dtype.kind == "u":
        field = shift_right(a, start)
        mask = shift_left(np.ones_like(a), count) - a.dtype.type(1)
        return np.asarray(field & mask)
    # The sign is the bit at the end of the field, or the top bit if the field reaches beyond.
    end = np.minimum(start + count, width)
    kept = end - start
    lifted = shift_left(a, width - end)
    field = shift_right(lifted, np.maximum(width - kept, 0))
    sign = shift_right(a, np.full_like(start, width - 1))
    beyond = np.where(start >= width, sign, field)
    return np.where(count == 0, a.dtype.type(0), beyond)


def insert_field(a: Array, b: Array, position: Array, length: Array) -> Array:
    """Bfi: the low bits of a, inserted into b."""
    start, size = ((n & 0xFF).astype(np.int64) for n in (position, length))
    mask = shift_left(shift_left(np.ones_like(a), size) - a.dtype.type(1), start)
    return (b & ~mask) | (shift_left(a, start) & mask)


def leading_zeros(a: Array) -> Array:
    """Return the number of zero bits above the highest set bit of unsigned integers."""
    width = 8 * a.dtype.itemsize
    count = np.zeros(a.shape, np.uint32)
    rest = a.copy()
    step = width // 2
    while step:
        empty = rest >> a.dtype.type(width - step) == 0
        count += np.where(empty, np.uint32(step), np.uint32(0))
        rest = np.where(empty, rest << a.dtype.type(step), rest)
        step //= 2
    return np.where(a == 0, np.uint32(width), count)


def find_highest(a: Array, *, shiftamt: bool) -> Array:
    """Bfind: position of the highest bit that is not the sign, or with .shiftamt its distance."""
    size = a.dtype.itemsize
    plain = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
    zeros = leading_zeros(plain.view(f"u{size}"))
    found = zeros if shiftamt else np.uint32(8 * size - 1) - zeros
    return np.where(plain == 0, np.uint32(0xFFFFFFFF), found)


def reversed_bits(a: Array) -> Array:
    """Return the bits in opposite order."""
    size = a.dtype.itemsize
    bytes_ = np.ascontiguousarray(a).view(np.uint8).reshape(-1, size)
    bits = np.unpackbits(bytes_, axis=1)[:, ::-1]
    return np.packbits(bits, axis=1).view(a.dtype)[:, 0]


def _counting(function: Function, instruction: Instruction, frame: Frame) -> Operation:
    of = unsigned(type_of(instruction, frame).size)
    return mapped(instruction, frame, function, TYPES["u32"], of)


def decode_lop3(instruction: Instruction, frame: Frame) -> Operation:
    """lop3: any function of three bits, given by its truth table."""
    of = type_of(instruction, frame)
    d, a, b, c, table = instruction.operands
    if not isinstance(table, Immediate):
        raise frame.fault("the truth table of lop3 must be constant")
    chosen = [i for i in range(8) if table.value >> i & 1]

    def function(x: Array, y: Array, z: Array) -> Array:
        result = np.zeros_like(x)
        for i in chosen:
            result |= (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z)
        return result

    rows = frame.source(a, of), frame.source(b, of), frame.source(c, of)
    return elementwise(function, frame.target(d, of), *rows)


_PERMUTE_MODES: dict[str, Function] = {
    "f4e": lambda s: (s + np.arange(4)) & 7,
    "b4e": lambda s: (s - np.arange(4)) & 7,
    "rc8": lambda s: np.broadcast_to(s, (len(s), 4)),
    "ecl": lambda s: np.maximum(s, np.arange(4)),
    "ecr": lambda s: np.minimum(s, np.arange(4)),
    "rc16": lambda s: (s & 1) * 2 + np.array([0, 1, 0, 1]),
}


def decode_prmt(instruction: Instruction, frame: Frame) -> Operation:
    """Prmt: four bytes chosen from the eight of {b, a}, or their signs."""
    mode = _PERMUTE_MODES.get(instruction.parts[-1])

    def function(low: Array, high: Array, selector: Array) -> Array:
        both = np.stack([low, high], axis=1).view(np.uint8)
        if mode is not None:
            index = mode((selector & np.uint32(3)).astype(np.int64)[:, None])
            return np.take_along_axis(both, index, axis=1).view(np.uint32)[:, 0]
        nibbles = selector[:, None] >> np.arange(0, 16, 4, dtype=np.uint32) & np.uint32(15)
        picked = np.take_along_axis(both, (nibbles & 7).astype(np.int64), axis=1)
        signs = np.where(picked & 0x80, np.uint8(0xFF), np.uint8(0))
        return np.where(nibbles & 8, signs, picked).astype(np.uint8).view(np.uint32)[:, 0]

    return mapped(instruction, frame, function, *[TYPES["b32"]] * 4)


def find_nth(masks: Array, starts: Array, counts: Array) -> Array:
    """Fns: the position of the n-th set bit of a mask, counted from `base` up or down."""
    triples = zip(masks.tolist(), starts.tolist(), counts.tolist(), strict=True)
    return np.array([_nth_bit(*triple) for triple in triples], np.uint32)


def _nth_bit(bits: int, start: int, n: int) -> int:
    step = 1 if n >= 0 else -1
    left = max(abs(n), 1)
    position = start
    while 0 <= position < 32:
        if bits >> position & 1:
            left -= 1
            if left == 0:
                return position
        elif n == 0:
            break
        position += step
    return 0xFFFFFFFF


def bit_mask(position: Array, length: Array, *, wrap: bool) -> Array:
    """Bmsk: a run of ones; .clamp limits position and length to 32, .wrap takes them modulo 32."""
    if wrap:
        position, length = position & np.uint32(31), length & np.uint32(31)
    ones = shift_left(np.ones_like(position), length) - np.uint32(1)
    return shift_left(ones, position)


def extended(a: Array, n: Array, *, wrap: bool) -> Array:
    """Szext: sign- or zero-extend from b bits."""
    count = n & np.uint32(31) if wrap else np.minimum(n, np.uint32(32))
    rest = np.uint32(32) - count
    moved = shift_right(shift_left(a, rest), rest)
    return np.where(count == 0, a.dtype.type(0), moved)


DECODERS: dict[str, Decoder] = {
    "and": of_one_type(np.bitwise_and, 2),
    "or": of_one_type(np.bitwise_or, 2),
    "xor": of_one_type(np.bitwise_xor, 2),
    "not": of_one_type(np.invert, 1),
    "cnot": of_one_type(lambda a: (a == 0).astype(a.dtype), 1),
    "shl": decode_shift,
    "shr": decode_shift,
    "shf": of_types(funnel, *["b32"] * 4, words=("wrap", "r")),
    "bfe": of_types(extract_field, "", "", "u32", "u32"),
    "bfi": of_types(insert_field, "", "", "", "u32", "u32"),
    "bfind": of_types(find_highest, "u32", "", words=("shiftamt",)),
    "brev": of_one_type(reversed_bits, 1),
    "popc": partial(_counting, np.bitwise_count),
    "clz": partial(_counting, leading_zeros),
    "lop3": decode_lop3,
    "prmt": decode_prmt,
    "fns": of_types(find_nth, "u32", "u32", "u32", "s32"),
    "bmsk": of_types(bit_mask, *["u32"] * 3, words=("wrap",)),
    "szext": of_types(extended, "", "", "u32", words=("wrap",)),
}
