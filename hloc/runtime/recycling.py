"""Output arrays that are used again once the caller has dropped them.

Fresh memory costs as much in page faults as writing it, so a frame keeps the arrays it handed out
last and hands one out again when nobody else refers to it any more.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MAX_KEPT_ARRAYS = 2  # a caller that holds the last result while it asks for the next needs two
_MAX_KEPT_BYTES = 256 << 20
"""Larger outputs are not kept: the memory they hold would be noticed."""


@dataclass(slots=True, eq=False)
class Recycler:
    """Makes the arrays of one output, as they lie in memory.

    Attributes:
        dims: dimensions from major to minor.
    """

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    _kept: list[tuple[Array, int]] = field(default_factory=list)
    _keeps: bool = field(init=False)

    def __post_init__(self) -> None:
        size_bytes = int(np.prod(self.dims, dtype=object)) * self.dtype.itemsize
        self._keeps = _COUNTS_REFERENCES and 0 < size_bytes <= _MAX_KEPT_BYTES

    def take(self) -> tuple[Array, int]:
        """Return an array that nobody else refers to, and its address; its contents are open."""
        for array, address in self._kept:
            if sys.getrefcount(array) == _UNSHARED:
                return array, address
        array = np.empty(self.dims, self.dtype)
        address = array.ctypes.data
        if self._keeps and len(self._kept) < _MAX_KEPT_ARRAYS:
            self._kept.append((array, address))
        return array, address


def _count_of_an_unshared_array() -> int:
    """Return what `take` sees for an array that only its list holds."""
    kept = [(np.empty(1), 0)]
    for array, _ in kept:
        return sys.getrefcount(array)
    raise AssertionError


_UNSHARED = _count_of_an_unshared_array()
_COUNTS_REFERENCES = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Without the global lock counts are not exact, and nothing is kept."""
