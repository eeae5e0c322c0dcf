"""The arrays behind the row numbers of a `Frame`: registers, constants, special registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from hloc.ptx.faults import PtxFault
from hloc.ptx.frame import AddressOf, Constant, KernelParameter, RowSource, Special, Stored
from hloc.ptx.lanes import WARP, Geometry
from hloc.ptx.value_types import Array


def make_rows(
    sources: Iterable[RowSource],
    storages: Mapping[str, int],
    geometry: Geometry,
    arguments: bytes,
    addresses: Mapping[str, int],
) -> list[Array]:
    """Return the array of each row, with one element or one row of columns per lane.

    Args:
        sources: the source of each row, in the order of their numbers.
        storages: bytes of each register.
        geometry: the lanes.
        arguments: the packed arguments of the kernel.
        addresses: of every variable and parameter, in its own space.
    """
    maker = _RowMaker(storages, geometry, arguments, addresses)
    return [maker.row(source) for source in sources]


class _RowMaker:
    """Creates rows; registers of one size share an array, so that a row is an index into it."""

    def __init__(
        self,
        storages: Mapping[str, int],
        geometry: Geometry,
        arguments: bytes,
        addresses: Mapping[str, int],
    ) -> None:
        """Allocate the registers of all lanes, zeroed; `storages` is the size in bytes of each."""
        self._sizes = storages
        self._geometry = geometry
        self._arguments = np.frombuffer(arguments + bytes(16), np.uint8)
        self._addresses = addresses
        self._index: dict[str, int] = {}
        counts: Counter[int] = Counter()
        for name, size in storages.items():
            self._index[name] = counts[size]
            counts[size] += 1
        self._arrays = {
            size: np.zeros((count, geometry.lanes, size), np.uint8)
            for size, count in counts.items()
        }
        self._views: dict[tuple[int, np.dtype[Any]], Array] = {}

    def row(self, source: RowSource) -> Array:
        if isinstance(source, Stored):
            return self._stored(source)
        if isinstance(source, Special):
            return special(self._geometry, source.name).astype(source.dtype)
        if isinstance(source, Constant):
            raw = np.frombuffer(source.bits.to_bytes(source.size, "little"), source.dtype)
            return self._everywhere(raw, source.columns)
        if isinstance(source, KernelParameter):
            size = source.dtype.itemsize * source.columns
            raw = self._arguments[source.offset : source.offset + size].copy()
            return self._everywhere(raw.view(source.dtype), source.columns)
        assert isinstance(source, AddressOf)
        address = self._addresses[source.name] + source.offset
        value = np.array([address & (1 << 64) - 1], np.uint64).astype(source.dtype)
        return self._everywhere(value, 1)

    def _stored(self, source: Stored) -> Array:
        size, index = self._sizes[source.storage], self._index[source.storage]
        if source.dtype.itemsize == size and source.columns == 1:
            key = size, source.dtype
            if key not in self._views:
                self._views[key] = self._arrays[size].view(source.dtype)[:, :, 0]
            return np.asarray(self._views[key][index])
        width = source.dtype.itemsize * source.columns
        part = self._arrays[size][index, :, source.offset : source.offset + width]
        typed = part.view(source.dtype)
        return typed if source.columns > 1 else typed[:, 0]

    def _everywhere(self, value: Array, columns: int) -> Array:
        """Return one value for every lane without copies, by a stride of zero."""
        lanes = self._geometry.lanes
        if columns > 1:
            return np.ndarray((lanes, columns), value.dtype, value, 0, (0, value.itemsize))
        return np.ndarray((lanes,), value.dtype, value, 0, (0,))


@lru_cache(maxsize=64)
def special(geometry: Geometry, name: str) -> Array:
    """Return a special register of all lanes; it is read-only.

    Raises:
        PtxFault: no such register.

    Source: PTX ISA, "Special Registers".
    """
    lane = np.arange(geometry.lanes)
    thread, block = lane % geometry.stride, lane // geometry.stride + geometry.first_block
    register, _, axis = name.partition(".")
    if axis in ("x", "y", "z"):
        found = _axis(geometry, register, "xyz".index(axis), thread, block)
        if found is not None:
            return found
    in_warp = thread % WARP
    here = np.uint64(1) << in_warp.astype(np.uint64)
    below = here - np.uint64(1)
    whole = np.uint64(0xFFFFFFFF)
    ones = np.ones_like(lane)
    known = {
        "laneid": in_warp,
        "warpid": thread // WARP,
        "nwarpid": geometry.warps_per_block * ones,
        "smid": block,
        "nsmid": int(np.prod(geometry.grid)) * ones,
        "gridid": 0 * ones,
        "lanemask_eq": here,
        "lanemask_lt": below,
        "lanemask_le": below | here,
        "lanemask_gt": whole & ~(below | here),
        "lanemask_ge": whole & ~below,
        "cluster_ctarank": 0 * ones,
        "cluster_nctarank": ones,
    }
    if name not in known:
        raise PtxFault(f"unknown special register %{name}")
    return np.asarray(known[name])


def _axis(
    geometry: Geometry, register: str, axis: int, thread: Array, block: Array
) -> Array | None:
    """Return %tid, %ctaid and their extents in one direction."""
    extents = {"tid": geometry.block, "ntid": geometry.block}
    extents |= {"ctaid": geometry.grid, "nctaid": geometry.grid}
    if register not in extents:
        return None
    extent = extents[register]
    if register.startswith("n"):
        return np.full(len(thread), extent[axis])
    inner = int(np.prod(extent[:axis], dtype=np.int64))
    index = thread if register == "tid" else block
    return np.asarray(index // inner % extent[axis])
