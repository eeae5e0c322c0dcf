"""A test mode: every array of a run adjoins inaccessible memory.

A kernel that reads or writes one byte too far ends the process, so runs belong in a child process.
Temporaries get pages of their own with inaccessible pages between them; nothing is used again.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hloc.codegen.cpu.backend import CpuBackend, CpuModule
from hloc.codegen.plan.pointer_table import ARENA_SLOT, FIRST_SLOT, STOP_SLOT
from hloc.errors import UnsupportedError
from hloc.ir.module import Module
from hloc.memory.heap import Packing, Request
from hloc.memory.usage import in_arena
from hloc.options import CompileOptions
from hloc.runtime.cpu_loader import load_objects
from hloc.shapes import ArrayShape

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0
"""PROT_NONE."""


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE) * _PAGE


@dataclass(frozen=True, slots=True)
class GuardedPacking:
    """Packs every buffer between inaccessible pages.

    Attributes:
        at_end: buffers end where the next page begins; else they begin with their page.
    """

    at_end: bool

    def __call__(self, requests: Sequence[Request]) -> Packing:
        """Return offsets, each in pages of its own, a free page before and after."""
        offsets = []
        first = _PAGE
        for request in requests:
            room = _pages(request.size_bytes)
            offsets.append(first + (room - request.size_bytes if self.at_end else 0))
            first += room + _PAGE
        return Packing(tuple(offsets), first, first)


class _Region:
    """Fresh memory of whole pages, of which only the stretches opened can be touched."""

    def __init__(self, size_bytes: int) -> None:
        self._memory = mmap.mmap(-1, max(_pages(size_bytes), _PAGE))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def guard(self, used: Sequence[tuple[int, int]]) -> None:
        """Forbid access to all pages that no stretch (offset, size in bytes) of `used` is on."""
        at = 0
        for offset, size in sorted(used):
            first = offset // _PAGE * _PAGE
            self._forbid(at, first)
            at = max(at, _pages(offset + size))
        self._forbid(at, len(self._memory))

    def _forbid(self, first: int, stop: int) -> None:
        if first >= stop:
            return
        start = ctypes.c_void_p(self.address + first)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(start, ctypes.c_size_t(stop - first), _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect failed")


class _GuardedBytes:
    """One array between inaccessible pages."""

    def __init__(self, size_bytes: int, at_end: bool) -> None:
        packing = GuardedPacking(at_end)([Request(size_bytes, 0, 0)])
        (offset,) = packing.offsets
        self._region = _Region(packing.total_bytes)
        self._region.guard([(offset, size_bytes)])
        self.address = self._region.address + offset

    def write(self, data: bytes) -> None:
        """Fill the array."""
        ctypes.memmove(self.address, data, len(data))


def compile_guarded(module: Module, options: CompileOptions, *, at_end: bool) -> CpuModule:
    """Compile an optimised `module`, which is changed, for `run_guarded` with the same end."""
    backend = CpuBackend(pack=GuardedPacking(at_end), share_outputs=False, stack_bytes=0)
    return backend.compile(module, options)


def run_guarded(compiled: CpuModule, arguments: Sequence[Array], *, at_end: bool) -> list[Array]:
    """Run a module from `compile_guarded` once and return its results.

    Args:
        compiled: without calls of the host, and without dynamic sizes at its boundary.
        arguments: one per parameter leaf, of exactly its type and sizes.
        at_end: which end of every array stands against an inaccessible page.

    Raises:
        UnsupportedError: the module calls the host.
    """
    plan = compiled.plan
    if plan.host_functions:
        raise UnsupportedError("a guarded run cannot call the host")
    assignment = plan.assignment
    table = (ctypes.c_void_p * plan.table.size)()
    arena = _Region(assignment.arena_bytes)
    arena.guard(sorted({(b.place.offset, b.place.size_bytes) for b in in_arena(assignment)}))
    stop = ctypes.c_int32(0)
    table[ARENA_SLOT] = arena.address
    table[STOP_SLOT] = ctypes.addressof(stop)
    kept: list[_GuardedBytes] = []

    def place(slot: int, size_bytes: int) -> _GuardedBytes:
        kept.append(_GuardedBytes(size_bytes, at_end))
        table[slot] = kept[-1].address
        return kept[-1]

    for slot, constant in enumerate(assignment.constants, FIRST_SLOT):
        data = _in_memory(constant.literal.array, constant.shape)
        place(slot, len(data)).write(data)
    for slot, (shape, argument) in enumerate(
        zip(assignment.parameters, arguments, strict=True), plan.table.first_parameter
    ):
        place(slot, shape.size_bytes).write(_in_memory(argument, shape))
    outputs = [
        place(slot, shape.size_bytes)
        for slot, shape in enumerate(assignment.outputs, plan.table.first_output)
    ]
    for alias in assignment.aliases:
        if alias.how == "in place":
            argument = arguments[alias.parameter]
            outputs[alias.output].write(
                _in_memory(argument, assignment.parameters[alias.parameter])
            )
    code = load_objects(compiled.objects(), compiled.machine)
    run: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)
    run(ctypes.addressof(table))
    return [
        _logical(ctypes.string_at(output.address, shape.size_bytes), shape)
        for output, shape in zip(outputs, assignment.outputs, strict=True)
    ]


def _in_memory(array: Array, shape: ArrayShape) -> bytes:
    order = tuple(reversed(shape.minor_to_major))
    return np.ascontiguousarray(array.transpose(order)).tobytes()


def _logical(data: bytes, shape: ArrayShape) -> Array:
    order = tuple(reversed(shape.minor_to_major))
    physical = np.frombuffer(data, shape.dtype.numpy).reshape([shape.dims[d] for d in order])
    return physical.transpose([order.index(d) for d in range(shape.rank)])
