"""Integers: bit-vectors, which wrap; division and shifts as docs/numerics.md defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hloc.dtypes import DType

Meaning: TypeAlias = Callable[..., Any]
"""`meaning(z3, dtype, *operands)`."""


def add(_z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return x + y


def subtract(_z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return x - y


def multiply(_z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return x * y


def mulhi(z: Any, dtype: DType, x: Any, y: Any) -> Any:
    """The high half of the product in twice the width."""
    extended = z.SignExt if dtype.is_signed else z.ZeroExt
    wide = extended(dtype.bits, x) * extended(dtype.bits, y)
    return z.Extract(2 * dtype.bits - 1, dtype.bits, wide)


def divide(z: Any, dtype: DType, x: Any, y: Any) -> Any:
    """Truncated; x / 0 has all bits set; MIN / -1 wraps to MIN."""
    quotient = x / y if dtype.is_signed else z.UDiv(x, y)
    return z.If(y == 0, z.BitVecVal(-1, dtype.bits), quotient)


def remainder(z: Any, dtype: DType, x: Any, y: Any) -> Any:
    """The sign of x; x rem 0 = x; MIN rem -1 = 0."""
    rest = z.SRem(x, y) if dtype.is_signed else z.URem(x, y)
    return z.If(y == 0, x, rest)


def maximum(z: Any, dtype: DType, x: Any, y: Any) -> Any:
    return z.If(ordered(z, dtype, "GE", x, y), x, y)


def minimum(z: Any, dtype: DType, x: Any, y: Any) -> Any:
    return z.If(ordered(z, dtype, "LE", x, y), x, y)


def clamp(z: Any, dtype: DType, low: Any, x: Any, high: Any) -> Any:
    return minimum(z, dtype, maximum(z, dtype, x, low), high)


def power(z: Any, dtype: DType, x: Any, y: Any) -> Any:
    """Square and multiply, wrapping; a negative exponent gives 1 / x^-y: 0, 1 or -1."""
    one, result, base = z.BitVecVal(1, dtype.bits), z.BitVecVal(1, dtype.bits), x
    for bit in range(dtype.bits - dtype.is_signed):
        result = z.If(z.Extract(bit, bit, y) == 1, result * base, result)
        base = base * base
    if not dtype.is_signed:
        return result
    minus_one = z.BitVecVal(-1, dtype.bits)
    odd = z.Extract(0, 0, y) == 1
    unit = z.If(x == minus_one, z.If(odd, minus_one, one), z.If(x == one, one, x - x))
    return z.If(y < 0, unit, result)


def negate(_z: Any, _dtype: DType, x: Any) -> Any:
    return -x


def absolute(z: Any, _dtype: DType, x: Any) -> Any:
    """MIN is unchanged; signed types only, as in HLO."""
    return z.If(x < 0, -x, x)


def sign(z: Any, dtype: DType, x: Any) -> Any:
    one = z.BitVecVal(1, dtype.bits)
    return z.If(x < 0, -one, z.If(x == 0, x, one))


def not_(_z: Any, _dtype: DType, x: Any) -> Any:
    return ~x


def and_(_z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return x & y


def or_(_z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return x | y


def xor(_z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return x ^ y


def shift_left(_z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    """SMT-LIB's shifts take the amount as unsigned and shift all bits out, as HLO's do."""
    return x << y


def shift_right_logical(z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return z.LShR(x, y)


def shift_right_arithmetic(_z: Any, _dtype: DType, x: Any, y: Any) -> Any:
    return x >> y


def popcnt(z: Any, dtype: DType, x: Any) -> Any:
    total = z.BitVecVal(0, dtype.bits)
    for bit in range(dtype.bits):
        total = total + _bit(z, dtype, x, bit)
    return total


def count_leading_zeros(z: Any, dtype: DType, x: Any) -> Any:
    count = z.BitVecVal(dtype.bits, dtype.bits)
    for bit in range(dtype.bits):
        above = z.BitVecVal(dtype.bits - 1 - bit, dtype.bits)
        count = z.If(z.Extract(bit, bit, x) == 1, above, count)
    return count


def _bit(z: Any, dtype: DType, x: Any, bit: int) -> Any:
    single = z.Extract(bit, bit, x)
    return z.ZeroExt(dtype.bits - 1, single) if dtype.bits > 1 else single


def ordered(z: Any, dtype: DType, direction: str, x: Any, y: Any) -> Any:
    """Return a Bool: the signed or unsigned comparison."""
    match direction:
        case "EQ":
            return x == y
        case "NE":
            return x != y
        case "LT":
            return x < y if dtype.is_signed else z.ULT(x, y)
        case "LE":
            return x <= y if dtype.is_signed else z.ULE(x, y)
        case "GT":
            return x > y if dtype.is_signed else z.UGT(x, y)
        case _:
            return x >= y if dtype.is_signed else z.UGE(x, y)


INTEGERS: dict[str, Meaning] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "mulhi": mulhi,
    "divide": divide,
    "remainder": remainder,
    "maximum": maximum,
    "minimum": minimum,
    "clamp": clamp,
    "power": power,
    "negate": negate,
    "abs": absolute,
    "sign": sign,
    "not": not_,
    "and": and_,
    "or": or_,
    "xor": xor,
    "shift-left": shift_left,
    "shift-right-logical": shift_right_logical,
    "shift-right-arithmetic": shift_right_arithmetic,
    "popcnt": popcnt,
    "count-leading-zeros": count_leading_zeros,
}
