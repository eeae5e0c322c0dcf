"""Concatenate: one loop nest per operand, so that no element has to ask where it comes from."""

from __future__ import annotations

from hloc.codegen.emitters.context import Emitter, KernelContext, no_scratch, no_split, root_of
from hloc.codegen.index import loop_order
from hloc.ir.instruction import Instruction


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a concatenate."""
    return root_of(inst).opcode.name == "concatenate"


def emit(k: KernelContext) -> None:
    """Write the operands one after another."""
    dim = k.root.attributes.dimensions[0]
    first = 0
    for operand in k.root.operands:
        shape = operand.array.with_layout(k.root.array.layout)
        with k.body.nest(shape.dims, loop_order(shape)) as at:
            index = tuple(at)
            target = (*index[:dim], k.math.add(index[dim], first), *index[dim + 1 :])
            k.output.store(k.math, target, k.read(operand, index))
        first += shape.dims[dim]


EMITTER = Emitter("concatenate", can_emit, emit, no_split, no_scratch)
