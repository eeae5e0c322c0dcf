"""Reuses output arrays once the caller has dropped them.

Page faults make fresh memory as expensive as writing it, so a frame keeps the arrays that it
returned last and reuses one when nothing else refers to it. Larger arrays are aligned to cache
lines, unlike NumPy's own: a vector that crosses a line is written at half the speed.
"""

from __future__ import annotations

import sys
from dataclasses import field
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.lazy_dataclass import dataclass
from hloc.memory.aligned_array import aligned_memory

_MAX_KEPT_ARRAYS = 2  # a caller that holds the last result while it asks for the next needs two
_MAX_KEPT_BYTES = 256 << 20
"""Larger outputs are not kept, to limit memory use."""

_ALIGNED_BYTES = 1 << 10
"""Smaller outputs are allocated by NumPy: alignment does not matter for them."""


@dataclass(slots=True, eq=False)
class Recycler:
    """Allocates the arrays of one output, in memory order.

    Attributes:
        dims: dimensions from major to minor.
    """

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    _kept: list[tuple[Array, Array | None, int]] = field(default_factory=list)
    _size_bytes: int = field(init=False)
    _keeps: bool = field(init=False)

    def __post_init__(self) -> None:
        self._size_bytes = int(np.prod(self.dims, dtype=object)) * self.dtype.itemsize
        self._keeps = _COUNTS_REFERENCES and 0 < self._size_bytes <= _MAX_KEPT_BYTES

    def take(self) -> tuple[Array, int]:
        """Return an unshared array, and its address; its contents are undefined."""
        for array, owner, address in self._kept:
            # Views of an aligned array refer to its owner, not to the array.
            if sys.getrefcount(array) == _UNSHARED and (
                owner is None or sys.getrefcount(owner) == _UNSHARED_OWNER
            ):
                return array, address
        array, owner = self._new()
        address = array.ctypes.data
        if self._keeps and len(self._kept) < _MAX_KEPT_ARRAYS:
            self._kept.append((array, owner, address))
        return array, address

    def _new(self) -> tuple[Array, Array | None]:
        """Return a new array, and the array that owns its memory if that is another."""
        if self._size_bytes < _ALIGNED_BYTES:
            return np.empty(self.dims, self.dtype), None
        return _aligned(self._size_bytes, self.dims, self.dtype)


def _aligned(size_bytes: int, dims: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    owner, first = aligned_memory(size_bytes)
    return owner[first : first + size_bytes].view(dtype).reshape(dims), owner


def _counts_of_unshared_arrays() -> tuple[int, int]:
    """Return the reference counts in `take` of an unshared array, and of the owner of one."""
    kept = [(*_aligned(1, (1,), np.dtype(np.uint8)), 0)]
    for array, owner, _ in kept:
        return sys.getrefcount(array), sys.getrefcount(owner)
    raise AssertionError


_UNSHARED, _UNSHARED_OWNER = _counts_of_unshared_arrays()
_COUNTS_REFERENCES = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Without the GIL, reference counts are not exact, and no arrays are kept."""
