"""The state of every byte of memory, compared a word at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.ptx.faults import LaneFault
from hloc.ptx.value_types import Array, some

UNALLOCATED, UNWRITTEN, IN_FLIGHT, WRITTEN = 0x00, 0x80, 0xC0, 0xFF
STATE_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


SHIFT = {1 << i: i for i in range(6)}
ALL_WRITTEN = {n: np.array(WRITTEN, np.uint8).repeat(n).view(d)[0] for n, d in STATE_WORDS.items()}
# The states of allocated bytes have the top bit. Compared as numbers, words are ordered by their
# last byte first; that is enough, because allocations begin on aligned words.
ALL_UNWRITTEN = {
    n: np.array(UNWRITTEN, np.uint8).repeat(n).view(d)[0] for n, d in STATE_WORDS.items()
}
ALL_IN_FLIGHT = {
    n: np.array(IN_FLIGHT, np.uint8).repeat(n).view(d)[0] for n, d in STATE_WORDS.items()
}


def check_same_instruction(found: Array, values: Array, space: str) -> None:
    """Fault if memory after a store does not have the value that a lane stored."""
    lost = found != values
    if some(lost):
        lane = int(np.argmax(lost.any(axis=1) if lost.ndim > 1 else lost))
        raise LaneFault(
            f"race: several threads store different values to one {space} address", lane
        )
