"""Chooses between equivalent kernels by their time on the device.

A cost model picks a tile for every large gemm (`emitters/gemm/gemm_plan.py`), the same on all
machines. Here the alternatives are timed as well, and the fastest is used. The result is cached
for this kernel, device and driver.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hloc.codegen.gpu.emit import alternatives
from hloc.codegen.gpu.kernel import GpuKernel
from hloc.codegen.gpu.nvptx.backend import NvptxModule
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.errors import HloError
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.measuring import reports_of
from hloc.runtime.gpu.memory import Allocations
from hloc.runtime.tuning_file import (
    Measured,
    finite,
    keep_tuning,
    kept_tuning,
    random_array,
    tuning_name,
)
from hloc.shapes import array_leaves

ROUNDS = 7
"""Timed launches of each kernel after a warm-up; their median is compared."""


def tuned(compiled: NvptxModule, device: CudaDevice) -> NvptxModule:
    """Return a module with the fastest kernels on `device`.

    Raises:
        HloError: the device rejects the default kernel, too.
    """
    kernels = []
    for request, kernel in zip(compiled.plan.kernels, compiled.kernels, strict=True):
        result = [] if kernel.library else alternatives(request, kernel, compiled.chip)
        if len(result) > 1:
            kernel = result[_best(compiled, request, result, device)]
        kernels.append(kernel)
    return replace(compiled, kernels=tuple(kernels), _ptx=None)


def _best(
    compiled: NvptxModule,
    request: KernelRequest,
    kernels: Sequence[GpuKernel],
    device: CudaDevice,
) -> int:
    """Return the number of the fastest kernel, from the cache if possible."""
    name = tuning_name(repr(kernels), compiled.chip, device.name, device.driver_version)
    kept = kept_tuning(name, len(kernels))
    if kept is not None:
        return kept.best
    seconds = [_seconds(compiled, request, kernel, device) for kernel in kernels]
    best = min(range(len(kernels)), key=seconds.__getitem__)
    keep_tuning(name, Measured(best, finite(seconds)))
    return best


def _seconds(
    compiled: NvptxModule, request: KernelRequest, kernel: GpuKernel, device: CudaDevice
) -> float:
    """Return the median time of a kernel on random arguments; infinity if it does not run."""
    one = replace(compiled, kernels=(kernel,), _ptx=None)
    memory = Allocations(device)
    try:
        code = device.load(one)
        try:
            arguments = _arguments(memory, request, kernel.scratch_bytes)
            return _measured(kernel, code, arguments, device)
        finally:
            device.unload(code)
    except HloError:
        return math.inf  # it needs more registers or shared memory than this device has
    finally:
        memory.free()


def _measured(kernel: GpuKernel, code: Any, arguments: Sequence[int], device: CudaDevice) -> float:
    rounds: list[float] = []
    for _ in range(1 + ROUNDS):
        with reports_of(device) as reports:
            for function in kernel.functions:
                device.launch(code, function, arguments)
            rounds.append(sum(seconds for _, seconds in reports))
    return statistics.median(rounds[1:])


def _arguments(memory: Allocations, request: KernelRequest, scratch_bytes: int) -> list[int]:
    """Return memory for all arguments of a kernel, operands filled with random numbers."""
    inst = request.inst
    rng = np.random.default_rng(0)
    result = [memory.holding(random_array(rng, leaf)) for leaf in inst.operand_arrays]
    result += [memory.new(leaf.size_bytes) for leaf in array_leaves(inst.shape)]
    return [*result, memory.new(scratch_bytes)] if scratch_bytes else result
