"""Bounds of the modules on which a rule is tried: types, sizes, constants."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np

from hloc.dtypes import C64, F16, F32, PRED, S8, DType
from hloc.lazy_dataclass import dataclass
from hloc.prove.record import INTEGERS, NARROW_FLOATS

Dims: TypeAlias = tuple[int, ...]

VALUE_TYPES: tuple[DType, ...] = (PRED, *INTEGERS, *NARROW_FLOATS, F32, C64)
"""Element types for which a rule about values is tried, one after another."""

SHAPE_TYPES: tuple[DType, ...] = (S8, PRED, F16)
"""Element types for a rule about shapes, which moves elements of all types alike."""


@dataclass(frozen=True, slots=True)
class Bound:
    """All shapes up to a bound.

    Attributes:
        rank: the maximum rank.
        sizes: the sizes that a dimension may have.
        elements: the maximum number of elements of a result.
    """

    rank: int
    sizes: tuple[int, ...]
    elements: int = 12

    def dims(self) -> tuple[Dims, ...]:
        """Return all sizes of arrays within the bound, small ranks first."""
        return tuple(
            dims
            for rank in range(self.rank + 1)
            for dims in product(self.sizes, repeat=rank)
            if prod(dims) <= self.elements
        )

    def __str__(self) -> str:
        sizes = f"{self.sizes[0]} to {self.sizes[-1]}"
        most = f", at most {self.elements} elements" if self.sizes[-1] ** self.rank > 12 else ""
        return f"rank 0 to {self.rank}, sizes {sizes}{most}"


LEVELS: tuple[Bound, ...] = (
    Bound(1, (0, 1, 2, 3)),
    Bound(2, (0, 1, 2)),
    Bound(2, (0, 1, 2, 3)),
    Bound(3, (0, 1, 2)),
    Bound(3, (0, 1, 2, 3)),
    Bound(4, (0, 1, 2)),
)
"""Bounds from small to large; a rule is tried within as many of them as its budget allows."""

ONE_VALUE = Bound(0, (1,))
"""The bound of rules about values: scalars."""


def constants(dtype: DType, places: int) -> list[object]:
    """Return the constants of `dtype` to try for a pattern with `places` constants.

    All values of types up to 4 bits, for one or two places; of wider ones the extremes,
    small numbers and, for a single place, all powers of two. Floats: all of 8 bits for a single
    place, else zeros, ones, powers of two, another number, infinities and NaN.
    """
    if dtype.is_complex:
        return [np.asarray(v, dtype.numpy)[()] for v in (0, 1, -1, 2, -0.0)]
    if dtype.is_float:
        return _floats(dtype, places)
    if dtype.bits <= 4 and (dtype.bits <= 2 or places <= 2):
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        numbers = list(range(low, low + (1 << dtype.bits)))
    else:
        numbers = _integers(dtype, places)
    return [np.asarray(n).astype(dtype.numpy)[()] for n in numbers]


def _integers(dtype: DType, places: int) -> list[int]:
    bits = dtype.bits - dtype.is_signed
    low, high = (-(1 << bits) if dtype.is_signed else 0), (1 << bits) - 1
    numbers = [0, 1, high, low]
    if places <= 3:
        numbers += [-1, 2]
    if places <= 2:
        numbers += [3, 5, 7, low + 1, high - 1, -2]
    if places <= 1:
        numbers += [1 << bit for bit in range(bits)]
    return sorted({n for n in numbers if low <= n <= high})


def _floats(dtype: DType, places: int) -> list[object]:
    unsigned = np.dtype(f"u{dtype.storage_bytes}")
    if dtype.bits <= 8 and places <= 1:
        return list(np.arange(1 << dtype.bits).astype(unsigned).view(dtype.numpy))
    numbers = [0.0, -0.0, 1.0, np.nan]
    if places <= 3:
        numbers += [-1.0, 2.0, np.inf, -np.inf]
    if places <= 2:
        numbers += [0.5, 3.0]
    if places <= 1:
        reach = min(1 << (dtype.exponent_bits - 1), 40)
        numbers += [2.0**k for k in range(-reach - 10, reach)] + [-2.0, -4.0, -0.5, 7.0]
    with np.errstate(all="ignore"):
        made = np.array(numbers).astype(dtype.numpy)
    if places <= 1 and dtype.bits == 16:
        made = np.concatenate([made, np.array([1, 0x8001], unsigned).view(dtype.numpy)])
    return list({value.tobytes(): value for value in made}.values())
