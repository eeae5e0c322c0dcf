"""The number of kernels of a module: instructions that read and write arrays when it runs.

The count is comparable with modules that other compilers optimised: a fusion counts once, whatever
it contains, and instructions that move no bytes do not count.
"""

from __future__ import annotations

from collections import Counter

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import forwards
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module


def is_kernel(inst: Instruction) -> bool:
    """True if `inst` computes or moves bytes when the computation it is in runs.

    False for parameters, tuples and bitcasts, which move nothing, and for loops, branches
    and calls, whose computations count instead.
    """
    return (
        inst.opcode.has_kernel
        and not forwards(inst)
        and (inst.shape.size_bytes > 0 or inst.opcode.side_effect)
    )


def kernel_counts(module: Module) -> Counter[str]:
    """Return how many kernels of each opcode the module has, every computation counted once.

    The totals before and after fusion tell how many instructions fusion has merged.
    """
    return Counter(
        inst.opcode.name
        for computation in control_flow_computations(module)
        for inst in computation.instructions
        if is_kernel(inst)
    )
