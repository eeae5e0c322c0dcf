"""A device that runs GPU kernels compiled for the host, one thread after another.

It checks less than the PTX interpreter (neither bounds nor uninitialised reads) and is much faster.
Running a kernel in order and in reverse order finds races: the bits of the results differ.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from hloc.codegen.gpu.backend import GpuModule
from hloc.codegen.gpu.host.build import RUN, HostBuild, host_build
from hloc.codegen.gpu.host.structures import STRUCTURES
from hloc.codegen.gpu.kernel import GpuFunction, GpuKernel
from hloc.codegen.llvm.object_cache import cached_object
from hloc.codegen.llvm.object_file import ALLOWED_SYMBOLS
from hloc.codegen.llvm.target import host_target
from hloc.dtypes import Array
from hloc.errors import HloError, InternalError
from hloc.lazy_dataclass import dataclass
from hloc.runtime.cpu_loader import LoadedCode, load_functions

_ALIGNMENT = 256
_FIRST_FRAME_BYTES = 1024
_FRAME_ALIGNMENT = 64
_FAULTS, _MOST = STRUCTURES.enum("Fault"), STRUCTURES.enum("Size")


@dataclass(slots=True, eq=False)
class HostCode:
    """Kernels in memory.

    Attributes:
        numbers: of the functions among the addresses; `RUN` is the first address.
        threads, slots, copies: memory for the structures of threads in `STRUCTURES`.
        frame_bytes: coroutine frame size of a thread, as far as known.
    """

    build: HostBuild
    code: LoadedCode
    numbers: dict[str, int]
    frame_bytes: int = _FIRST_FRAME_BYTES
    frames: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    threads: Array = field(default_factory=lambda: _memory("Thread", _MOST["THREADS"]))
    slots: Array = field(default_factory=lambda: _memory("Slot", 2 * _MOST["THREADS"]))
    copies: Array = field(
        default_factory=lambda: _memory("Copy", _MOST["COPIES"] * _MOST["THREADS"])
    )
    lock: threading.Lock = field(default_factory=threading.Lock)


class HostDevice:
    """This machine as a GPU.

    Attributes:
        reverse: run blocks, warps and threads from the last to the first.
    """

    name = "host build"

    def __init__(self, *, reverse: bool = False) -> None:
        self.reverse = reverse
        self._memory: dict[int, Array] = {}

    def load(self, compiled: GpuModule) -> HostCode:
        return self.load_kernels(compiled.kernels, max(compiled.options.opt_level, 1))

    def load_kernels(self, kernels: Sequence[GpuKernel], level: int) -> HostCode:
        """Compile kernels for this machine; `level` is LLVM's, 1 to 3.

        Raises:
            UnsupportedError: they need GPU hardware.
        """
        build = host_build(kernels)
        names = list(build.sites)
        # LLVM's test for NaN by AVX-512DQ misses signalling NaN in maximum and minimum.
        host = host_target()
        target = replace(host, features=f"{host.features},-avx512dq")
        data = cached_object(build.text, target, level, frozenset())
        code = load_functions([data], target, (RUN, *names), ALLOWED_SYMBOLS)
        return HostCode(build, code, {name: i for i, name in enumerate(names, 1)})

    def allocate(self, size_bytes: int) -> int:
        memory = np.empty(size_bytes + _ALIGNMENT, np.uint8)
        address = -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        self._memory[address] = memory
        return address

    def free(self, address: int) -> None:
        del self._memory[address]

    def write(self, address: int, data: Array) -> None:
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def read(self, address: int, size_bytes: int) -> Array:
        data = np.empty(size_bytes, np.uint8)
        ctypes.memmove(data.ctypes.data, address, size_bytes)
        return data

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        ctypes.memmove(target, source, size_bytes)

    def launch(self, code: HostCode, function: GpuFunction, arguments: Sequence[int]) -> None:
        """Run a function.

        Raises:
            HloError: some threads wait for others that never arrive.
        """
        pointers = np.array(arguments, np.uint64)
        run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(code.code.address)
        with code.lock:
            launch = self._launch(code, function, pointers)
            fault = run(ctypes.addressof(launch))
            # The first thread reports this before it does anything.
            if fault == _FAULTS["FRAMES_TOO_SMALL"]:
                needed = launch.needed_bytes
                code.frame_bytes = -(-needed // _FRAME_ALIGNMENT) * _FRAME_ALIGNMENT
                launch = self._launch(code, function, pointers)
                fault = run(ctypes.addressof(launch))
        if fault:
            raise _fault(fault, code.build, function, launch)

    def synchronize(self) -> None:
        """Do nothing: calls are synchronous."""

    def _launch(self, code: HostCode, function: GpuFunction, pointers: Array) -> Any:
        """Return the description of a launch."""
        needed = code.frame_bytes * function.threads + _FRAME_ALIGNMENT
        if code.frames.nbytes < needed:
            code.frames = np.empty(needed, np.uint8)
        columns, rows, layers = function.grid
        return STRUCTURES.structure("Launch")(
            kernel=code.code.addresses[code.numbers[function.name]],
            arguments=pointers.ctypes.data,
            frames=-(-code.frames.ctypes.data // _FRAME_ALIGNMENT) * _FRAME_ALIGNMENT,
            frame_bytes=code.frame_bytes,
            columns=columns,
            rows=rows,
            layers=layers,
            count=function.threads,
            is_reversed=self.reverse,
            threads=code.threads.ctypes.data,
            slots=code.slots.ctypes.data,
            copies=code.copies.ctypes.data,
        )


def _memory(structure: str, count: int) -> Array:
    return np.empty(STRUCTURES.size(structure) * count, np.uint8)


def _fault(fault: int, build: HostBuild, function: GpuFunction, launch: Any) -> Exception:
    site = launch.site
    helper = build.sites[function.name][site - 1] if site else "a collective function"
    where = f"{function.name}, block {launch.block}"
    if fault == _FAULTS["WARP_PARTED"]:
        return HloError(f"{where}: some lanes of a warp never reach {helper}")
    if fault == _FAULTS["BLOCK_PARTED"]:
        return HloError(f"{where}: some threads of the block never reach {helper}")
    return InternalError(f"{where}: too many copies are in flight")
