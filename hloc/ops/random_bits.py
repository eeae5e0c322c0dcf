"""Bit-exact random bits: Threefry-2x32 and Philox-4x32 with XLA's layout of counters.

Sources: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); the order of counters
follows XLA's operation semantics of RngBitGenerator (system reference, part 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hloc.dtypes import Array, DType

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MASK64 = (1 << 64) - 1


def three_fry(state: Array, dims: tuple[int, ...], dtype: DType) -> tuple[Array, Array]:
    """Return the new state and bits of unsigned `dtype` in shape `dims`; state is `u64[2]`."""
    key, counter = int(state[0]), int(state[1])
    if dtype.bits == 64:
        count = prod(dims)
        first, second = _three_fry_words(key, counter, count)
        bits = first.astype(np.uint64) | (second.astype(np.uint64) << np.uint64(32))
        return _state(key, counter + count), bits.reshape(dims)
    split = split_dimension(dims)
    shape = dims or (1,)
    half = tuple((n + 1) // 2 if dim == split else n for dim, n in enumerate(shape))
    count = prod(half)
    words = [word.reshape(half) for word in _three_fry_words(key, counter, count)]
    pairs = np.stack(words, axis=split + 1)
    joined = pairs.reshape(*half[:split], 2 * half[split], *half[split + 1 :])
    bits = np.take(joined, np.arange(shape[split]), axis=split).reshape(dims)
    return _state(key, counter + count), _low_bits(bits, dtype)


def split_dimension(dims: Sequence[int]) -> int:
    """Return the first even dimension, else the largest one."""
    for dim, size in enumerate(dims):
        if size % 2 == 0:
            return dim
    return max(range(len(dims)), key=lambda dim: dims[dim]) if dims else 0


def _three_fry_words(key: int, counter: int, count: int) -> tuple[Array, Array]:
    """Encrypt `count` counters from `counter` on with 20 rounds."""
    numbers = np.arange(count, dtype=np.uint64) + np.uint64(counter & _MASK64)
    x0, x1 = _halves(numbers)
    k0, k1 = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    keys = (k0, k1, np.uint32(int(k0) ^ int(k1) ^ _PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def philox(state: Array, dims: tuple[int, ...], dtype: DType) -> tuple[Array, Array]:
    """Return the new state and bits of unsigned `dtype`; state is `u64[2]` or `u64[3]`."""
    key = int(state[0])
    high = int(state[2]) if len(state) == 3 else key
    counter = (high << 64) | int(state[1])
    elements = prod(dims)
    words_needed = elements * (2 if dtype.bits == 64 else 1)
    count = -(-words_needed // 4)
    words = np.stack(_philox_words(key, counter, count), axis=-1).reshape(-1)[:words_needed]
    if dtype.bits == 64:
        pairs = words.reshape(-1, 2).astype(np.uint64)
        bits = pairs[:, 0] | (pairs[:, 1] << np.uint64(32))
    else:
        bits = _low_bits(words, dtype)
    after = (counter + count) & ((1 << 128) - 1)
    new = [key, after & _MASK64] + ([after >> 64] if len(state) == 3 else [])
    return np.array(new, np.uint64), bits.reshape(dims)


def _philox_words(key: int, counter: int, count: int) -> tuple[Array, ...]:
    """Encrypt `count` 128-bit counters from `counter` on with 10 rounds."""
    steps = np.arange(count, dtype=np.uint64)
    low = steps + np.uint64(counter & _MASK64)
    high = np.uint64(counter >> 64) + (low < steps).astype(np.uint64)
    x = [*_halves(low), *_halves(high)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        product0 = x[0].astype(np.uint64) * np.uint64(0xD2511F53)
        product1 = x[2].astype(np.uint64) * np.uint64(0xCD9E8D57)
        low0, high0 = _halves(product0)
        low1, high1 = _halves(product1)
        x = [high1 ^ x[1] ^ np.uint32(k0), low1, high0 ^ x[3] ^ np.uint32(k1), low0]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return tuple(x)


def _halves(values: Array) -> tuple[Array, Array]:
    """Return the low and the high 32 bits of u64 values."""
    low = (values & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return low, (values >> np.uint64(32)).astype(np.uint32)


def _low_bits(words: Array, dtype: DType) -> Array:
    """Return the low bits of u32 words as unsigned integers of the width of `dtype`."""
    if dtype.bits >= 32:
        return words
    masked = words & np.uint32((1 << dtype.bits) - 1)
    return masked.astype(np.uint16 if dtype.bits > 8 else np.uint8)


def _state(key: int, counter: int) -> Array:
    return np.array([key, counter & _MASK64], np.uint64)
