"""A CUDA device: memory from the driver's pool, launches on one stream, recorded runs as graphs.

Everything but `read` and `synchronize` is asynchronous. It uses the primary context, which other
packages in the process share, so that arrays can be exchanged without a copy.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from hloc.codegen.gpu.backend import GpuModule
from hloc.codegen.gpu.kernel import GpuFunction
from hloc.codegen.gpu.library_call import LibraryCall
from hloc.codegen.gpu.nvptx.backend import NvptxModule
from hloc.dtypes import Array
from hloc.errors import UnsupportedError
from hloc.lazy_dataclass import dataclass
from hloc.runtime.gpu.commands import Action, Call, Command, Copy, Launch
from hloc.runtime.gpu.cuda_driver import CudaDriver, CudaError
from hloc.runtime.gpu.cuda_graph import capture
from hloc.runtime.gpu.cuda_image import image_for
from hloc.runtime.gpu.cuda_tensor_map import encode_tensor_map
from hloc.runtime.gpu.cuda_timing import LaunchTimes, seconds_on
from hloc.runtime.gpu.library.libraries import Handles, Libraries

SYNC_VARIABLE = "HLOC_GPU_SYNC"
"""Environment variable; `1` waits after every launch, so that a fault names its kernel."""

_LOG_BYTES = 1 << 14
_SHARED_WITHOUT_ASKING = 48 << 10
"""Dynamic shared memory that every kernel may have; source: CUDA programming guide."""
_KEEP_ALL = (1 << 64) - 1
_KEPT_MAPS = 1 << 10


@dataclass(slots=True, eq=False)
class CudaCode:
    """What a module runs: its PTX, loaded, and calls of libraries.

    Attributes:
        image: None if there is no PTX.
        functions: those of the PTX, as far as they were looked up.
    """

    image: Any
    calls: Libraries
    functions: dict[str, Any] = field(default_factory=dict)


class CudaDevice:
    """One GPU of this machine.

    Attributes:
        name: as the driver tells.
        capability: compute capability, 10 times major plus minor.
        processors: multiprocessors.
        records: whether to use `record`; false while launches are timed or synchronised.
        metrics: time every launch of this thread.
        reports: of this thread: name of the function and seconds.
    """

    def __init__(self, driver: CudaDriver, number: int = 0, *, sync: bool | None = None) -> None:
        """Open a device.

        Args:
            driver: initialised.
            number: in the order of the driver.
            sync: wait after every launch; None: as the environment says (`SYNC_VARIABLE`).

        Raises:
            UnsupportedError: there is no such device.
            CudaError: a driver call fails.
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
        self.processors = self.attribute("MULTIPROCESSOR_COUNT")
        self._context = driver.call("cuDevicePrimaryCtxRetain", self._device)
        self._bind()
        self._stream = self._new_stream()
        self._recording: list[Any] = []  # streams, created by the first recording
        self._events: list[Any] = []
        pool = driver.call("cuDeviceGetDefaultMemPool", self._device)
        threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        driver.call("cuMemPoolSetAttribute", pool, threshold, api.cuuint64_t(_KEEP_ALL))
        self._sync = os.environ.get(SYNC_VARIABLE, "") == "1" if sync is None else sync
        self._in_flight: list[Array] = []  # host memory that copies may still access
        self._lock = threading.RLock()
        self._tensor_map = lru_cache(_KEPT_MAPS)(partial(encode_tensor_map, driver))
        self._handles: Handles = {}
        self._times = LaunchTimes()

    def attribute(self, name: str) -> int:
        """Return a device attribute, by CUDA's name without `CU_DEVICE_ATTRIBUTE_`."""
        which = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._driver.call("cuDeviceGetAttribute", which, self._device))

    @property
    def driver_version(self) -> int:
        """CUDA version of the driver: 1000 times major plus 10 times minor."""
        return int(self._driver.call("cuDriverGetVersion"))

    @property
    def stream(self) -> int:
        """Handle of the default stream of all work."""
        return int(self._stream)

    @property
    def records(self) -> bool:
        return not (self._sync or self.metrics)

    @property
    def metrics(self) -> bool:
        return self._times.wanted

    @metrics.setter
    def metrics(self, wanted: bool) -> None:
        self._times.wanted = wanted

    @property
    def reports(self) -> list[tuple[str, float]]:
        return self._times.reports

    def _bind(self) -> None:
        """Make the context current in this thread; another package may have changed it."""
        self._driver.call("cuCtxSetCurrent", self._context)

    def _new_stream(self) -> Any:
        flags = self._api.CUstream_flags.CU_STREAM_NON_BLOCKING
        return self._driver.call("cuStreamCreate", flags)

    # ---- code

    def load(self, compiled: GpuModule) -> CudaCode:
        """Load the PTX of a module, if it has any.

        Raises:
            HloError: it is for another chip, or the driver rejects it; has the driver's message.
        """
        assert isinstance(compiled, NvptxModule), "a driver of NVIDIA reads PTX"
        self._bind()
        calls = Libraries(self, self._handles)
        if not compiled.ptx:
            return CudaCode(None, calls)
        image = image_for(compiled.ptx, self.capability, self.driver_version, self.name)
        option, errors = self._api.CUjit_option, bytearray(_LOG_BYTES)
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        values = [errors, _LOG_BYTES]
        try:
            loaded = self._driver.call(
                "cuLibraryLoadData", image, options, values, len(options), None, None, 0
            )
        except CudaError as fault:
            log = bytes(errors).split(b"\0")[0].decode(errors="replace").strip()
            raise CudaError(fault.message, fault.name, (log,) if log else ()) from None
        return CudaCode(loaded, calls)

    def unload(self, code: CudaCode) -> None:
        """Unload code that is no longer used."""
        code.calls.close()
        if code.image is not None:
            self._driver.attempt("cuLibraryUnload", code.image)

    def _function(self, code: CudaCode, function: GpuFunction) -> Any:
        result = code.functions.get(function.name)
        if result is None:
            kernel = self._driver.call("cuLibraryGetKernel", code.image, function.name.encode())
            shared = function.dynamic_shared_bytes
            if shared > _SHARED_WITHOUT_ASKING:
                which = self._api.CUfunction_attribute
                maximum = which.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._driver.call("cuKernelSetAttribute", maximum, shared, kernel, self._device)
            result = code.functions[function.name] = self._api.CUfunction(int(kernel))
        return result

    # ---- memory

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes.

        Raises:
            CudaError: the device is out of memory.
        """
        self._bind()
        return int(self._driver.call("cuMemAllocAsync", max(size_bytes, 1), self._stream))

    def free(self, address: int) -> None:
        """Free memory after all work that was enqueued before.

        Never raises: it also runs after errors, and when the interpreter ends.
        """
        self._driver.attempt("cuCtxSetCurrent", self._context)
        self._driver.attempt("cuMemFreeAsync", self._api.CUdeviceptr(address), self._stream)

    def free_shared(self, address: int) -> None:
        """Free memory that was exported to other packages, after all of their work on it."""
        self._driver.attempt("cuCtxSetCurrent", self._context)
        self._driver.attempt("cuCtxSynchronize")
        self.free(address)

    def write(self, address: int, data: Array) -> None:
        """Copy a contiguous array to the device; it is kept alive until the copy has ended."""
        self._bind()
        self._keep(data)
        self._driver.call("cuMemcpyHtoDAsync", address, data.ctypes.data, data.nbytes, self._stream)

    def _keep(self, data: Array) -> None:
        """Keep an array alive until the next synchronisation, even after an error."""
        with self._lock:
            self._in_flight.append(data)

    def read(self, address: int, size_bytes: int) -> Array:
        """Return bytes of the device's memory, after all work that was enqueued before."""
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
        self.copy_on(self._stream, target, source, size_bytes)

    def copy_on(self, stream: Any, target: int, source: int, size_bytes: int) -> None:
        """Copy inside the device's memory on one of its streams, or its handle."""
        self._driver.call("cuMemcpyDtoDAsync", target, source, size_bytes, stream)

    # ---- running

    def launch(self, code: CudaCode, function: GpuFunction, arguments: Sequence[int]) -> None:
        """Run a function of `code` on pointers."""
        self._bind()
        self._function(code, function)  # resolved before the timer starts
        self._watched(
            function.name, lambda: self._launch_on(self._stream, code, function, arguments)
        )

    def call(
        self, code: CudaCode, call: LibraryCall, kernel: str, arguments: Sequence[int]
    ) -> None:
        """Run the library call that replaces the kernel `kernel`."""
        self._bind()
        code.calls.prepare(call, self.stream)
        self._watched(kernel, lambda: code.calls.run(call, arguments, self.stream))

    def _watched(self, name: str, ask: Callable[[], None]) -> None:
        """Enqueue work on the default stream; time it or wait for it if requested."""
        if self.metrics:
            seconds = seconds_on(self._driver, self._stream, ask, self.synchronize)
            self.reports.append((name, seconds))
            return
        ask()
        if self._sync:
            self.synchronize()

    def _launch_on(
        self, stream: Any, code: CudaCode, function: GpuFunction, arguments: Sequence[int]
    ) -> None:
        maps = [self._tensor_map(tiled, arguments[tiled.argument]) for tiled in function.tiled]
        # For a type of None, the package takes the address of the value's own bytes.
        types = (ctypes.c_void_p,) * len(arguments) + (None,) * len(maps)
        self._driver.call(
            "cuLaunchKernel",
            self._function(code, function),
            *function.grid_on(self.processors),
            *function.block,
            function.dynamic_shared_bytes,
            stream,
            ((*arguments, *maps), types),
            0,
        )

    def synchronize(self) -> None:
        """Wait for all enqueued work.

        Raises:
            CudaError: a kernel failed; this process cannot use the device any more.
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
        """Let later work wait for the work that is now on another stream."""
        self._bind()
        with self._lock:
            (event,) = self._events_for(1)
            self._driver.call("cuEventRecord", event, self._api.CUstream(stream))
            self._driver.call("cuStreamWaitEvent", self._stream, event, 0)

    # ---- recorded runs

    def record(self, code: CudaCode, commands: Sequence[Command]) -> Any:
        """Return commands as a graph, which `replay` may run any number of times.

        Nothing runs yet. Separate streams are captured, so that memory may be freed on the default
        one at any time.
        """
        self._bind()
        with self._lock:
            while len(self._recording) < 1 + max(c.stream for c in commands):
                self._recording.append(self._new_stream())
            for command in commands:  # allocations of libraries must not be captured
                for action in command.actions:
                    if isinstance(action, Call):
                        code.calls.prepare(action.call, int(self._recording[command.stream]))

            def perform(stream: Any, action: Action) -> None:
                self._perform_on(stream, code, action)

            events = self._events_for(len(commands) + 1)
            return capture(self._driver, self._recording, events, commands, perform)

    def _perform_on(self, stream: Any, code: CudaCode, action: Action) -> None:
        if isinstance(action, Copy):
            self.copy_on(stream, action.target, action.source_address, action.size_bytes)
            return
        try:
            if isinstance(action, Launch):
                self._launch_on(stream, code, action.function, action.arguments)
            else:
                code.calls.run(action.call, action.arguments, int(stream))
        except CudaError as fault:
            raise fault.at(action.source) from None

    def replay(self, graph: Any) -> None:
        """Run a recorded graph."""
        self._bind()
        self._driver.call("cuGraphLaunch", graph, self._stream)

    def discard(self, graph: Any) -> None:
        """Destroy a graph, after it has ended."""
        self._driver.attempt("cuCtxSetCurrent", self._context)
        self._driver.attempt("cuGraphExecDestroy", graph)

    def _events_for(self, count: int) -> list[Any]:
        """Return this many events without timing; they are reused."""
        flags = self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING
        while len(self._events) < count:
            self._events.append(self._driver.call("cuEventCreate", flags))
        return self._events[:count]
