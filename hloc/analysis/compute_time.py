"""Modelled time of instructions on one device: a roofline of its peaks, fully overlapped."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from hloc.analysis.cost import costs_of, instruction_cost
from hloc.analysis.gpu_devices import DEVICE_SPECS, DeviceSpec, spec_of_chip, spec_of_device
from hloc.analysis.kernel_count import is_kernel
from hloc.dtypes import F32, DType
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import reachable_computations
from hloc.shapes import ArrayShape, leaves

ComputeTime = Callable[[Instruction], float]
"""Seconds that one device takes for an instruction; 0 for collectives and control flow."""


def compute_times(module: Module, device: DeviceSpec) -> ComputeTime:
    """Return the modelled time of each instruction of `module`, in its present state."""
    costs = costs_of(reachable_computations(module.entry))

    @lru_cache(None)
    def seconds(inst: Instruction) -> float:
        if not is_kernel(inst) or inst.opcode.exchange is not None:
            return 0.0
        cost = instruction_cost(inst, costs.__getitem__)
        return device.seconds(cost.flops + cost.transcendentals, cost.bytes, _type_of(inst))

    return seconds


def _type_of(inst: Instruction) -> DType:
    """Return the element type of the first array operand, or of the result."""
    for operand in (*inst.operands, inst):
        for _, leaf in leaves(operand.shape):
            if isinstance(leaf, ArrayShape):
                return leaf.dtype
    return F32


def find_device(name: str) -> DeviceSpec:
    """Return the peaks of a product by its name (`H100`, `a100-80gb`) or chip (`sm_90`, `gfx942`).

    Raises:
        HloError: a name that is not known.
    """
    text = name.strip()
    if text.lower().startswith(("sm_", "gfx")):
        return spec_of_chip(text.lower())
    spec = spec_of_device(text.upper().replace("PCIE", "PCIe"))
    if spec is None:
        known = dict.fromkeys(name.split()[0] for name in DEVICE_SPECS)
        raise HloError(
            f"unknown device '{text[:60]}': expected one of {', '.join(known)}, a chip such as "
            "sm_90 or gfx942, or host"
        )
    return spec
