"""A module compiled for a GPU that can be called: arrays in, arrays out.

Arguments are copied in and results out. Temporaries share one range of memory, which calls reuse;
so do arguments and results if the device replays recorded runs, which contain addresses.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hloc.codegen.gpu.backend import GpuModule
from hloc.codegen.gpu.nvptx.backend import NvptxModule
from hloc.codegen.plan.pointer_table import DEVICE_SLOT
from hloc.dtypes import Array
from hloc.errors import HloError, UnsupportedError
from hloc.memory.allocation import BufferReport
from hloc.memory.assigned_buffers import parameter_leaves
from hloc.runtime.array_spec import check_ranks, spec_of
from hloc.runtime.dynamic_sizes import cut_results, padded_arguments
from hloc.runtime.gpu.autotune import tuned
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.cuda_devices import first_device
from hloc.runtime.gpu.device import Device, LibraryDevice, RecordingDevice
from hloc.runtime.gpu.dlpack import borrow
from hloc.runtime.gpu.dlpack_array import DeviceArray
from hloc.runtime.gpu.host_device import HostDevice
from hloc.runtime.gpu.memory import Allocations, Frame, fill_shared_outputs, put_constants
from hloc.runtime.gpu.runner import DevicePart, Runner, in_order
from hloc.runtime.gpu.simulated import SimulatedDevice
from hloc.runtime.memory_limit import check_memory


class GpuExecutable:
    """Code and constants of one module on a device.

    Call it with one array per parameter leaf (tuples flattened depth first, tokens left out); it
    returns the list of result leaves. Calls from several threads run one after another.

    Attributes:
        parameters, outputs: specs of arguments and results.
    """

    def __init__(self, compiled: GpuModule, device: Device, part: DevicePart | None = None) -> None:
        """Load `compiled` onto `device`, which is one of several if it has a `part`.

        Raises:
            HloError: it needs more memory than the limit; the device rejects the code.
            UnsupportedError: an argument or result has more dimensions than NumPy arrays have.
        """
        plan = compiled.plan
        self.compiled = compiled
        self.device = device
        boundary = compiled.boundary
        leaves = parameter_leaves(compiled.module)
        check_ranks([*(leaf.shape for leaf in leaves), *plan.assignment.outputs])
        self._specs = tuple(spec_of(leaf.name, leaf.shape) for leaf in leaves)
        self._results = tuple(
            spec_of(f"output {i}", shape) for i, shape in enumerate(plan.assignment.outputs)
        )
        self.parameters = self._specs[: len(self._specs) - len(boundary.parameters)]
        self.outputs = self._results[: len(self._results) - len(boundary.results)]
        self._is_dynamic = bool(boundary.parameters or boundary.results)
        check_memory(compiled.buffers, compiled.options.memory_limit_bytes)
        _check_libraries(compiled, device)
        has_code = any(k.functions or k.library is not None for k in compiled.kernels)
        code = device.load(compiled) if has_code else None
        self._runner = Runner(compiled, device, code, part)
        self._memory = Allocations(device)
        self._kept: list[Frame] = []
        weakref.finalize(self, _release, self._runner, self._memory, self._kept)
        self._constants = put_constants(self._memory, plan)
        self._numbers = 0
        if part is not None:
            numbers = np.array([0, 0, part.replica, part.partition], np.uint32)
            self._numbers = self._memory.holding(numbers)
        self._lock = threading.Lock()

    @property
    def buffers(self) -> BufferReport:
        """Bytes of memory by kind."""
        return self.compiled.buffers

    def stage(self, name: str) -> str | bytes:
        """Return a stage of the compilation: `hlo`, `llvm-ir`, `ptx` and others."""
        return self.compiled.stage(name)

    def __call__(self, *arrays: Any, donate: Collection[int] = ()) -> list[Array]:
        """Run the module.

        Args:
            arrays: one per parameter leaf; NumPy arrays or what converts to them.
            donate: numbers of donated arguments; it has no effect here, since arguments are copied
                to the device.

        Returns:
            New arrays, one per result leaf.

        Raises:
            HloError: wrong number, type or shape of arguments, with the parameter's name.
        """
        if len(arrays) != len(self.parameters):
            raise HloError(f"expected {len(self.parameters)} arguments, but got {len(arrays)}")
        if not self._is_dynamic:
            return self._call(arrays)
        shapes = [spec.shape for spec in self.parameters]
        boundary = self.compiled.boundary
        padded = padded_arguments(arrays, shapes, boundary)
        return cut_results(self._call(padded), boundary)

    def _call(self, arrays: Sequence[Any]) -> list[Array]:
        data = [spec.in_memory(a) for spec, a in zip(self._specs, arrays, strict=True)]
        plan, device = self.compiled.plan, self.device
        with self._lock, self._frame() as frame:
            frame.put(data)
            fill_shared_outputs(device, plan, frame.table)
            self._runner.run(frame.table)
            device.synchronize()
            first = plan.table.first_output
            return [
                in_order(device.read(frame.table[first + number], spec.shape.size_bytes), spec)
                for number, spec in enumerate(self._results)
            ]

    def on_device(self, *arrays: Any) -> list[DeviceArray]:
        """Run the module on arrays on a CUDA device, and leave the results there.

        Args:
            arrays: one per parameter leaf. Those on the device with `__dlpack__` or
                `__cuda_array_interface__`, such as those of PyTorch, JAX or CuPy, are read in
                place; others are copied to the device. A view whose address is not a multiple of
                64 bytes is copied on the device, since kernels use vector loads.

        Returns:
            Complete arrays that these packages accept without a copy.

        Raises:
            HloError: wrong number, type, shape or strides of arguments; the module has dynamic
                sizes, or does not run on a CUDA device.
        """
        device = self.device
        if not isinstance(device, CudaDevice):
            raise HloError(f"arrays of other packages are not on the {device.name}")
        if self._is_dynamic:
            raise HloError("dynamic sizes need arrays on the host")
        if len(arrays) != len(self.parameters):
            raise HloError(f"expected {len(self.parameters)} arguments, but got {len(arrays)}")
        plan = self.compiled.plan
        with self._lock, self._frame() as frame:
            table, used = list(frame.table), []
            for slot, (spec, array) in enumerate(
                zip(self._specs, arrays, strict=True), plan.table.first_parameter
            ):
                borrowed = borrow(array, spec, device)
                if borrowed is not None and borrowed.is_aligned:
                    table[slot] = borrowed.address
                elif borrowed is not None:
                    device.copy(table[slot], borrowed.address, spec.shape.size_bytes)
                elif spec.shape.size_bytes:
                    device.write(table[slot], spec.in_memory(array))
                used.append(borrowed)  # must live as long as the call
            results = [DeviceArray(spec, device) for spec in self._results]
            first = plan.table.first_output
            table[first : first + len(results)] = [result.address for result in results]
            fill_shared_outputs(device, plan, table)
            self._runner.run(table)
            device.synchronize()
        return results

    @contextmanager
    def _frame(self) -> Iterator[Frame]:
        """Yield the memory of one run: a cached frame, or a new one that is freed afterwards."""
        if self._kept:
            yield self._kept[0]
            return
        sizes = [spec.shape.size_bytes for spec in self._specs]
        frame = Frame(self.device, self.compiled.plan, self._constants, sizes)
        frame.table[DEVICE_SLOT] = self._numbers
        if isinstance(self.device, RecordingDevice):
            self._kept.append(frame)
        try:
            yield frame
        finally:
            if not self._kept:
                frame.free()


def _check_libraries(compiled: GpuModule, device: Device) -> None:
    """Raise UnsupportedError for a module that calls libraries if there is no real device."""
    called = sorted({k.library.library for k in compiled.kernels if k.library is not None})
    if called and not isinstance(device, LibraryDevice):
        raise UnsupportedError(
            f"{', '.join(called)} cannot run on the {device.name}",
            notes=("leave --use-library out (Python: use_library=()): hloc has its own kernels",),
        )


def _release(runner: Runner, memory: Allocations, kept: list[Frame]) -> None:
    """Free the device resources of an executable."""
    if runner.graphs is not None:
        runner.graphs.close()
    for frame in kept:
        frame.free()
    memory.free()
    if isinstance(runner.device, RecordingDevice) and runner.code is not None:
        runner.device.unload(runner.code)


def load_compiled(compiled: GpuModule) -> GpuExecutable:
    """Load a module onto the first GPU, or onto the simulator that its options name.

    Raises:
        UnsupportedError: there is no GPU, no driver, or the target cannot run in this process.
    """
    simulator = compiled.options.simulator
    if simulator == "host":
        return GpuExecutable(compiled, HostDevice())
    if not isinstance(compiled, NvptxModule):
        raise UnsupportedError(
            f"code for target {compiled.target!r} cannot run in this process",
            notes=('--simulate=host (Python: simulate="host") runs its kernels on this machine',),
        )
    if simulator:
        return GpuExecutable(compiled, SimulatedDevice())
    try:
        device = first_device()
    except UnsupportedError as fault:
        raise UnsupportedError(
            "there is no NVIDIA GPU here that hloc can use",
            notes=(
                fault.message,
                *fault.diagnostics[0].notes,
                "--simulate (Python: simulate=True) runs the PTX in hloc's interpreter, "
                "--simulate=host its kernels as code of this machine",
            ),
        ) from fault
    if compiled.options.autotune:
        compiled = tuned(compiled, device)
    return GpuExecutable(compiled, device)
