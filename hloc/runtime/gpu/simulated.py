"""A device that executes PTX itself, with every access checked."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.gpu.kernel import GpuFunction
from hloc.ptx import LaunchReport, Memory, PtxModule, launch, parse_ptx
from hloc.runtime.gpu.device import Array

MEMORY_BYTES = 4 << 30
"""Memory that one simulated device has."""


class SimulatedDevice:
    """The interpreter of PTX as a device.

    Attributes:
        reports: what each launch did, by name of the function, if `metrics` are asked for.
    """

    name = "simulated GPU"

    def __init__(self, *, metrics: bool = False) -> None:
        self.memory = Memory(limit_bytes=MEMORY_BYTES)
        self.metrics = metrics
        self.reports: list[tuple[str, LaunchReport]] = []

    def load(self, ptx: str) -> PtxModule:
        return parse_ptx(ptx)

    def allocate(self, size_bytes: int) -> int:
        return self.memory.allocate(size_bytes)

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
            grid=function.grid,
            block=function.block,
            arguments=list(arguments),
            memory=self.memory,
            shared_bytes=function.dynamic_shared_bytes,
            metrics=self.metrics,
        )
        if self.metrics:
            self.reports.append((function.name, report))

    def synchronize(self) -> None:
        """All is done when a call returns."""
