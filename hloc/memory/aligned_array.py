"""Arrays of NumPy that begin at a cache line or a large page, as kernels may ask for."""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import numpy as np

from hloc.memory.heap import CACHE_LINE_BYTES

Array = np.ndarray[Any, np.dtype[Any]]


LARGE_PAGE_BYTES = 2 << 20
"""The size of Linux's transparent huge pages on x86-64 and on ARM64 with pages of 4 KB."""


def aligned_memory(size: int) -> tuple[Array, int]:
    """Return an array of bytes that owns memory, and the first of its `size` bytes to use.

    Large memory lies in large pages where the system has them: gemms walk through several arrays at
    a time, which in small pages take more entries of the translation buffers than there are (1.7
    times the time for 1024x3072x768 of f32 in parts of bf16, on a virtual machine).
    """
    if size < LARGE_PAGE_BYTES // 2 or not hasattr(mmap, "MADV_HUGEPAGE"):
        owner = np.empty(size + CACHE_LINE_BYTES, np.uint8)
        return owner, -owner.ctypes.data % CACHE_LINE_BYTES
    pages = -(-size // LARGE_PAGE_BYTES) + 1
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, pages * LARGE_PAGE_BYTES, private)
    memory.madvise(mmap.MADV_HUGEPAGE)
    owner = np.frombuffer(memory, np.uint8)
    return owner, -owner.ctypes.data % LARGE_PAGE_BYTES


def aligned_array(dims: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array without values; its `base` owns the memory."""
    size = prod(dims) * dtype.itemsize
    owner, first = aligned_memory(size)
    return owner[first : first + size].view(dtype).reshape(dims)


def aligned_copy(array: Array) -> Array:
    """Return a copy of an array in the order of its dimensions."""
    copy = aligned_array(array.shape, array.dtype)
    copy[...] = array
    return copy
