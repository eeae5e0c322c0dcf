"""The memory of one call: the arena of temporaries and the pointer table."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

from hloc.codegen.plan.pointer_table import ARENA_SLOT, STOP_SLOT, THREADS_SLOT
from hloc.lazy_dataclass import dataclass
from hloc.memory.aligned_array import aligned_memory
from hloc.memory.heap import CACHE_LINE_BYTES, aligned_bytes
from hloc.runtime.recycling import Recycler

Output: TypeAlias = tuple[int, tuple[int, ...] | None, Recycler]

_FRAMES: weakref.WeakSet[Frame] = weakref.WeakSet()
"""All frames of the process, so that an interrupt finds the loops that run."""


class Stoppable(Protocol):
    """A run whose threads wait for each other."""

    def stop(self) -> None:
        """End all waits of its threads."""


_STOPPABLE: weakref.WeakSet[Any] = weakref.WeakSet()


def stopped_with(run: Stoppable, frames: Iterable[Frame]) -> None:
    """Let `stop_all` stop `run` as a whole, as long as it exists, instead of its frames.

    A device whose loops end alone would leave the other devices waiting.
    """
    _STOPPABLE.add(run)
    for frame in frames:
        _FRAMES.discard(frame)


@dataclass(frozen=True, slots=True)
class Team:
    """The threads that share the kernels of a run.

    Attributes:
        run: address of the function that distributes parts, see `codegen/cpu/split_routine.py`.
        workers: number of threads, the caller included.
        worker_bytes: scratch memory of each thread but the caller's.
    """

    run: int
    workers: int
    worker_bytes: int

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory of all threads but the caller's."""
        return (self.workers - 1) * self.worker_bytes


class Threads(ctypes.Structure):
    """A team in the form that generated code expects."""

    _fields_ = (
        ("run", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("workers", ctypes.c_int32),
        ("scratch", ctypes.c_void_p),
    )


class Frame:
    """Memory for one call at a time.

    Attributes:
        table, address: the pointer table for the entry function, and its address.
        stop: a nonzero value ends every loop of the generated code.
        callbacks: C functions in the table, kept alive.
        matrices: slot and bytes of each matrix that should begin at a cache line, and the address
            of a copy that does.
        outputs: slot, transposition from memory, and constructor of the array of each output.
    """

    __slots__ = (
        "__weakref__", "_arena", "_fault", "_threads", "address", "callbacks", "matrices",
        "outputs", "stop", "table",
    )  # fmt: skip

    def __init__(
        self,
        slots: int,
        arena_bytes: int,
        fixed: Mapping[int, int],
        outputs: Sequence[Output],
        team: Team | None = None,
        matrices: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Allocate the memory.

        Args:
            slots: of the table.
            arena_bytes: for temporaries.
            fixed: the pointers that all calls share, by slot.
            outputs: see `outputs`.
            team: the threads of its runs.
            matrices: slots and bytes of matrices that should begin at a cache line.
        """
        first_scratch = aligned_bytes(arena_bytes)
        size = first_scratch + aligned_bytes(team.scratch_bytes if team else 0)
        first_matrix, size = size, size + sum(aligned_bytes(matrix) for _, matrix in matrices)
        self._arena, first = aligned_memory(size)
        self.stop = ctypes.c_int32(0)
        self.outputs = outputs
        self.callbacks: Sequence[Any] = ()
        self._fault: BaseException | None = None
        self.table: Any = (ctypes.c_void_p * slots)()
        self.address = ctypes.addressof(self.table)
        start = self._arena.ctypes.data + first
        self.table[ARENA_SLOT] = start
        self.table[STOP_SLOT] = ctypes.addressof(self.stop)
        self._threads: Threads | None = None
        if team is not None:
            self._threads = Threads(team.run, None, team.workers, start + first_scratch)
            self.table[THREADS_SLOT] = ctypes.addressof(self._threads)
        for slot, address in fixed.items():
            self.table[slot] = address
        starts = accumulate(
            (aligned_bytes(size) for _, size in matrices), initial=start + first_matrix
        )
        self.matrices = [(*matrix, place) for matrix, place in zip(matrices, starts, strict=False)]
        _FRAMES.add(self)

    def align_matrices(self) -> None:
        """Copy each matrix that does not begin at a cache line to a place that does."""
        for slot, size, place in self.matrices:
            if self.table[slot] % CACHE_LINE_BYTES:
                ctypes.memmove(place, self.table[slot], size)
                self.table[slot] = place

    def fail(self, fault: BaseException) -> None:
        """End all loops; the first `fault` of a call is kept."""
        self._fault = self._fault or fault
        self.stop.value = 1

    def end(self) -> BaseException:
        """Reset for the next call; return the exception that stopped this one."""
        fault, self._fault = self._fault, None
        self.stop.value = 0
        return fault or KeyboardInterrupt()


def stop_all() -> None:
    """End the loops of all running calls."""
    for run in tuple(_STOPPABLE):
        run.stop()
    for frame in tuple(_FRAMES):
        frame.stop.value = 1


def clear_stops() -> None:
    """Clear the stop flags of frames that were idle when they were set."""
    for frame in tuple(_FRAMES):
        frame.stop.value = 0
