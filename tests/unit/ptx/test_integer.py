"""Integer and bit instructions against Python's integers, over edges and random values."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.ptx.ptx_running import Array, evaluate

RANDOM = random.Random(1)
TYPES = ("u16", "s16", "u32", "s32", "u64", "s64")


def edges(bits: int) -> list[int]:
    """Return bit patterns of that width that arithmetic likes to get wrong."""
    top = 1 << bits - 1
    plain = [0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2]
    return plain + [RANDOM.getrandbits(bits) for _ in range(6)]


def pairs(bits: int) -> tuple[list[int], list[int]]:
    values = edges(bits)
    both = [(a, b) for a in values for b in values]
    return [a for a, _ in both], [b for _, b in both]


def signed(value: int, bits: int) -> int:
    """Read a bit pattern as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def read(type_name: str, pattern: int) -> int:
    """Return the number that a pattern means in a type."""
    bits = int(type_name[1:])
    return signed(pattern, bits) if type_name[0] == "s" else pattern & (1 << bits) - 1


def words(values: list[int], bits: int) -> Array:
    return np.array([v & (1 << bits) - 1 for v in values], f"u{bits // 8}")


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def clamp(value: int, type_name: str) -> int:
    bits = int(type_name[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_name[0] == "s" else (0, 2**bits - 1)
    return min(max(value, low), high)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("opcode", BINARY)
def test_binary(opcode: str, type_name: str) -> None:
    bits = int(type_name[1:])
    a, b = pairs(bits)
    got = evaluate(
        f"{opcode}.{type_name} %out, %in0, %in1;", [words(a, bits), words(b, bits)], f"u{bits // 8}"
    )
    function = BINARY[opcode]
    expected = [function(read(type_name, x), read(type_name, y)) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(got, words(expected, bits))


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("opcode", ["div", "rem"])
def test_division_truncates(opcode: str, type_name: str) -> None:
    bits = int(type_name[1:])
    a, b = pairs(bits)
    kept = [(x, y) for x, y in zip(a, b, strict=True) if y]
    a, b = [x for x, _ in kept], [y for _, y in kept]
    got = evaluate(
        f"{opcode}.{type_name} %out, %in0, %in1;", [words(a, bits), words(b, bits)], f"u{bits // 8}"
    )
    expected = []
    for x, y in zip(a, b, strict=True):
        p, q = read(type_name, x), read(type_name, y)
        quotient = truncated(p, q)
        expected.append(quotient if opcode == "div" else p - quotient * q)
    np.testing.assert_array_equal(got, words(expected, bits))


@pytest.mark.parametrize("type_name", TYPES)
def test_high_half_of_products(type_name: str) -> None:
    bits = int(type_name[1:])
    a, b = pairs(bits)
    inputs = [words(a, bits), words(b, bits)]
    got = evaluate(f"mul.hi.{type_name} %out, %in0, %in1;", inputs, f"u{bits // 8}")
    expected = [read(type_name, x) * read(type_name, y) >> bits for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(got, words(expected, bits))


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32"])
def test_wide_products_and_sums(type_name: str) -> None:
    bits = int(type_name[1:])
    a, b = pairs(bits)
    c = [RANDOM.getrandbits(2 * bits) for _ in a]
    inputs = [words(a, bits), words(b, bits), words(c, 2 * bits)]
    got = evaluate(f"mad.wide.{type_name} %out, %in0, %in1, %in2;", inputs, f"u{bits // 4}")
    expected = [
        read(type_name, x) * read(type_name, y) + z for x, y, z in zip(a, b, c, strict=True)
    ]
    np.testing.assert_array_equal(got, words(expected, 2 * bits))


@pytest.mark.parametrize("opcode", ["add", "sub"])
def test_saturation(opcode: str) -> None:
    a, b = pairs(32)
    got = evaluate(f"{opcode}.sat.s32 %out, %in0, %in1;", [words(a, 32), words(b, 32)], "u4")
    function = BINARY[opcode]
    expected = [
        clamp(function(signed(x, 32), signed(y, 32)), "s32") for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(got, words(expected, 32))


@pytest.mark.parametrize("bits", [32, 64])
def test_carry_chains_add_and_subtract_wide_numbers(bits: int) -> None:
    size = f"u{bits // 8}"
    a, b = pairs(bits)
    high = [RANDOM.choice([0, 1, (1 << bits) - 1, RANDOM.getrandbits(bits)]) for _ in a]
    low = words(a, bits), words(b, bits)
    register = "%r" if bits == 32 else "%d"
    for opcode, carrying, sign in (("add", "addc", 1), ("sub", "subc", -1)):
        body = (
            f"{opcode}.cc.u{bits} {register}0, %in0, %in1;\n"
            f"{carrying}.cc.u{bits} %out, %in2, %in0;\n{carrying}.u{bits} {register}1, 0, 0;"
            f"add.u{bits} %out, %out, {register}1;"
        )
        got = evaluate(body, [*low, words(high, bits)], size)
        expected = []
        for x, y, z in zip(a, b, high, strict=True):
            carry = (x + y >> bits) if sign > 0 else int(x < y)
            middle = z + sign * (x + carry)
            out = 1 if not 0 <= middle < 1 << bits else 0
            expected.append(middle + sign * out)
        np.testing.assert_array_equal(got, words(expected, bits))


SHIFTS: dict[str, Callable[[int, int], int]] = {
    "shl.b": lambda a, n: a << n,
    "shr.u": lambda a, n: a >> n,
    "shr.s": lambda a, n: a >> n,
}


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("opcode", SHIFTS)
def test_shifts_clamp(opcode: str, bits: int) -> None:
    counts = [0, 1, 5, bits - 1, bits, bits + 1, 63, 64, 1000, 0xFFFFFFFF]
    both = [(a, n) for a in edges(bits) for n in counts]
    a, n = words([x for x, _ in both], bits), words([y for _, y in both], 32)
    got = evaluate(f"{opcode}{bits} %out, %in0, %in1;", [a, n], f"u{bits // 8}")
    letter = "s" if opcode == "shr.s" else "u"
    expected = [SHIFTS[opcode](read(f"{letter}{bits}", x), min(y, bits)) for x, y in both]
    np.testing.assert_array_equal(got, words(expected, bits))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 40])
def test_shifts_by_constants(count: int) -> None:
    a = words(edges(16), 16)
    got = evaluate(f"shr.s16 %out, %in0, {count};", [a], "u2")
    expected = [signed(int(x), 16) >> count for x in a]
    np.testing.assert_array_equal(got, words(expected, 16))


@pytest.mark.parametrize("mode", ["l.wrap", "l.clamp", "r.wrap", "r.clamp"])
def test_funnel_shifts(mode: str) -> None:
    counts = [0, 1, 31, 32, 33, 64]
    both = [(a, b, n) for a in edges(32) for b in edges(32)[:6] for n in counts]
    inputs = [words([t[i] for t in both], 32) for i in range(3)]
    got = evaluate(f"shf.{mode}.b32 %out, %in0, %in1, %in2;", inputs, "u4")
    expected = []
    for low, high, n in both:
        count = n & 31 if mode.endswith("wrap") else min(n, 32)
        whole = high << 32 | low
        expected.append(whole << count >> 32 if mode[0] == "l" else whole >> count)
    np.testing.assert_array_equal(got, words(expected, 32))


def field(type_name: str, a: int, position: int, length: int) -> int:
    """The pseudocode of bfe in the PTX ISA, bit by bit."""
    bits = int(type_name[1:])
    msb = bits - 1
    unsigned = type_name[0] == "u" or length == 0
    sign = 0 if unsigned else a >> min(position + length - 1, msb) & 1
    result = 0
    for i in range(bits):
        inside = i < length and position + i <= msb
        result |= (a >> position + i & 1 if inside else sign) << i
    return result


@pytest.mark.parametrize("type_name", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract(type_name: str) -> None:
    bits = int(type_name[1:])
    places = [0, 1, 7, bits - 1, bits, 200, 255]
    all_ = [(a, p, n) for a in edges(bits) for p in places for n in places]
    inputs = [words([t[0] for t in all_], bits), *(words([t[i] for t in all_], 32) for i in (1, 2))]
    got = evaluate(f"bfe.{type_name} %out, %in0, %in1, %in2;", inputs, f"u{bits // 8}")
    np.testing.assert_array_equal(got, words([field(type_name, *t) for t in all_], bits))


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_field_insert(bits: int) -> None:
    places = [0, 1, 7, bits - 1, bits, 200]
    all_ = [
        (a, b, p, n)
        for a in edges(bits)[:8]
        for b in edges(bits)[5:9]
        for p in places
        for n in places
    ]
    inputs = [words([t[i] for t in all_], bits) for i in (0, 1)]
    inputs += [words([t[i] for t in all_], 32) for i in (2, 3)]
    got = evaluate(f"bfi.b{bits} %out, %in0, %in1, %in2, %in3;", inputs, f"u{bits // 8}")
    expected = []
    for a, b, position, length in all_:
        result = b
        for i in range(length):
            if position + i < bits:
                result = result & ~(1 << position + i) | (a >> i & 1) << position + i
        expected.append(result)
    np.testing.assert_array_equal(got, words(expected, bits))


def find_top(type_name: str, a: int) -> int:
    value = read(type_name, a)
    value = ~value if value < 0 else value
    return value.bit_length() - 1


COUNTS: dict[str, Callable[[int, int], int]] = {
    "popc.b": lambda a, bits: a.bit_count(),
    "clz.b": lambda a, bits: bits - a.bit_length(),
    "bfind.u": lambda a, bits: find_top(f"u{bits}", a),
    "bfind.s": lambda a, bits: find_top(f"s{bits}", a),
}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("opcode", COUNTS)
def test_counts(opcode: str, bits: int) -> None:
    a = edges(bits) + [1 << i for i in range(bits)]
    got = evaluate(f"{opcode}{bits} %out, %in0;", [words(a, bits)], "u4")
    np.testing.assert_array_equal(got, words([COUNTS[opcode](x, bits) for x in a], 32))


@pytest.mark.parametrize("bits", [32, 64])
def test_reversal_and_complements(bits: int) -> None:
    a = edges(bits)
    inputs, size = [words(a, bits)], f"u{bits // 8}"
    got = evaluate(f"brev.b{bits} %out, %in0;", inputs, size)
    assert [int(x) for x in got] == [int(f"{x:0{bits}b}"[::-1], 2) for x in a]
    got = evaluate(f"not.b{bits} %out, %in0;", inputs, size)
    np.testing.assert_array_equal(got, words([~x for x in a], bits))
    got = evaluate(f"cnot.b{bits} %out, %in0;", inputs, size)
    np.testing.assert_array_equal(got, words([int(x == 0) for x in a], bits))
    got = evaluate(f"neg.s{bits} %out, %in0;", inputs, size)
    np.testing.assert_array_equal(got, words([-x for x in a], bits))
    got = evaluate(f"abs.s{bits} %out, %in0;", inputs, size)
    np.testing.assert_array_equal(got, words([abs(signed(x, bits)) for x in a], bits))


@pytest.mark.parametrize("table", [0x00, 0xFF, 0x80, 0xFE, 0x96, 0xCA, 0x1E])
def test_any_logic_of_three(table: int) -> None:
    values = [RANDOM.getrandbits(32) for _ in range(96)]
    a, b, c = values[:32], values[32:64], values[64:]
    got = evaluate(
        f"lop3.b32 %out, %in0, %in1, %in2, {table};", [words(v, 32) for v in (a, b, c)], "u4"
    )
    expected = []
    for x, y, z in zip(a, b, c, strict=True):
        result = 0
        for i in range(32):
            row = (x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1
            result |= (table >> row & 1) << i
        expected.append(result)
    np.testing.assert_array_equal(got, words(expected, 32))


def test_permutation_of_bytes() -> None:
    a, b = 0x83828180 ^ 0x00FF00FF, 0x07060504
    selectors = [0x3210, 0x7654, 0x0123, 0x4040, 0xBA98, 0xFEDC, 0x5162]
    count = len(selectors)
    inputs = [words([v] * count, 32) for v in (a, b)] + [words(selectors, 32)]
    got = evaluate("prmt.b32 %out, %in0, %in1, %in2;", inputs, "u4")
    source = [a >> 8 * i & 0xFF for i in range(4)] + [b >> 8 * i & 0xFF for i in range(4)]
    expected = []
    for selector in selectors:
        result = 0
        for i in range(4):
            nibble = selector >> 4 * i & 15
            byte = source[nibble & 7]
            if nibble & 8:
                byte = 0xFF if byte & 0x80 else 0
            result |= byte << 8 * i
        expected.append(result)
    np.testing.assert_array_equal(got, words(expected, 32))


PERMUTE_MODES = {  # the tables of the PTX ISA: bytes from low to high, per low bits of c
    "f4e": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)],
    "b4e": [(0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)],
    "rc8": [(i,) * 4 for i in range(4)],
    "ecl": [(0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)],
    "ecr": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)],
    "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
}


@pytest.mark.parametrize("mode", PERMUTE_MODES)
def test_permutation_modes(mode: str) -> None:
    inputs = [words([v] * 4, 32) for v in (0x03020100, 0x07060504)] + [words([0, 1, 2, 3], 32)]
    got = evaluate(f"prmt.b32.{mode} %out, %in0, %in1, %in2;", inputs, "u4")
    expected = [sum(b << 8 * i for i, b in enumerate(row)) for row in PERMUTE_MODES[mode]]
    assert [int(x) for x in got] == expected


def test_sum_of_differences_and_dot_products() -> None:
    a, b = pairs(32)
    c = [RANDOM.getrandbits(32) for _ in a]
    inputs = [words(v, 32) for v in (a, b, c)]
    got = evaluate("sad.s32 %out, %in0, %in1, %in2;", inputs, "u4")
    triples = list(zip(a, b, c, strict=True))
    np.testing.assert_array_equal(
        got, words([z + abs(signed(x, 32) - signed(y, 32)) for x, y, z in triples], 32)
    )
    got = evaluate("dp4a.s32.u32 %out, %in0, %in1, %in2;", inputs, "u4")
    expected = [
        z + sum(signed(x >> 8 * i, 8) * (y >> 8 * i & 0xFF) for i in range(4))
        for x, y, z in triples
    ]
    np.testing.assert_array_equal(got, words(expected, 32))


def test_immediates_may_be_negative_or_hexadecimal() -> None:
    a = words([5, 6], 32)
    got = evaluate("add.s32 %out, %in0, -7; xor.b32 %out, %out, 0xF0;", [a], "i4")
    assert got.tolist() == [(5 - 7) ^ 0xF0, (6 - 7) ^ 0xF0]
