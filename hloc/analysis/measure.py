"""The figures of a module that passes change: kernels and cost."""

from __future__ import annotations

from hloc.analysis.cost import Cost, module_cost
from hloc.analysis.kernel_count import kernel_counts
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """The figures of one state of a module.

    Attributes:
        kernels: instructions that read and write arrays, as `kernel_count` counts them.
        cost: the cost of one run, loop bodies counted once.
    """

    instructions: int
    kernels: int
    cost: Cost


def measure_of(module: Module) -> Measure:
    """Return the figures of `module` in its present state."""
    kernels = sum(kernel_counts(module).values())
    return Measure(module.instruction_count, kernels, module_cost(module))
