"""A device that executes PTX itself, with every access checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc.codegen.gpu.backend import GpuModule
from hloc.codegen.gpu.kernel import GpuFunction
from hloc.codegen.gpu.nvptx.backend import NvptxModule
from hloc.codegen.gpu.tensor_map import TensorMapArgument
from hloc.dtypes import Array
from hloc.memory.heap import alignment_of, rounded
from hloc.ptx import LaunchReport, Memory, PtxModule, Watch, launch, parse_ptx
from hloc.ptx.tensor_maps import TensorMap

_UNIT_BYTES = 16
"""LLVM may load a whole aligned unit if only its beginning is needed."""

PROCESSORS = 3
"""Number of resident persistent blocks: few, so that each has several tiles in small tests."""

MEMORY_BYTES = 4 << 30
"""Memory of a simulated device."""


class SimulatedDevice:
    """The PTX interpreter as a device.

    Attributes:
        reports: function name and report of each launch, if `metrics` are requested.
    """

    name = "simulated GPU"

    def __init__(self, *, metrics: bool = False) -> None:
        self.memory = Memory(limit_bytes=MEMORY_BYTES)
        self.metrics = metrics
        self.reports: list[tuple[str, LaunchReport]] = []

    def load(self, compiled: GpuModule) -> PtxModule:
        assert isinstance(compiled, NvptxModule), "the interpreter reads PTX"
        return parse_ptx(compiled.ptx)

    def allocate(self, size_bytes: int) -> int:
        whole = rounded(size_bytes, min(alignment_of(size_bytes), _UNIT_BYTES))
        address = self.memory.allocate(whole)
        if whole > size_bytes:
            self.memory.write(address + size_bytes, np.zeros(whole - size_bytes, np.uint8))
        return address

    def end_array(self, address: int, limit: int) -> None:
        """Allow reads of the unit in which an array of an arena ends, up to the address `limit`."""
        end = min(rounded(address, _UNIT_BYTES), limit)
        self.memory.write(address, np.zeros(max(0, end - address), np.uint8))

    def free(self, address: int) -> None:
        self.memory.free(address)

    def write(self, address: int, data: Array) -> None:
        self.memory.write(address, data)

    def read(self, address: int, size_bytes: int) -> Array:
        return self.memory.read(address, size_bytes)

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        self.memory.copy(target, source, size_bytes)

    def launch(self, code: PtxModule, function: GpuFunction, arguments: Sequence[int]) -> None:
        report = launch(
            code,
            function.name,
            grid=function.grid_on(PROCESSORS),
            block=function.block,
            arguments=[*arguments, *(_tensor_map(t, arguments) for t in function.tiled)],
            memory=self.memory,
            shared_bytes=function.dynamic_shared_bytes,
            metrics=self.metrics,
            watch=self.watch(function, arguments),
        )
        if self.metrics:
            self.reports.append((function.name, report))

    def watch(self, function: GpuFunction, arguments: Sequence[int]) -> Watch | None:
        """Return the observer of a function's run: None here; subclasses may override."""
        return None

    def synchronize(self) -> None:
        """Do nothing: calls are synchronous."""


def _tensor_map(tiled: TensorMapArgument, arguments: Sequence[int]) -> bytes:
    """Return the simulated tensor map of an array."""
    address, size = arguments[tiled.argument], tiled.dtype.storage_bytes
    return TensorMap(
        address, size, tiled.dims, tiled.strides, tiled.box, tiled.swizzle_bytes, tiled.to_tf32
    ).encoded()
