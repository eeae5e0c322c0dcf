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
from hloc.ir.module import Module
from hloc.ir.sharded_signature import (
    ShardedArray,
    ShardedSignature,
    is_per_device,
    sharded_signature,
)
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
        signature: how its arguments and results are placed on them.
        per_device: inputs and outputs are stacked; else they are whole arrays, except results whose
            sharding the text does not give.
        whole: the unpartitioned program, if it is known and runs.
    """

    module: Module
    signature: ShardedSignature
    per_device: bool = False
    whole: Module | None = None

    @property
    def devices(self) -> int:
        return self.signature.devices.total

    @property
    def input_shapes(self) -> list[ArrayShape]:
        """The shapes of its inputs."""
        return [self._shape(leaf, self.per_device) for leaf in self.signature.parameters]

    @property
    def output_shapes(self) -> list[ArrayShape]:
        """The shapes of the outputs."""
        return [self._shape(leaf, self._is_stacked(leaf)) for leaf in self.signature.results]

    @property
    def stacked_outputs(self) -> tuple[int, ...]:
        """The numbers of outputs that are given per device."""
        return tuple(i for i, leaf in enumerate(self.signature.results) if self._is_stacked(leaf))

    def _is_stacked(self, leaf: ShardedArray) -> bool:
        return self.per_device or leaf.placement is None

    def parts(self, inputs: Sequence[Array]) -> Parts:
        """Return `parts[i][device]` of inputs."""
        if self.per_device:
            return [list(array) for array in inputs]
        pairs = zip(inputs, self.signature.parameters, strict=True)
        return [cut(array, leaf, self.devices) for array, leaf in pairs]

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
        pairs = zip(parts, self.signature.parameters, strict=True)
        wholes = [join(own, leaf) for own, leaf in pairs]
        arrays = [array for array in wholes if array is not None]
        found = driver.evaluate(self.whole, *arrays, fill_constants=fill_constants)
        results = zip(found, self.signature.results, strict=True)
        return [cut(array, leaf, self.devices) for array, leaf in results]

    def outputs(self, results: Parts) -> list[Array]:
        """Return results as outputs: whole, or stacked."""
        pairs = zip(results, self.signature.results, strict=True)
        wholes = [(parts, None if self.per_device else join(parts, leaf)) for parts, leaf in pairs]
        return [np.stack(parts) if whole is None else whole for parts, whole in wholes]

    def _shape(self, leaf: ShardedArray, stacked: bool) -> ArrayShape:
        if not stacked:
            return leaf.whole
        return ArrayShape(leaf.local.dtype, (self.devices, *leaf.local.dims))


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
        return DeviceTask(module, sharded_signature(module), per_device)
    local = driver.partition(module)
    signature = sharded_signature(local)
    joins = all(leaf.placement is not None for leaf in (*signature.parameters, *signature.results))
    whole = module if joins and not exchanges_data(module) else None
    return DeviceTask(local, signature, per_device, whole)
