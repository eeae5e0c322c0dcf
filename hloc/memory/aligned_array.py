"""Arrays of NumPy that begin at a cache line, as vectors of kernels may ask for."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloc.memory.heap import ALIGNMENT_BYTES

Array = np.ndarray[Any, np.dtype[Any]]


def aligned_array(dims: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array without values; its `base` owns the memory."""
    size = prod(dims) * dtype.itemsize
    owner = np.empty(size + ALIGNMENT_BYTES, np.uint8)
    first = -owner.ctypes.data % ALIGNMENT_BYTES
    return owner[first : first + size].view(dtype).reshape(dims)


def aligned_copy(array: Array) -> Array:
    """Return a copy of an array in the order of its dimensions."""
    copy = aligned_array(array.shape, array.dtype)
    copy[...] = array
    return copy
