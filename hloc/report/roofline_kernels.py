"""The kernels of an optimised module, with modelled or measured times."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace

from hloc import driver
from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.cost import costs_of, instruction_cost
from hloc.analysis.diff.fingerprints import Fingerprints
from hloc.analysis.extract import extract
from hloc.analysis.kernel_count import is_kernel
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import reachable_computations
from hloc.pictures.roofline import Kernel, Roofs
from hloc.report.inputs import random_inputs
from hloc.report.run_report import run_executable

_MOST_MEASURED = 48
_MOST_SECONDS = 60.0


def modelled_kernels(module: Module, roofs: Roofs) -> list[tuple[Instruction, Kernel]]:
    """Return the kernels with the times of the cost model, the longest first."""
    costs = costs_of(reachable_computations(module.entry))
    found = []
    for computation in control_flow_computations(module):
        for inst in filter(is_kernel, computation.instructions):
            cost = instruction_cost(inst, costs.__getitem__)
            flops = cost.flops + cost.transcendentals
            seconds = roofs.seconds(flops, cost.bytes)
            kernel = Kernel(inst.name, inst.opcode.name, flops, cost.bytes, seconds, False)
            found.append((inst, kernel))
    found.sort(key=lambda pair: -pair[1].seconds)
    return found


def measured_kernels(
    found: list[tuple[Instruction, Kernel]], warn: Callable[[str], object]
) -> list[tuple[Instruction, Kernel]]:
    """Return the kernels with measured times, each run alone; equal ones run once.

    At most `_MOST_MEASURED`, for a minute; `warn` is called for those that cannot run alone.
    """
    fingerprints = Fingerprints()
    if found:
        fingerprints.add(found[0][0].computation.module)
    known: dict[Hashable, float | None] = {}
    result = []
    stop = time.perf_counter() + _MOST_SECONDS
    for inst, kernel in found:
        key = fingerprints.local[inst], *(operand.shape for operand in inst.operands)
        may_run = len(known) < _MOST_MEASURED and time.perf_counter() < stop
        if key not in known and may_run:
            known[key] = _seconds(inst, warn)
        seconds = known.get(key)
        result.append(
            (inst, kernel if seconds is None else replace(kernel, seconds=seconds, measured=True))
        )
    return result


def _seconds(inst: Instruction, warn: Callable[[str], object]) -> float | None:
    """Return the time of one run of a module of `inst` alone; None if that cannot run."""
    try:
        module = extract(inst, 0)
        inputs = random_inputs(module, 0)
        _, timing = run_executable(driver.compile_as_it_stands(module), inputs, None)
    except HloError as fault:
        warn(f"{inst.name} is not measured: {fault.message}")
        return None
    return timing.seconds[0]
