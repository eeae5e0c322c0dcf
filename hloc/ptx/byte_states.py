"""The state of every byte of memory, compared a word at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.ptx.faults import LaneFault
from hloc.ptx.value_types import Array, some

UNALLOCATED, UNWRITTEN, IN_FLIGHT, WRITTEN = 0x00, 0x80, 0xC0, 0xFF
SHIFT = {1 << i: i for i in range(6)}  # log2 of the size of an access
_WORDS: dict[int, np.dtype[Any]] = {size: np.dtype(f"u{min(size, 8)}") for size in SHIFT}


def _words_of(state: int) -> dict[int, Any]:
    """Return the word in which every byte has a state, by the size of the access."""
    return {size: np.frombuffer(bytes([state]) * 8, word)[0] for size, word in _WORDS.items()}


ALL_WRITTEN = _words_of(WRITTEN)
# The states of allocated bytes have the top bit. Compared as numbers, words are ordered by their
# last byte first; that is enough, because allocations begin on aligned words.
ALL_UNWRITTEN = _words_of(UNWRITTEN)
ALL_IN_FLIGHT = _words_of(IN_FLIGHT)


class ByteViews:
    """Bytes of memory and their states, in units of the size of an access. Views are kept."""

    def __init__(self, data: Array, states: Array) -> None:
        self._data, self._states = data, states
        self._views: dict[tuple[str, int, bool], Array] = {}

    def data(self, dtype: np.dtype[Any], columns: int) -> Array:
        """Return the bytes as [units], or as [units, columns] if columns > 1."""
        return self._view(dtype, columns, of_states=False)

    def states(self, size: int) -> Array:
        """Return the states of the bytes as [units], or as [units, words] from 16 bytes on."""
        word = _WORDS[size]
        return self._view(word, size // word.itemsize, of_states=True)

    def _view(self, dtype: np.dtype[Any], columns: int, of_states: bool) -> Array:
        key = (dtype.char, columns, of_states)
        found = self._views.get(key)
        if found is None:
            found = (self._states if of_states else self._data).view(dtype)
            if columns > 1:
                found = found.reshape(-1, columns)
            self._views[key] = found
        return found


def check_same_instruction(found: Array, values: Array, space: str) -> None:
    """Fault if memory after a store does not have the value that a lane stored."""
    lost = found != values
    if some(lost):
        lane = int(np.argmax(lost.any(axis=1) if lost.ndim > 1 else lost))
        raise LaneFault(
            f"race: several threads store different values to one {space} address", lane
        )
