"""Modules for several devices in a session: arrays of all devices, stacked along a first dimension.

Random inputs differ from device to device; other inputs are the same on all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hloc.dtypes import Array
from hloc.ir.clone import clone_module
from hloc.ir.device_groups import module_devices
from hloc.ir.module import Module
from hloc.ir.sharded_signature import is_per_device
from hloc.report.run_inputs import Inputs


def devices_of(module: Module) -> int:
    """Return how many devices a module runs on; a global program runs on one."""
    return module_devices(module).total if is_per_device(module) else 1


def input_arrays(inputs: Inputs, module: Module) -> list[Array]:
    """Return one array per parameter leaf of `module`, stacked if it runs on several devices."""
    count = devices_of(module)
    if count == 1:
        return inputs.arrays(module)
    own = [replace(inputs, seed=inputs.seed + device).arrays(module) for device in range(count)]
    return [np.stack(parts) for parts in zip(*own, strict=True)]


def with_devices_of(origin: Module, module: Module) -> Module:
    """Return `module` with the devices of `origin`; an extracted part may name fewer."""
    counts = module_devices(origin)
    config = replace(module.config, replica_count=counts.replicas, num_partitions=counts.partitions)
    if config == module.config:
        return module
    counted = clone_module(module)
    counted.set_config(config)
    return counted
