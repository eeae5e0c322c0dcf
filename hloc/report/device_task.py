"""A module that runs on several devices: its inputs and outputs, whole or per device.

Per device means stacked: an array of `f32[2,4]` on each of eight devices is `f32[8,2,4]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from hloc import driver
from hloc.dtypes import Array
from hloc.errors import HloError, UnsupportedError
from hloc.ir.device_groups import exchanges_data, module_devices
from hloc.ir.edges import Edge, Edges, edges_of, is_per_device
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.runtime.shards import cut, join
from hloc.shapes import ArrayShape

Parts: TypeAlias = list[list[Array]]

MAX_DEVICES = 1024
"""Maximum number of devices of one run; each is a thread."""


class _Program(Protocol):
    def run_devices(self, args: Sequence[Sequence[Any]]) -> Parts:
        """Run on all devices at once."""


@dataclass(frozen=True, slots=True)
class DeviceTask:
    """The execution of a module on several devices.

    Attributes:
        module: the program of each device.
        edges: how its arguments and results are placed on them.
        per_device: inputs and outputs are stacked; else they are whole arrays, except results whose
            sharding the text does not give.
        whole: the unpartitioned program, if it is known and runs.
    """

    module: Module
    edges: Edges
    per_device: bool = False
    whole: Module | None = None

    @property
    def devices(self) -> int:
        return self.edges.devices.total

    @property
    def input_shapes(self) -> list[ArrayShape]:
        """The shapes of its inputs."""
        return [self._shape(edge, self.per_device) for edge in self.edges.parameters]

    @property
    def output_shapes(self) -> list[ArrayShape]:
        """The shapes of the outputs."""
        return [self._shape(edge, self._is_stacked(edge)) for edge in self.edges.results]

    @property
    def stacked_outputs(self) -> tuple[int, ...]:
        """The numbers of outputs that are given per device."""
        return tuple(i for i, edge in enumerate(self.edges.results) if self._is_stacked(edge))

    def _is_stacked(self, edge: Edge) -> bool:
        return self.per_device or edge.placement is None

    def parts(self, inputs: Sequence[Array]) -> Parts:
        """Return `parts[i][device]` of inputs."""
        if self.per_device:
            return [list(array) for array in inputs]
        pairs = zip(inputs, self.edges.parameters, strict=True)
        return [cut(array, edge, self.devices) for array, edge in pairs]

    def program(self, executable: Callable[..., list[Array]]) -> Callable[[Parts], Parts]:
        """Return a function that runs `executable` on parts and returns parts.

        Raises:
            UnsupportedError: programs of its target run on one device.
        """
        if not hasattr(executable, "run_devices"):
            raise UnsupportedError("programs of this target run on one device")
        return cast(_Program, executable).run_devices

    def evaluated(self, module: Module, parts: Parts, fill_constants: str) -> Parts:
        """Return the reference evaluator's results, of the unpartitioned program if possible.

        Args:
            module: the program of each device, before passes.
            parts: arguments by leaf and device.
            fill_constants: as in `CompileOptions`.
        """
        if self.whole is None:
            return driver.evaluate_devices(module, parts, fill_constants=fill_constants)
        pairs = zip(parts, self.edges.parameters, strict=True)
        wholes = [join(own, edge) for own, edge in pairs]
        arrays = [array for array in wholes if array is not None]
        found = driver.evaluate(self.whole, *arrays, fill_constants=fill_constants)
        results = zip(found, self.edges.results, strict=True)
        return [cut(array, edge, self.devices) for array, edge in results]

    def outputs(self, results: Parts) -> list[Array]:
        """Return results as outputs: whole, or stacked."""
        pairs = zip(results, self.edges.results, strict=True)
        wholes = [(parts, None if self.per_device else join(parts, edge)) for parts, edge in pairs]
        return [np.stack(parts) if whole is None else whole for parts, whole in wholes]

    def _shape(self, edge: Edge, stacked: bool) -> ArrayShape:
        if not stacked:
            return edge.whole
        return ArrayShape(edge.local.dtype, (self.devices, *edge.local.dims))


def device_task(module: Module, devices: int, *, per_device: bool = False) -> DeviceTask | None:
    """Return how `module` runs on `devices`, None if it runs on one, being unpartitioned.

    A module without a device count is taken to be for `devices` partitions; an
    annotated program is partitioned.

    Args:
        module: as parsed; its header is changed if it has no device count.
        devices: the number that the user gave, 0 if none.
        per_device: stack inputs and outputs.

    Raises:
        HloError: the module needs more devices than given, or another number.
    """
    counts = module_devices(module)
    if counts.total == 1 and devices > 1:
        module.set_config(replace(module.config, num_partitions=devices))
        counts = module_devices(module)
    if not devices and not per_device:
        if counts.total > 1 and exchanges_data(module):
            raise HloError(
                f"module {module.name} runs on {counts.total} devices that work together",
                notes=(f"--devices={counts.total} runs it on this machine",),
            )
        return None
    if devices and devices != counts.total:
        raise HloError(
            f"module {module.name} is for {counts.total} devices (replica_count="
            f"{counts.replicas}, num_partitions={counts.partitions}), but was given {devices}",
            notes=(f"--devices={counts.total}",),
        )
    if counts.total == 1:
        return None
    if counts.total > MAX_DEVICES:
        raise HloError(f"{counts.total} devices are more than the {MAX_DEVICES} of one run")
    if is_per_device(module):
        return DeviceTask(module, edges_of(module), per_device)
    local = driver.partition(module)
    edges = edges_of(local)
    joins = all(edge.placement is not None for edge in (*edges.parameters, *edges.results))
    whole = module if joins and not exchanges_data(module) else None
    return DeviceTask(local, edges, per_device, whole)
