"""A device that runs GPU kernels as code of the host, one thread after another.

It checks less than the PTX interpreter (no bounds, no uninitialised reads) and is much faster.
Running a kernel twice, in order and in reverse, finds races: the bits of the results differ.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from hloc.codegen.gpu.backend import GpuModule
from hloc.codegen.gpu.host.build import HostBuild, host_build
from hloc.codegen.gpu.host.scheduler import (
    BLOCK_PARTED,
    FRAMES_TOO_SMALL,
    LAUNCH_WORDS,
    REPORT,
    RUN,
    WARP_PARTED,
)
from hloc.codegen.gpu.kernel import GpuFunction, GpuKernel
from hloc.codegen.llvm.object_cache import cached_object
from hloc.codegen.llvm.object_file import ALLOWED_SYMBOLS
from hloc.codegen.llvm.target import host_target
from hloc.errors import HloError, InternalError
from hloc.lazy_dataclass import dataclass
from hloc.runtime.cpu_loader import LoadedCode, load_functions
from hloc.runtime.gpu.device import Array

_ALIGNMENT = 256
_FIRST_FRAME_BYTES = 1024
_FRAME_ALIGNMENT = 64


@dataclass(slots=True, eq=False)
class HostCode:
    """Kernels in memory.

    Attributes:
        numbers: of the functions among the addresses; `RUN` is the first address.
        frame_bytes: memory that a thread needs where it waits, as far as known.
    """

    build: HostBuild
    code: LoadedCode
    numbers: dict[str, int]
    frame_bytes: int = _FIRST_FRAME_BYTES
    frames: Array = field(default_factory=lambda: np.empty(0, np.uint8))
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
        target = host_target()
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
            HloError: some threads wait for others that never come.
        """
        pointers = np.array(arguments, np.uint64)
        run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(code.code.address)
        with code.lock:
            words = self._words(code, function, pointers)
            fault = run(words.ctypes.data)
            if fault == FRAMES_TOO_SMALL:  # the first thread says so before it does anything
                needed = int(words[REPORT])
                code.frame_bytes = -(-needed // _FRAME_ALIGNMENT) * _FRAME_ALIGNMENT
                words = self._words(code, function, pointers)
                fault = run(words.ctypes.data)
        if fault:
            raise _fault(fault, code.build, function, words)

    def synchronize(self) -> None:
        """All is done when a call returns."""

    def _words(self, code: HostCode, function: GpuFunction, pointers: Array) -> Array:
        """Return the description of a launch."""
        needed = code.frame_bytes * function.threads + _FRAME_ALIGNMENT
        if code.frames.nbytes < needed:
            code.frames = np.empty(needed, np.uint8)
        frames = -(-code.frames.ctypes.data // _FRAME_ALIGNMENT) * _FRAME_ALIGNMENT
        address = code.code.addresses[code.numbers[function.name]]
        words = np.zeros(LAUNCH_WORDS, np.uint64)
        words[:REPORT] = [
            address,
            pointers.ctypes.data,
            frames,
            code.frame_bytes,
            *function.grid,
            function.threads,
            self.reverse,
        ]
        return words


def _fault(fault: int, build: HostBuild, function: GpuFunction, words: Array) -> Exception:
    _, site, block = (int(word) for word in words[REPORT:])
    helper = build.sites[function.name][site - 1] if site else "a collective function"
    where = f"{function.name}, block {block}"
    if fault == WARP_PARTED:
        return HloError(f"{where}: some lanes of a warp never come to {helper}")
    if fault == BLOCK_PARTED:
        return HloError(f"{where}: some threads of the block never come to {helper}")
    return InternalError(f"{where}: too many copies are on their way")
