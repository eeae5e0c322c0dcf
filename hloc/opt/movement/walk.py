"""The walk shared by passes that rewrite single instructions."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations, post_order
from hloc.opt.pass_base import PassContext
from hloc.shapes import ArrayShape


def candidates(
    module: Module, context: PassContext, *opcodes: str, users_first: bool = False
) -> Iterator[Instruction]:
    """Yield the live instructions of `opcodes` (all), operands before users.

    Leaves out those with control dependencies or dynamic dimensions, and what is not an array; ends
    when the rewrite limit is reached. Cost: O(instructions).
    """
    for computation in live_computations(module):
        if computation.is_fusion:
            continue
        order = post_order(computation)
        if opcodes:
            order = [inst for inst in order if inst.opcode.name in opcodes]
        pinned = computation.awaited
        for inst in reversed(order) if users_first else order:
            if context.spent:
                return
            if inst in pinned or inst.control_predecessors or inst not in computation:
                continue
            if (inst.users or inst.is_root) and all(map(is_static, (inst, *inst.operands))):
                context.at = inst
                yield inst


def is_static(inst: Instruction) -> bool:
    """True for an array of known size and plain memory."""
    shape = inst.shape
    return (
        isinstance(shape, ArrayShape)
        and not shape.dynamic
        and not shape.dtype.is_special
        and not (shape.layout is not None and shape.layout.has_attributes)
    )


def is_elementwise(inst: Instruction) -> bool:
    """True if each element depends on the operands' elements at its index (or on scalars)."""
    return (
        inst.opcode.elementwise
        and not inst.opcode.side_effect
        and bool(inst.operands)
        and inst.opcode.name not in ("copy", "bitcast-convert")
    )
