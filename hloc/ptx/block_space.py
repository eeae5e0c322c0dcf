"""Shared and local memory: one piece per block, or per thread."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from hloc.ptx.byte_states import (
    ALL_IN_FLIGHT,
    ALL_UNWRITTEN,
    ALL_WRITTEN,
    SHIFT,
    UNWRITTEN,
    ByteViews,
    check_same_instruction,
)
from hloc.ptx.faults import LaneFault
from hloc.ptx.lanes import Lanes
from hloc.ptx.proxy_writes import ProxyWrites
from hloc.ptx.shared_races import SharedRaces
from hloc.ptx.value_types import Array, every


class BlockSpace:
    """Memory of which every block (shared) or thread (local) has its own piece.

    A piece occupies a power of two of bytes; those after its size are not allocated.
    """

    def __init__(self, name: str, size: int, pieces: int, piece_of_lane: Array) -> None:
        self.name = name
        self.size = size
        self._extent = 1 << (max(size, 32) - 1).bit_length()
        self._data = np.full((pieces, self._extent), 0xFF, np.uint8)
        self._state = np.zeros((pieces, self._extent), np.uint8)
        self._state[:, :size] = UNWRITTEN
        self._views = ByteViews(self._data.reshape(-1), self._state.reshape(-1))
        self._start = piece_of_lane.astype(np.int64) * self._extent
        self.races: SharedRaces | None = None
        self.proxy: ProxyWrites | None = None

    @property
    def piece_bytes(self) -> int:
        """Bytes of one piece, with those that are not allocated."""
        return self._extent

    @property
    def extent_bytes(self) -> int:
        """Bytes of all pieces."""
        return self._data.size

    def piece(self, number: int) -> tuple[Array, Array]:
        """Return the bytes of one piece, and the state of each byte."""
        return self._data[number], self._state[number]

    def _offsets(self, lanes: Lanes, addresses: Array, size: int, what: str) -> Array:
        together = int(np.bitwise_or.reduce(addresses))
        if together & (size - 1):
            wrong = (addresses & addresses.dtype.type(size - 1)) != 0
            raise self._fault(addresses, wrong, f"misaligned {self.name} {what} of {size} bytes")
        if together >= self._extent:
            raise self._out_of_bounds(addresses, size, what)
        return self._start[lanes] + addresses.astype(np.int64)

    def _out_of_bounds(self, addresses: Array, size: int, what: str) -> LaneFault:
        wrong = addresses > max(self.size - size, -1) if self.size >= size else addresses >= 0
        return self._fault(addresses, wrong, f"{self.name} {what} of {size} bytes out of bounds")

    def _fault(self, addresses: Array, wrong: Array, what: str) -> LaneFault:
        first = int(np.argmax(wrong))
        return LaneFault(
            f"{what}: address {int(addresses[first])} of {self.size} bytes of {self.name} memory",
            first,
        )

    def without_races(self) -> BlockSpace:
        """Return the same memory without checks for races."""
        bare = copy(self)
        bare.races = None
        bare.proxy = None
        return bare

    def load(self, lanes: Lanes, addresses: Array, dtype: np.dtype[Any], columns: int) -> Array:
        """Load; faults on bytes out of bounds or never written, and on races."""
        size = dtype.itemsize * columns
        offsets = self._offsets(lanes, addresses, size, "load")
        index = offsets >> SHIFT[size]
        state = self._views.states(size)[index]
        written = state == ALL_WRITTEN[size]
        if not every(written):
            if not (state >= ALL_UNWRITTEN[size]).all():
                raise self._out_of_bounds(addresses, size, "load")
            wrong = ~(written.all(axis=1) if written.ndim > 1 else written)
            if (state == ALL_IN_FLIGHT[size]).any():
                what = f"read of {self.name} memory before the wait for its asynchronous copy"
                raise self._fault(addresses, wrong, what)
            raise self._fault(addresses, wrong, f"read of uninitialised {self.name} memory")
        if self.races is not None:
            self.races.check_load(lanes, offsets, size)
        return np.asarray(self._views.data(dtype, columns)[index])

    def store(self, lanes: Lanes, addresses: Array, values: Array) -> None:
        """Store; faults on bytes out of bounds and on races."""
        dtype, columns = values.dtype, values.shape[1] if values.ndim > 1 else 1
        size = dtype.itemsize * columns
        offsets = self._offsets(lanes, addresses, size, "store")
        index = offsets >> SHIFT[size]
        state = self._views.states(size)
        if not every(state[index] >= ALL_UNWRITTEN[size]):
            raise self._out_of_bounds(addresses, size, "store")
        data = self._views.data(dtype, columns)
        if self.proxy is not None:
            self.proxy.store(lanes, offsets, size)
        if self.races is None:
            data[index] = values
            state[index] = ALL_WRITTEN[size]
            return
        self.races.check_store(lanes, offsets, size, data[index], values)
        data[index] = values
        state[index] = ALL_WRITTEN[size]
        check_same_instruction(data[index], values, self.name)

    def load_asynchronously(self, lanes: Lanes, addresses: Array) -> Array:
        """Return pieces of 16 bytes, [pieces, 2], as wgmma and bulk copies read them."""
        self._check_proxy(lanes, addresses)
        return self.load(lanes, addresses, np.dtype(np.uint64), 2)

    def begin_bulk_copy(self, lanes: Lanes, addresses: Array, values: Array) -> None:
        """Begin a copy of pieces of 16 bytes, [pieces, 2], which `store_asynchronously` ends."""
        self.begin_copy(lanes, addresses, values)
        self._check_proxy(lanes, addresses)

    def _check_proxy(self, lanes: Lanes, addresses: Array) -> None:
        if self.proxy is not None:
            self.proxy.check(self._offsets(lanes, addresses, 16, "asynchronous access"))

    def store_asynchronously(self, lanes: Lanes, addresses: Array, values: Array) -> None:
        """Store pieces of 16 bytes, [pieces, 2], as bulk copies do."""
        self.store(lanes, addresses, values)
        if self.proxy is not None:
            self.proxy.overwrite(self._offsets(lanes, addresses, 16, "store"))

    def places(self, lanes: Lanes, addresses: Array, size: int) -> Array:
        """Return the offsets of accesses in the memory of all pieces together, checked."""
        return self._offsets(lanes, addresses, size, "access")

    def begin_copy(self, lanes: Lanes, addresses: Array, values: Array) -> None:
        """Mark the target of an asynchronous store: it must not be read until `store`."""
        columns = values.shape[1] if values.ndim > 1 else 1
        size = values.dtype.itemsize * columns
        offsets = self._offsets(lanes, addresses, size, "asynchronous copy")
        state = self._views.states(size)
        index = offsets >> SHIFT[size]
        if not every(state[index] >= ALL_UNWRITTEN[size]):
            raise self._out_of_bounds(addresses, size, "asynchronous copy")
        twice = state[index] == ALL_IN_FLIGHT[size]
        if twice.any():
            wrong = twice.any(axis=1) if twice.ndim > 1 else twice
            what = "asynchronous copy to where another is under way"
            raise self._fault(addresses, wrong, what)
        if self.races is not None:
            old = self._views.data(values.dtype, columns)[index]
            self.races.check_store(lanes, offsets, size, old, ~old)
        state[index] = ALL_IN_FLIGHT[size]
