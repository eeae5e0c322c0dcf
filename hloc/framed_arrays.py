"""Arrays in messages to another process: their types as JSON, their bytes as blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hloc.dtypes import DTYPES, Array, dtype_of_numpy
from hloc.errors import HloError


def types_of(arrays: Iterable[Array]) -> list[tuple[str, Sequence[int]]]:
    """Return type and dimensions of each array; the type is HLO's if there is one, else NumPy's.

    Raises:
        HloError: an array contains Python objects.
    """
    found = []
    for array in arrays:
        if array.dtype.hasobject:
            raise HloError(f"an input holds Python objects ({array.dtype}), expected numbers")
        dtype = dtype_of_numpy(array.dtype)
        found.append((array.dtype.str if dtype is None else dtype.name, array.shape))
    return found


def blocks_of(arrays: Iterable[Array]) -> list[memoryview]:
    """Return the bytes of each array, in row-major order."""
    flat = (np.ascontiguousarray(array).reshape(-1) for array in arrays)
    return [array.view(np.uint8).data for array in flat]


def arrays_from(types: Iterable[Any], blocks: Iterable[bytearray]) -> tuple[Array, ...]:
    """Return arrays over the first of `blocks`, with types from `types_of`."""
    result = []
    for (name, dims), block in zip(types, blocks, strict=False):
        dtype = DTYPES[name].numpy if name in DTYPES else np.dtype(name)
        result.append(np.frombuffer(block, dtype, math.prod(dims)).reshape(dims))
    return tuple(result)
