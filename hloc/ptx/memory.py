"""Global memory of one simulated device: addresses, allocations, and the state of every byte.

All allocations are in one NumPy array. A second array of the same size holds a state per byte: not
allocated, allocated but never written, or written. One gather from it checks three properties of a
load at once: in bounds, not freed, initialised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hloc.ptx.byte_states import UNALLOCATED, UNWRITTEN, WRITTEN, ByteViews
from hloc.ptx.faults import LaneFault, PtxFault
from hloc.ptx.value_types import Array

GLOBAL_BASE = 1 << 40  # above 32 bits, so that a truncated address is found
_ALIGNMENT = 256
_GUARD_BYTES = 1 << 12  # between allocations, and never allocated
_FILL = 0xFF  # bytes of uninitialised memory: NaN of every float type
_SMALLEST_CAPACITY = 1 << 20  # untouched pages cost nothing
DEFAULT_LIMIT_BYTES = 1 << 34
Bytes = NDArray[np.uint8]
Records = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]
Buffer = bytes | bytearray | memoryview | NDArray[Any]


class Memory:
    """The global memory of one device. Sizes and addresses are in bytes."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.allocated_bytes = 0
        self.launches = 0  # so far; part of the records of accesses
        self.variables: dict[object, dict[str, int]] = {}  # module -> addresses of its variables
        self._sizes: dict[int, int] = {}
        self._free: list[tuple[int, int]] = []  # offset, bytes; sorted
        self._end = _GUARD_BYTES
        self._records: Records | None = None
        self.written_range = (0, -1)  # lowest and highest offset the current launch wrote
        self.data = np.empty(_SMALLEST_CAPACITY, np.uint8)
        self.state = np.zeros(_SMALLEST_CAPACITY, np.uint8)
        self.views = ByteViews(self.data, self.state)

    @property
    def capacity(self) -> int:
        """Size of `data` in bytes: a power of two."""
        return len(self.data)

    def allocate(self, size_bytes: int) -> int:
        """Return the address of a new, uninitialised allocation, aligned to 256 bytes.

        Raises:
            PtxFault: the limit of this memory would be exceeded.
        """
        if self.allocated_bytes + size_bytes > self.limit_bytes:
            raise PtxFault(
                f"out of device memory: {size_bytes} bytes asked for, {self.allocated_bytes} of "
                f"{self.limit_bytes} in use"
            )
        extent = -(-max(size_bytes, 1) // _ALIGNMENT) * _ALIGNMENT + _GUARD_BYTES
        offset = self._place(extent)
        self._sizes[offset] = size_bytes
        self.allocated_bytes += size_bytes
        self.state[offset : offset + size_bytes] = UNWRITTEN
        self.data[offset : offset + size_bytes] = _FILL
        return GLOBAL_BASE + offset

    def _place(self, extent: int) -> int:
        """Find an offset: fresh addresses as long as they cost nothing, then freed ones.

        So accesses through stale pointers are detected as long as possible.
        """
        if self._end + extent > self.capacity:
            for i, (offset, size) in enumerate(self._free):
                if size >= extent:
                    rest = [(offset + extent, size - extent)] if size > extent else []
                    self._free[i : i + 1] = rest
                    return offset
            self._grow(self._end + extent)
        offset = self._end
        self._end += extent
        return offset

    def _grow(self, needed: int) -> None:
        capacity = 1 << (needed - 1).bit_length()
        data = np.empty(capacity, np.uint8)
        state = np.zeros(capacity, np.uint8)
        data[: self._end], state[: self._end] = self.data[: self._end], self.state[: self._end]
        self.data, self.state = data, state
        self.views = ByteViews(data, state)

    def free(self, address: int) -> None:
        """Free an allocation; accesses to its addresses fault afterwards.

        Raises:
            PtxFault: `address` is not the start of an allocation.
        """
        offset = address - GLOBAL_BASE
        if offset not in self._sizes:
            raise PtxFault(f"free of {address:#x}, where no allocation begins")
        size = self._sizes.pop(offset)
        self.allocated_bytes -= size
        self.state[offset : offset + size] = UNALLOCATED
        extent = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT + _GUARD_BYTES
        self._free.append((offset, extent))
        self._free = _joined(sorted(self._free))

    def write(self, address: int, buffer: Buffer) -> None:
        """Copy host bytes to the device.

        Raises:
            PtxFault: the range is not inside one allocation.
        """
        source = _bytes_of(buffer)
        offset = self._checked(address, len(source), "write")
        self.data[offset : offset + len(source)] = source
        self.state[offset : offset + len(source)] = WRITTEN

    def read(self, address: int, size_bytes: int) -> Bytes:
        """Copy device bytes to the host.

        Raises:
            PtxFault: the range is not inside one allocation, or has uninitialised bytes.
        """
        offset = self._checked(address, size_bytes, "read")
        unwritten = self.state[offset : offset + size_bytes] != WRITTEN
        if unwritten.any():
            first = int(np.argmax(unwritten))
            raise PtxFault(
                f"read of uninitialised memory: byte {first} of {size_bytes} at {address:#x} "
                "was never written"
            )
        return self.data[offset : offset + size_bytes].copy()

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Copy within the device; uninitialised bytes stay uninitialised."""
        into = self._checked(target, size_bytes, "copy")
        out_of = self._checked(source, size_bytes, "copy")
        for array in (self.data, self.state):
            array[into : into + size_bytes] = array[out_of : out_of + size_bytes].copy()

    def _checked(self, address: int, size_bytes: int, what: str) -> int:
        offset = address - GLOBAL_BASE
        inside = offset >= 0 and offset + size_bytes <= self.capacity
        if not inside or (self.state[offset : offset + size_bytes] == UNALLOCATED).any():
            raise PtxFault(f"{what} of {size_bytes} bytes at {address:#x} {self.describe(address)}")
        return offset

    def records(self, granule: int) -> Records:
        """Return the last writer and reader of each granule; see `GlobalRaces`.

        Writers, clocks of writers, readers, clocks of readers.
        """
        count = self.capacity // granule
        if self._records is None or len(self._records[0]) < count:
            # Untouched pages of zeros cost no memory.
            self._records = (
                np.zeros(count, np.int64),
                np.zeros(count, np.int32),
                np.zeros(count, np.int64),
                np.zeros(count, np.int32),
            )
        return self._records

    def begin_launch(self) -> None:
        """Start a launch, which is ordered after all earlier ones."""
        self.launches += 1
        self.written_range = (self.capacity, -1)

    def describe(self, address: int) -> str:
        """Return the location of an address, for messages."""
        offset = address - GLOBAL_BASE
        before = [start for start in self._sizes if start <= offset]
        if not before:
            return "is in no allocation"
        start = max(before)
        size, distance = self._sizes[start], offset - start
        if distance < size:
            return f"is byte {distance} of an allocation of {size} bytes"
        return f"is {distance - size} bytes after the end of an allocation of {size} bytes"

    def offsets(self, addresses: Array, size: int, what: str) -> Array:
        """Return byte offsets into `data` of accesses of `size` bytes, aligned and in range.

        The state of the bytes says whether the range is allocated.

        Raises:
            LaneFault: an address is misaligned or outside of every allocation.
        """
        offsets = addresses - np.uint64(GLOBAL_BASE)
        # The capacity is a power of two: the OR of all offsets shows, by one reduction, whether
        # any is too large or misaligned.
        together = int(np.bitwise_or.reduce(offsets))
        if together & (size - 1):
            wrong = (offsets & np.uint64(size - 1)) != 0
            raise self._address_fault(addresses, wrong, f"misaligned global {what} of {size} bytes")
        if together >= self.capacity:
            wrong = offsets >= np.uint64(self.capacity)
            raise self._address_fault(
                addresses, wrong, f"global {what} of {size} bytes out of bounds"
            )
        return offsets.view(np.int64)

    def _address_fault(self, addresses: Array, wrong: Array, what: str) -> LaneFault:
        first = int(np.argmax(wrong))
        address = int(addresses[first])
        return LaneFault(f"{what}: address {address:#x} {self.describe(address)}", first)

    def state_fault(self, addresses: Array, size: int, what: str, *, needs: int) -> LaneFault:
        """Return the fault of the first access whose bytes are not at least in state `needs`."""
        offsets = (addresses - np.uint64(GLOBAL_BASE)).astype(np.int64)
        lowest = self.state[offsets[:, None] + np.arange(size)].min(axis=1)
        out = lowest < UNWRITTEN
        if out.any():
            text = f"global {what} of {size} bytes out of bounds"
            return self._address_fault(addresses, out, text)
        return self._address_fault(
            addresses, lowest < needs, f"{what} of uninitialised global memory"
        )


def _bytes_of(buffer: Buffer) -> Bytes:
    if isinstance(buffer, np.ndarray):
        return np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
    return np.frombuffer(buffer, np.uint8)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join adjacent ranges of a sorted list."""
    found: list[tuple[int, int]] = []
    for offset, size in ranges:
        if found and found[-1][0] + found[-1][1] == offset:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((offset, size))
    return found
