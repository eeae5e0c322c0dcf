"""A module of several devices on as many GPUs, a thread each; NCCL moves data between them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from hloc.codegen.gpu.backend import GpuModule
from hloc.codegen.gpu.nvptx.backend import NvptxModule
from hloc.codegen.plan.exchange import Exchange
from hloc.dtypes import Array
from hloc.errors import HloError, UnsupportedError
from hloc.ir.device_groups import DeviceCounts, module_devices
from hloc.ir.sharded_signature import ShardedSignature, is_partitioned
from hloc.memory.allocation import BufferReport
from hloc.runtime.communicator.interface import ExchangeProgram
from hloc.runtime.communicator.nccl.communicator import NcclCommunicator, Stopped
from hloc.runtime.communicator.nccl.interface import Nccl
from hloc.runtime.communicator.nccl.library import NcclLibrary, installed_library
from hloc.runtime.communicator.nccl.simulated import SimulatedNccl
from hloc.runtime.gpu import executable
from hloc.runtime.gpu.cuda_devices import first_devices
from hloc.runtime.gpu.device import Device
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.host_device import HostDevice
from hloc.runtime.gpu.runner import DevicePart
from hloc.runtime.gpu.simulated import SimulatedDevice
from hloc.runtime.shards import call_whole


class GpuDevicesExecutable:
    """Code and constants of one module on all of its devices; runs are serialised.

    Attributes:
        parameters, outputs: specs of arguments and results, per device.
    """

    def __init__(
        self, compiled: GpuModule, devices: Sequence[Device], nccl: Nccl, counts: DeviceCounts
    ) -> None:
        """Load `compiled` onto `devices`, by flattened id.

        Raises:
            HloError: a device rejects the code; NCCL fails.
        """
        self.compiled = compiled
        program = ExchangeProgram(compiled.plan.exchanges, {}, counts.replicas, counts.partitions)
        self._communicator = communicator = NcclCommunicator(program, devices, nccl)
        weakref.finalize(self, communicator.close)
        self._places = [
            GpuExecutable(compiled, device, _part(communicator, number, counts))
            for number, device in enumerate(devices)
        ]
        self.parameters = self._places[0].parameters
        self.outputs = self._places[0].outputs
        self._signature: Callable[[], ShardedSignature] | None = None

    @property
    def buffers(self) -> BufferReport:
        """Bytes of memory by kind, of one device."""
        return self.compiled.buffers

    def stage(self, name: str) -> str | bytes:
        """Return a stage of the compilation: `hlo`, `llvm-ir`, `ptx` and others."""
        return self.compiled.stage(name)

    def set_signature(self, signature: Callable[[], ShardedSignature]) -> None:
        """Set the function that returns, on first use, the shardings of arguments and results."""
        self._signature = cache(signature)

    def __call__(self, *arrays: Any, donate: Collection[int] = ()) -> list[Array]:
        """Run the module on whole arrays, split and joined by its shardings.

        Args:
            arrays: one per parameter leaf.
            donate: numbers of donated arguments, which has no effect here.

        Raises:
            HloError: the module has no sharding for a result.
        """
        if not _tells_devices(self.compiled):  # all devices compute the same
            return self._places[0](*arrays)
        signature = self._signature() if self._signature is not None else None
        wholes = [np.asarray(array) for array in arrays]
        return call_whole(self.run_devices, wholes, signature, len(self._places))

    def run_devices(self, args: Sequence[Sequence[Any]]) -> list[list[Array]]:
        """Run the module on all devices: `args[i][device]` gives `results[j][device]`.

        Raises:
            HloError: wrong number, type or shape of arguments; a deadlock, with the devices and the
                instructions at which they wait; a device that failed.
        """
        count = len(self._places)
        if len(args) != len(self.parameters):
            raise HloError(f"expected {len(self.parameters)} arguments, but got {len(args)}")
        for spec, parts in zip(self.parameters, args, strict=True):
            if len(parts) != count:
                raise HloError(f"{spec.name} needs {count} arrays, one per device: {len(parts)}")
        results: list[list[Array]] = [[] for _ in range(count)]

        def perform(device: int) -> None:
            results[device] = self._places[device](*(parts[device] for parts in args))

        self._communicator.run(perform)
        return [list(parts) for parts in zip(*results, strict=True)]

    def exchange_seconds(self) -> list[tuple[Exchange, tuple[float, ...]]]:
        """Return the host time in each exchange so far, by device."""
        exchanges = self.compiled.plan.exchanges
        by_device = zip(*self._communicator.seconds(), strict=True)
        return list(zip(exchanges, by_device, strict=True))


def _tells_devices(compiled: GpuModule) -> bool:
    return compiled.plan.tells_devices or is_partitioned(compiled.module)


def _part(communicator: NcclCommunicator, device: int, counts: DeviceCounts) -> DevicePart:
    def check() -> None:
        if communicator.is_stopped:
            raise Stopped

    numbers = divmod(device, counts.partitions)
    return DevicePart(*numbers, partial(communicator.exchange, device), check)


def load_compiled(compiled: GpuModule) -> GpuExecutable | GpuDevicesExecutable:
    """Load a module onto the first GPUs, or onto simulators, one for each of its devices.

    Raises:
        UnsupportedError: there are too few GPUs, no driver, no NCCL, or the target cannot run in
            this process.
    """
    counts = module_devices(compiled.module)
    if counts.total == 1:
        return executable.load_compiled(compiled)
    simulator = compiled.options.simulator
    if simulator:
        kind = HostDevice if simulator == "host" else SimulatedDevice
        simulated: list[Device] = [kind() for _ in range(counts.total)]
        return GpuDevicesExecutable(compiled, simulated, SimulatedNccl(simulated), counts)
    if not isinstance(compiled, NvptxModule):
        return executable.load_compiled(compiled)  # raises the error
    try:
        devices = first_devices(counts.total)
        library = installed_library()
    except UnsupportedError as fault:
        if not _tells_devices(compiled):
            return executable.load_compiled(compiled)
        raise UnsupportedError(
            f"{counts.total} devices cannot run here: {fault.message}",
            notes=(
                *fault.diagnostics[0].notes,
                '--simulate=host (Python: simulate="host") runs them on this machine',
            ),
        ) from fault
    nccl = NcclLibrary(library, [d.number for d in devices], [d.stream for d in devices])
    return GpuDevicesExecutable(compiled, devices, nccl, counts)
