"""State spaces of the running threads: global, shared, local and generic.

`load` and `store` take lanes, one address per lane and NumPy values, and check every access.
Source: PTX ISA, "State Spaces" and "Generic Addressing".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from hloc.ptx.block_space import BlockSpace
from hloc.ptx.byte_states import (
    ALL_UNWRITTEN,
    ALL_WRITTEN,
    SHIFT,
    UNWRITTEN,
    WRITTEN,
    check_same_instruction,
)
from hloc.ptx.faults import LaneFault
from hloc.ptx.global_races import GlobalRaces
from hloc.ptx.lanes import Lanes, numbers_of
from hloc.ptx.memory import Memory
from hloc.ptx.value_types import Array, every

SHARED_WINDOW = 1 << 48
LOCAL_WINDOW = 1 << 49
PARAMETER_WINDOW = 1 << 50
WINDOW_END = 1 << 51
WINDOWS = {
    "shared": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAMETER_WINDOW,
    "global": 0,
    "const": 0,
}


class Space(Protocol):
    """The interface of a state space."""

    def load(self, lanes: Lanes, addresses: Array, dtype: np.dtype[Any], columns: int) -> Array:
        """Return [lanes] values, or [lanes, columns] for more than one column."""
        ...

    def store(self, lanes: Lanes, addresses: Array, values: Array) -> None:
        """Write one value, or one row of values, per lane; the last lane wins at one address."""
        ...

    def without_races(self) -> Space:
        """Return the same memory without checks for races."""
        ...


class GlobalSpace:
    """Global and constant memory."""

    def __init__(self, memory: Memory, races: GlobalRaces | None, check: bool = False) -> None:
        self.memory = memory
        self.races = races
        self._check = check

    def without_races(self) -> Space:
        """Return the same memory without checks for races."""
        return GlobalSpace(self.memory, None)

    def load(self, lanes: Lanes, addresses: Array, dtype: np.dtype[Any], columns: int) -> Array:
        """Load; faults on bytes that are out of bounds, freed or never written."""
        size = dtype.itemsize * columns
        offsets = self.memory.offsets(addresses, size, "load")
        index = offsets >> SHIFT[size]
        state = self.memory.views.states(size)[index]
        if not every(state == ALL_WRITTEN[size]):
            raise self.memory.state_fault(addresses, size, "read", needs=WRITTEN)
        if self.races is not None:
            self.races.check_load(lanes, offsets, size)
        return np.asarray(self.memory.views.data(dtype, columns)[index])

    def store(self, lanes: Lanes, addresses: Array, values: Array) -> None:
        """Store; faults on bytes that are out of bounds or freed."""
        dtype, columns = values.dtype, values.shape[1] if values.ndim > 1 else 1
        size = dtype.itemsize * columns
        offsets = self.memory.offsets(addresses, size, "store")
        index = offsets >> SHIFT[size]
        state = self.memory.views.states(size)
        if not every(state[index] >= ALL_UNWRITTEN[size]):
            raise self.memory.state_fault(addresses, size, "store", needs=UNWRITTEN)
        data = self.memory.views.data(dtype, columns)
        if self.races is not None:
            self.races.check_store(lanes, offsets, size, data[index], values)
        data[index] = values
        state[index] = ALL_WRITTEN[size]
        if self._check and len(index) > 1:
            check_same_instruction(data[index], values, "global")


class ConstantSpace:
    """Bytes that all threads share and none may write: the kernel's parameters."""

    def __init__(self, data: bytes) -> None:
        self._data = np.frombuffer(data, np.uint8)

    def without_races(self) -> Space:
        """Return itself: nothing is ever written."""
        return self

    def load(self, lanes: Lanes, addresses: Array, dtype: np.dtype[Any], columns: int) -> Array:
        """Load; faults out of bounds."""
        size = dtype.itemsize * columns
        addresses = addresses.astype(np.int64)
        wrong = (addresses < 0) | (addresses + size > len(self._data))
        if wrong.any():
            raise LaneFault("parameter load out of bounds", int(np.argmax(wrong)))
        values = self._data[addresses[:, None] + np.arange(size)].view(dtype)
        return values if columns > 1 else values[:, 0]

    def store(self, lanes: Lanes, addresses: Array, values: Array) -> None:
        """Fault: parameters of a kernel are constant."""
        raise LaneFault("store to the parameters of the kernel", 0)


class GenericSpace:
    """Generic addresses: windows distinguish shared, local and parameter memory from global."""

    def __init__(self, spaces: dict[str, Space]) -> None:
        self._windows = (
            (0, spaces["global"]),
            (SHARED_WINDOW, spaces["shared"]),
            (LOCAL_WINDOW, spaces["local"]),
            (PARAMETER_WINDOW, spaces["param"]),
        )
        self._starts = np.array([start for start, _ in self._windows], np.uint64)

    def _parts(self, addresses: Array) -> Iterator[tuple[Space, Array | None, Array]]:
        number = np.searchsorted(self._starts, addresses, side="right") - 1
        first = int(number[0])
        if every(number == first):
            yield self._windows[first][1], None, addresses - self._starts[first]
            return
        for n in np.unique(number):
            mask = number == n
            yield self._windows[n][1], mask, addresses[mask] - self._starts[n]

    def without_races(self) -> Space:
        """Return itself: the underlying spaces decide."""
        return self

    def load(self, lanes: Lanes, addresses: Array, dtype: np.dtype[Any], columns: int) -> Array:
        """Load from the space of each address."""
        found: Array | None = None
        for space, mask, inner in self._parts(addresses):
            if mask is None:
                return space.load(lanes, inner, dtype, columns)
            values = space.load(numbers_of(lanes)[mask], inner, dtype, columns)
            if found is None:
                found = np.empty((len(addresses), *values.shape[1:]), dtype)
            found[mask] = values
        assert found is not None
        return found

    def store(self, lanes: Lanes, addresses: Array, values: Array) -> None:
        """Store to the space of each address."""
        for space, mask, inner in self._parts(addresses):
            if mask is None:
                space.store(lanes, inner, values)
            else:
                space.store(numbers_of(lanes)[mask], inner, values[mask])


class Spaces:
    """All spaces of some running blocks."""

    def __init__(
        self, spaces: dict[str, Space], shared: BlockSpace, races: GlobalRaces | None
    ) -> None:
        self.shared = shared
        self._spaces = {**spaces, "generic": GenericSpace(spaces)}
        bare = {name: space.without_races() for name, space in spaces.items()}
        self._unchecked = {**bare, "generic": GenericSpace(bare)}
        self._races = races

    def __getitem__(self, name: str) -> Space:
        return self._spaces[name]

    def synchronise(self, lanes: Lanes) -> None:
        """Record that these lanes synchronise with other blocks through memory."""
        if self._races is not None:
            self._races.synchronise(lanes)

    def atomic(self, name: str) -> Space:
        """Return a space without race checks, for atomics."""
        return self._unchecked[name]
