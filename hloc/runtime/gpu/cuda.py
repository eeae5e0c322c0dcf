"""A CUDA device: memory from the driver's pool, launches on one stream, recorded runs as graphs.

All is asynchronous but `read` and `synchronize`. The primary context is used, which other packages
in the process share, so that arrays can be handed on without a copy.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from hloc.codegen.gpu.kernel import GpuFunction
from hloc.codegen.nvptx.backend import NvptxModule
from hloc.codegen.nvptx.chips import CHIPS
from hloc.errors import HloError, UnsupportedError
from hloc.runtime.gpu.commands import Command
from hloc.runtime.gpu.cuda_driver import CudaDriver, CudaError, installed_driver
from hloc.runtime.gpu.cuda_graph import capture
from hloc.runtime.gpu.cuda_image import image_for, is_for
from hloc.runtime.gpu.device import Array

SYNC_VARIABLE = "HLOC_GPU_SYNC"
"""Environment variable; `1` waits after every launch, so that a fault names its kernel."""

_LOG_BYTES = 1 << 14
_SHARED_WITHOUT_ASKING = 48 << 10
"""Dynamic shared memory that every kernel may have; source: CUDA programming guide."""
_KEEP_ALL = (1 << 64) - 1


@dataclass(slots=True, eq=False)
class CudaCode:
    """A loaded PTX file, and its functions as far as they were looked up."""

    library: Any
    functions: dict[str, Any] = field(default_factory=dict)


class CudaDevice:
    """One GPU of this machine.

    Attributes:
        name: as the driver tells.
        capability: compute capability, 10 times major plus minor.
        records: whether `record` is to be used; not while every launch is looked at.
        metrics: time every launch, for `reports`: name of the function and seconds.
    """

    def __init__(self, driver: CudaDriver, number: int = 0, *, sync: bool | None = None) -> None:
        """Get ready to use a device.

        Args:
            driver: initialised.
            number: which one, in the order of the driver.
            sync: wait after every launch; None asks the environment (`SYNC_VARIABLE`).

        Raises:
            UnsupportedError: there is no such device.
            CudaError: the driver refuses something.
        """
        self._driver = driver
        self._api = api = driver.api
        if number >= driver.call("cuDeviceGetCount"):
            raise UnsupportedError(f"there is no CUDA device {number}")
        self.number = number
        self._device = driver.call("cuDeviceGet", number)
        name = driver.call("cuDeviceGetName", 256, self._device)
        self.name = name.split(b"\0")[0].decode(errors="replace")
        major = self.attribute("COMPUTE_CAPABILITY_MAJOR")
        self.capability = 10 * major + self.attribute("COMPUTE_CAPABILITY_MINOR")
        self._context = driver.call("cuDevicePrimaryCtxRetain", self._device)
        self._bind()
        self._stream = self._new_stream()
        self._recording: list[Any] = []  # streams; made when something is recorded
        self._events: list[Any] = []
        pool = driver.call("cuDeviceGetDefaultMemPool", self._device)
        threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        driver.call("cuMemPoolSetAttribute", pool, threshold, api.cuuint64_t(_KEEP_ALL))
        self._sync = os.environ.get(SYNC_VARIABLE, "") == "1" if sync is None else sync
        self._in_flight: list[Array] = []  # memory of the host that copies may still touch
        self._lock = threading.RLock()
        self.metrics = False
        self.reports: list[tuple[str, float]] = []

    def attribute(self, name: str) -> int:
        """Return a fact about the device, by CUDA's name without `CU_DEVICE_ATTRIBUTE_`."""
        which = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._driver.call("cuDeviceGetAttribute", which, self._device))

    @property
    def stream(self) -> int:
        """Handle of the stream that all work is on."""
        return int(self._stream)

    @property
    def records(self) -> bool:
        return not (self._sync or self.metrics)

    def _bind(self) -> None:
        """Make the context that of this thread, where another package may have changed it."""
        self._driver.call("cuCtxSetCurrent", self._context)

    def _new_stream(self) -> Any:
        flags = self._api.CUstream_flags.CU_STREAM_NON_BLOCKING
        return self._driver.call("cuStreamCreate", flags)

    # ---- code

    def load(self, compiled: NvptxModule) -> CudaCode:
        """Load the PTX of a module.

        Raises:
            HloError: it is for another chip, or the driver refuses it; with the driver's words.
        """
        self._bind()
        version = int(self._driver.call("cuDriverGetVersion"))
        image = image_for(compiled.ptx, self.capability, version, self.name)
        option, errors = self._api.CUjit_option, bytearray(_LOG_BYTES)
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        values = [errors, _LOG_BYTES]
        try:
            library = self._driver.call(
                "cuLibraryLoadData", image, options, values, len(options), None, None, 0
            )
        except CudaError as fault:
            log = bytes(errors).split(b"\0")[0].decode(errors="replace").strip()
            raise CudaError(fault.message, fault.name, (log,) if log else ()) from None
        return CudaCode(library)

    def unload(self, code: CudaCode) -> None:
        """Give code back that is no longer used."""
        self._driver.attempt("cuLibraryUnload", code.library)

    def _function(self, code: CudaCode, function: GpuFunction) -> Any:
        found = code.functions.get(function.name)
        if found is None:
            kernel = self._driver.call("cuLibraryGetKernel", code.library, function.name.encode())
            shared = function.dynamic_shared_bytes
            if shared > _SHARED_WITHOUT_ASKING:
                which = self._api.CUfunction_attribute
                maximum = which.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._driver.call("cuKernelSetAttribute", maximum, shared, kernel, self._device)
            found = code.functions[function.name] = self._api.CUfunction(int(kernel))
        return found

    # ---- memory

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes.

        Raises:
            CudaError: there is not enough.
        """
        self._bind()
        return int(self._driver.call("cuMemAllocAsync", max(size_bytes, 1), self._stream))

    def free(self, address: int) -> None:
        """Give memory back once all that was asked before has ended.

        Never fails: it also runs after faults, and when the interpreter ends.
        """
        self._driver.attempt("cuCtxSetCurrent", self._context)
        self._driver.attempt("cuMemFreeAsync", self._api.CUdeviceptr(address), self._stream)

    def free_shared(self, address: int) -> None:
        """Give memory back that other packages had: whatever they still do on it ends first."""
        self._driver.attempt("cuCtxSetCurrent", self._context)
        self._driver.attempt("cuCtxSynchronize")
        self.free(address)

    def write(self, address: int, data: Array) -> None:
        """Copy a contiguous array to the device; it is kept until the copy has surely ended."""
        self._bind()
        self._keep(data)
        self._driver.call("cuMemcpyHtoDAsync", address, data.ctypes.data, data.nbytes, self._stream)

    def _keep(self, data: Array) -> None:
        """Keep an array until the next time that all is done, even if a fault comes first."""
        with self._lock:
            self._in_flight.append(data)

    def read(self, address: int, size_bytes: int) -> Array:
        """Return bytes of the device's memory, after all that was asked of it before."""
        self._bind()
        data = np.empty(size_bytes, np.uint8)
        if size_bytes:
            self._keep(data)
            self._driver.call(
                "cuMemcpyDtoHAsync", data.ctypes.data, address, size_bytes, self._stream
            )
        self.synchronize()
        return data

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Copy inside the device's memory."""
        self._bind()
        self._copy_on(self._stream, target, source, size_bytes)

    def _copy_on(self, stream: Any, target: int, source: int, size_bytes: int) -> None:
        self._driver.call("cuMemcpyDtoDAsync", target, source, size_bytes, stream)

    # ---- running

    def launch(self, code: CudaCode, function: GpuFunction, arguments: Sequence[int]) -> None:
        """Run a function of `code` on pointers."""
        self._bind()
        if self.metrics:
            self.reports.append((function.name, self._timed(code, function, arguments)))
            return
        self._launch_on(self._stream, code, function, arguments)
        if self._sync:
            self.synchronize()

    def _launch_on(
        self, stream: Any, code: CudaCode, function: GpuFunction, arguments: Sequence[int]
    ) -> None:
        types = (ctypes.c_void_p,) * len(arguments)
        self._driver.call(
            "cuLaunchKernel",
            self._function(code, function),
            *function.grid,
            *function.block,
            function.dynamic_shared_bytes,
            stream,
            (tuple(arguments), types),
            0,
        )

    def _timed(self, code: CudaCode, function: GpuFunction, arguments: Sequence[int]) -> float:
        """Return the seconds that one launch took on the device."""
        self._function(code, function)  # looked up before the clock starts
        call = self._driver.call
        begin, end = (call("cuEventCreate", 0) for _ in range(2))
        try:
            call("cuEventRecord", begin, self._stream)
            self._launch_on(self._stream, code, function, arguments)
            call("cuEventRecord", end, self._stream)
            self.synchronize()
            return float(call("cuEventElapsedTime", begin, end)) / 1e3
        finally:
            for event in (begin, end):
                self._driver.attempt("cuEventDestroy", event)

    def synchronize(self) -> None:
        """Wait for all that was asked.

        Raises:
            CudaError: a kernel went wrong; the device is of no more use to this process then.
        """
        self._bind()
        try:
            self._driver.call("cuStreamSynchronize", self._stream)
        except CudaError as fault:
            notes = () if self._sync else (f"{SYNC_VARIABLE}=1 names the kernel that fails",)
            raise CudaError(f"{self.name}: {fault.message}", fault.name, notes) from None
        with self._lock:
            self._in_flight.clear()

    def wait_for(self, stream: int) -> None:
        """Let all that is asked from now on wait for what is on another stream by now."""
        self._bind()
        with self._lock:
            (event,) = self._events_for(1)
            self._driver.call("cuEventRecord", event, self._api.CUstream(stream))
            self._driver.call("cuStreamWaitEvent", self._stream, event, 0)

    # ---- recorded runs

    def record(self, code: CudaCode, commands: Sequence[Command]) -> Any:
        """Return commands as a graph, which `replay` runs as often as one likes.

        Nothing runs yet. Streams of their own are recorded, so that memory may be given back on
        the usual one at any moment.
        """
        self._bind()
        with self._lock:
            while len(self._recording) < 1 + max(c.stream for c in commands):
                self._recording.append(self._new_stream())

            def launch(stream: Any, function: GpuFunction, arguments: Sequence[int]) -> None:
                self._launch_on(stream, code, function, arguments)

            events = self._events_for(len(commands) + 1)
            return capture(self._driver, self._recording, events, commands, launch, self._copy_on)

    def replay(self, graph: Any) -> None:
        """Run a recorded graph."""
        self._bind()
        self._driver.call("cuGraphLaunch", graph, self._stream)

    def discard(self, graph: Any) -> None:
        """Give a graph back; one that is running ends first."""
        self._driver.attempt("cuCtxSetCurrent", self._context)
        self._driver.attempt("cuGraphExecDestroy", graph)

    def _events_for(self, count: int) -> list[Any]:
        """Return so many events without times, which are used again."""
        flags = self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING
        while len(self._events) < count:
            self._events.append(self._driver.call("cuEventCreate", flags))
        return self._events[:count]


@cache
def first_device() -> CudaDevice:
    """Return the first GPU of this machine, made ready once.

    Raises:
        UnsupportedError: there is none, or what it takes to use it is not installed.
    """
    return CudaDevice(installed_driver())


@cache
def native_chip() -> str:
    """Return the chip of the first GPU as `--mcpu` takes it, "" if there is none to use."""
    try:
        return nearest_chip(first_device().capability)
    except HloError:
        return ""


def nearest_chip(capability: int) -> str:
    """Return the newest chip whose code runs on a device of `capability`, "" if there is none.

    `sm_90a` for 90: such code uses all that the chip has, and runs on no other.
    """
    fitting = [c for c in CHIPS.values() if is_for(c.name, capability)]
    newest = max(fitting, key=lambda c: (c.capability, c.name), default=None)
    return newest.name if newest else ""
