"""Correctly rounded results that NumPy alone does not provide: narrow formats, fma, directed modes.

The method is rounding to odd: a value is truncated to 53 bits, and the last bit is set if the
result is inexact. Rounding that again, to fewer than 52 bits, gives the correctly rounded result.
Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using
rounding to odd" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hloc.ptx.value_types import Array, some

_ONE = np.uint64(1)
_F32_DROPPED = np.uint64((1 << 29) - 1)
_F32_TIE = np.uint64(1 << 28)
_F32_TINY = np.uint64(np.float64(2.0**-126).view(np.uint64) << _ONE)


def f32_of_bf16(bits: Array) -> Array:
    """Widen bf16, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def tf32_of_f32(x: Array, mode: str) -> Array:
    """Clear the low 13 bits of f32: to nearest (`rn`, or `rna`: ties away) or to zero (`rz`)."""
    bits, dropped = x.view(np.uint32), np.uint32(0x1FFF)
    if mode == "rna":
        moved = bits + np.uint32(0x1000)
    elif mode == "rn":
        moved = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
    else:
        moved = bits
    kept = np.where(np.isfinite(x), moved & ~dropped, bits)
    return np.where(x != x, np.uint32(0x7FFFFFFF), kept).astype(np.uint32).view(np.float32)


def bf16_of_f32(values: Array) -> Array:
    """Round f32 to bf16, ties to even; NaN becomes 0x7fff."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    odd = bits >> np.uint32(16) & np.uint32(1)
    rounded = (bits + (odd + np.uint32(0x7FFF)) >> np.uint32(16)).astype(np.uint16)
    return np.where(values != values, np.uint16(0x7FFF), rounded)


def sum_to_odd(a: Array, b: Array) -> Array:
    """Return a + b in f64, rounded to odd."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    lost = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    if not some(lost):
        return np.asarray(total)
    # The odd neighbour is on the side of the error.
    away = (error > 0) == (total > 0)
    return np.where(lost, bits + np.where(away, 1, -1), bits).view(np.float64)


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c for f32, rounded once."""
    product = np.multiply(a, b, dtype=np.float64)  # exact: 48 bits
    total = product + c
    # Double rounding is wrong only if the f64 sum is a tie of f32, or if the f32 result is
    # subnormal and has other ties. That is rare, and cheaper to detect than to avoid.
    bits = total.view(np.uint64)
    risky = (bits & _F32_DROPPED == _F32_TIE) | ((bits << _ONE) - _ONE < _F32_TINY)
    if some(risky):
        total = np.where(risky, sum_to_odd(product, c.astype(np.float64)), total)
    return total.astype(np.float32)


def fma_narrow(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c of f16 or bf16 values given as f64, rounded to odd in f64."""
    return sum_to_odd(a * b, c)


_SPLIT = 134217729.0  # 2**27 + 1


def _product_parts(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a * b as a sum of two f64 (Dekker)."""
    product = a * b
    x, y = _SPLIT * a, _SPLIT * b
    a1, b1 = x - (x - a), y - (y - b)
    a2, b2 = a - a1, b - b1
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _sum_parts(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c for f64, rounded once.

    Uses error-free transformations if no part can overflow or underflow, else integers, lane by
    lane.
    """
    product, low = _product_parts(a, b)
    middle, tail = _sum_parts(c, low)
    high, rest = _sum_parts(product, middle)
    result = high + sum_to_odd(rest, tail)
    magnitude = np.abs(np.stack([a, b, c]))
    finite = np.isfinite(magnitude).all(axis=0)
    tame = (magnitude < 2.0**450) & ((magnitude > 2.0**-450) | (magnitude == 0))
    no_product = (a == 0) | (b == 0)
    plain = ~finite | no_product
    hard = ~plain & (c != 0) & ~tame.all(axis=0)
    result = np.where(plain, product + c, result)
    # An inexact product that underflows to -0 stays -0 when +0 is added.
    result = np.where(~plain & (c == 0), product, result)
    for i in np.flatnonzero(hard):
        result[i] = exact_fma(float(a[i]), float(b[i]), float(c[i]))
    return np.asarray(result)


def exact_fma(a: float, b: float, c: float) -> float:
    """Return a * b + c of finite numbers, rounded once."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c if a * b == 0 and c == 0 else 0.0
    try:
        return exact.numerator / exact.denominator  # Python rounds this division correctly
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def f32_directed(values: Array, mode: str) -> Array:
    """Round f64 to f32 towards zero (rz), down (rm) or up (rp)."""
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    magnitude = nearest.view(np.int32) & 0x7FFFFFFF
    if mode == "rz":
        wrong = np.abs(back) > np.abs(values)
        step = np.full(values.shape, -1)
    elif mode == "rm":
        wrong = back > values
        step = np.where(nearest > 0, -1, 1)
    else:
        wrong = back < values
        step = np.where(nearest < 0, -1, 1)
    from_zero = wrong & (magnitude == 0)
    moved = (nearest.view(np.int32) + np.where(wrong, step, 0)).astype(np.int32).view(np.float32)
    smallest = np.float32(1e-45 if mode == "rp" else -1e-45)
    return np.where(from_zero, smallest, moved).astype(np.float32)


_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
    "fma": lambda a, b, c: a * b + c,
}


def exact_directed(opcode: str, mode: str, dtype: np.dtype[Any]) -> Callable[..., Array]:
    """Return an operation rounded towards zero (rz), down (rm) or up (rp), lane by lane.

    Slow: such instructions are rare. Non-finite lanes follow NumPy.
    """
    nearest = _NEAREST[opcode]

    def run(*sources: Array) -> Array:
        result = np.array(nearest(*sources), dtype)
        flat = result.reshape(-1)
        columns = [source.reshape(-1).tolist() for source in sources]
        for i, values in enumerate(zip(*columns, strict=True)):
            if all(np.isfinite(values)) and not (opcode in ("div", "rcp") and values[-1] == 0):
                flat[i] = _directed(opcode, mode, flat[i], values)
        return result

    return run


def _directed(opcode: str, mode: str, nearest: np.floating[Any], values: Sequence[float]) -> Any:
    """Return `nearest`, or the adjacent number in the direction of the mode."""
    if nearest != nearest:
        return nearest
    if opcode == "sqrt":
        over, exactly = _beside_root(nearest, values[0])
        negative = False
    else:
        exact = _EXACT[opcode](*(Fraction(v) for v in values))
        if not exact:
            return _directed_zero(opcode, mode, nearest, values)
        negative = exact < 0
        infinite = not np.isfinite(nearest)
        over = bool(nearest > 0) if infinite else Fraction(float(nearest)) > exact
        exactly = not infinite and Fraction(float(nearest)) == exact
    if exactly:
        return nearest
    infinity = type(nearest)(np.inf)
    low = np.nextafter(nearest, -infinity) if over else nearest
    high = nearest if over else np.nextafter(nearest, infinity)
    down = mode == "rm" or (mode == "rz" and not negative)
    return low if down else high


def _beside_root(nearest: np.floating[Any], value: float) -> tuple[bool, bool]:
    """Return whether a root is too large, and whether it is exact."""
    square = Fraction(float(nearest)) ** 2
    return square > Fraction(value), square == Fraction(value)


def _directed_zero(
    opcode: str, mode: str, nearest: np.floating[Any], values: Sequence[float]
) -> Any:
    """Return `nearest`, or -0 for an exact zero sum of unlike signs when rounding down."""
    if mode == "rm" and opcode in ("add", "sub", "fma"):
        signs = {bool(np.signbit(term)) for term in _terms(opcode, values)}
        if len(signs) > 1:
            return -type(nearest)(0)
    return nearest


def _terms(opcode: str, values: Sequence[float]) -> list[float]:
    """Return the two terms of a sum, whose signs decide the sign of a zero."""
    if opcode == "fma":
        return [float(np.copysign(1, values[0]) * np.copysign(1, values[1])), values[2]]
    return [values[0], -values[1] if opcode == "sub" else values[1]]


_NEAREST: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda a: a.dtype.type(1) / a,
    "sqrt": np.sqrt,
    "fma": lambda a, b, c: (fma_f64 if a.dtype == np.float64 else fma_f32)(a, b, c),
}
