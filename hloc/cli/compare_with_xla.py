"""`--compare-with=xla`: the results of XLA, through jaxlib, for a module as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.sharded_signature import is_per_device
from hloc.report.inputs import result_leaves


def results_of_xla(module: Module, inputs: Sequence[Array], *, devices: int = 1) -> list[Array]:
    """Compile and run `module` with XLA on this machine's CPU.

    Args:
        module: as it was read; on several devices a global program.
        inputs: its arguments.
        devices: number of virtual devices that XLA partitions the module for.

    Raises:
        HloError: jax is not installed, XLA refuses the module, or it is a per-device program.
    """
    from hloc.jax.xla_program import need_xla, run_by_xla, run_sharded_by_xla

    need_xla("--compare-with=xla")
    if devices == 1:
        return [np.asarray(result) for result in run_by_xla(full_text(module), inputs)[0]]
    if is_per_device(module):
        raise HloError(
            "--compare-with=xla on several devices takes a program of whole arrays, which XLA "
            "partitions; this is the program of one device"
        )
    dims = [shape.dims for shape in result_leaves(module)]
    counted = clone_module(module)
    counted.set_config(replace(module.config, num_partitions=devices))
    return run_sharded_by_xla(full_text(counted), inputs, dims, devices)


def full_text(module: Module) -> str:
    """Return HLO text with all constants."""
    return module.to_text("default", large_constants=True)
