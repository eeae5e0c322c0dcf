"""Profile of a module on the CPU: each kernel of the entry computation, timed alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from hloc.analysis.cost import Cost, costs_of, instruction_cost
from hloc.analysis.extract import extract
from hloc.analysis.kernel_count import is_kernel
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.quantities import duration
from hloc.report.text import aligned, cut, plural

MOST_KERNELS = 24
SECONDS = 0.02
"""Seconds for which a kernel is repeated."""

_WIDEST_NAME, _WIDEST_SHAPE = 25, 16

Times = Callable[[Module], Sequence[float]]
"""Runs a module repeatedly and returns the seconds of each run."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel and its median time; `fault` is the reason if there is none."""

    name: str
    opcode: str
    shape: str
    cost: Cost
    seconds: float
    fault: str = ""


def kernel_times(module: Module, times: Times) -> tuple[list[KernelTime], int]:
    """Time the kernels of the highest cost, one by one.

    Calls, loops and branches are not kernels, and are left out.

    Returns:
        The kernels, the slowest first, and the number of those not timed.
    """
    below = costs_of(reachable_computations(module.entry))
    costs = {i: instruction_cost(i, below.__getitem__) for i in module.entry.instructions}
    kernels = [inst for inst in module.entry.instructions if is_kernel(inst)]
    kernels.sort(key=lambda inst: (-costs[inst].flops - costs[inst].bytes, inst.name))
    timed = [_timed(inst, costs[inst], times) for inst in kernels[:MOST_KERNELS]]
    timed.sort(key=lambda kernel: -kernel.seconds)
    return timed, len(kernels) - len(timed)


def _timed(inst: Instruction, cost: Cost, times: Times) -> KernelTime:
    shape = inst.shape.text_without_layout
    try:
        found = times(extract(inst, 0))
    except HloError as fault:
        return KernelTime(inst.name, inst.opcode.name, shape, cost, 0.0, fault.message)
    seconds = sorted(found[1:] or found)  # the first run warms up
    return KernelTime(inst.name, inst.opcode.name, shape, cost, seconds[len(seconds) // 2])


def repeated(run: Callable[[], object]) -> list[float]:
    """Return the seconds of each run, for `SECONDS` and twice at least."""
    found: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(found) < 2 or time.perf_counter() < end:
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return found


def kernel_data(kernels: Sequence[KernelTime], left: int) -> dict[str, Any]:
    """Return the times as JSON."""
    rows = [
        {
            "name": kernel.name,
            "opcode": kernel.opcode,
            "shape": kernel.shape,
            "seconds": kernel.seconds,
            "flops": kernel.cost.flops,
            "bytes": kernel.cost.bytes,
            "fault": kernel.fault,
        }
        for kernel in kernels
    ]
    return {"kernels": rows, "not_timed": left}


def kernel_lines(kernels: Sequence[KernelTime], left: int) -> list[str]:
    """Return a line per kernel, within 80 columns: time, share, bytes and operations."""
    total = sum(kernel.seconds for kernel in kernels)
    rows = [("kernel", "result", "time", "of all", "GB/s", "GFLOP/s")]
    for kernel in kernels:
        seconds, cost = kernel.seconds, kernel.cost
        rows.append(
            (
                cut(_called(kernel), _WIDEST_NAME),
                cut(kernel.shape, _WIDEST_SHAPE),
                kernel.fault or duration(seconds),
                f"{seconds / total:.0%}" if seconds else "",
                f"{cost.bytes / seconds / 1e9:.1f}" if seconds else "",
                f"{cost.flops / seconds / 1e9:.1f}" if seconds and cost.flops else "",
            )
        )
    count = plural(len(kernels) + left, "kernel")
    head = f"profile: {count}, each alone on random inputs, call included"
    lines = [head, *(f"  {line}" for line in aligned(rows, range(2, 6)))]
    return lines + [f"  {left} that cost less are not timed"] * bool(left)


def _called(kernel: KernelTime) -> str:
    """Return the name, with the opcode if the name does not contain it."""
    return kernel.name if kernel.opcode in kernel.name else f"{kernel.name} ({kernel.opcode})"
