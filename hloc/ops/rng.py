"""Numbers for `rng`: a stream of ThreeFry bits whose key is the instruction's id.

HLO does not define the stream; this one is the same in every run and on every machine. An
instruction draws the same numbers each time it runs, in a loop too: programs that need others pass
a state to `rng-bit-generator`. `opt/expanders/rng_expander.py` emits the same stream as
instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.dtypes import U32, U64, Array, DType
from hloc.ops.array_values import narrowed
from hloc.ops.random_bits import three_fry


def draw(
    key: int, distribution: str, a: Array, b: Array, dtype: DType, dims: tuple[int, ...]
) -> Array:
    """Return numbers from uniform [a, b) or normal (mean a, deviation b)."""
    if dtype.is_pred:
        return np.asarray((_bits(key, dims, U32) & np.uint32(1)) != 0)
    if dtype.is_integer:
        return _integers(key, a, b, dtype, dims)
    wide: type[Any] = np.float64 if dtype.bits >= 64 else np.float32
    low, high = a.astype(wide), b.astype(wide)
    if distribution == "rng_normal":
        first, second = _unit(key, (2, *dims), wide)
        radius = np.sqrt(wide(-2) * np.log(wide(1) - first))
        turned = np.cos(second * wide(2 * np.pi))
        return narrowed(radius * turned * high + low, dtype)
    drawn = narrowed(_unit(key, dims, wide) * (high - low) + low, dtype)
    return np.where(drawn < b, drawn, a)  # rounding may reach b, which is not in [a, b)


def _bits(key: int, dims: tuple[int, ...], dtype: DType) -> Array:
    state = np.array([key, 0], np.uint64)
    return np.asarray(three_fry(state, dims, dtype)[1]).reshape(dims)


def _unit(key: int, dims: tuple[int, ...], wide: type[Any]) -> Array:
    """Return numbers from [0, 1) with as many bits as the mantissa of `wide` has."""
    if wide is np.float64:
        words = _bits(key, dims, U64) >> np.uint64(11)
        return np.asarray(words.astype(wide) * wide(2.0**-53))
    words = _bits(key, dims, U32) >> np.uint32(8)
    return np.asarray(words.astype(wide) * wide(2.0**-24))


def _integers(key: int, a: Array, b: Array, dtype: DType, dims: tuple[int, ...]) -> Array:
    """Return integers from [a, b), which is taken as [a, a + 1) when empty."""
    low = a.astype(np.int64).astype(np.uint64) if dtype.is_signed else a.astype(np.uint64)
    high = b.astype(np.int64).astype(np.uint64) if dtype.is_signed else b.astype(np.uint64)
    count = np.maximum(np.where(a < b, high - low, np.uint64(1)), np.uint64(1))
    drawn: Array = low + _bits(key, dims, U64) % count
    return (drawn.astype(np.int64) if dtype.is_signed else drawn).astype(dtype.numpy)
