"""How many kernels a module is: the instructions that read and write arrays when it runs.

Fair to modules that other compilers have optimised: a fusion counts once, whatever it holds, and
what moves no bytes does not count.
"""

from __future__ import annotations

from collections import Counter

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import forwards
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module


def is_kernel(inst: Instruction) -> bool:
    """True if `inst` computes or moves bytes when the computation it is in runs.

    False for names of what is there (parameters, tuples, bitcasts) and for loops, branches and
    calls, whose computations count instead.
    """
    return (
        inst.opcode.has_kernel
        and not forwards(inst)
        and (inst.shape.size_bytes > 0 or inst.opcode.side_effect)
    )


def kernel_counts(module: Module) -> Counter[str]:
    """Return how many kernels of each opcode the module has, every computation counted once.

    The sum of the counts of a module before and after fusion tells how much fusion has joined.
    """
    return Counter(
        inst.opcode.name
        for computation in control_flow_computations(module)
        for inst in computation.instructions
        if is_kernel(inst)
    )
