"""The walk over a module shared by passes."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.opt.pass_base import PassContext


def each_instruction(module: Module, context: PassContext, *opcodes: str) -> Iterator[Instruction]:
    """Yield the instructions of `opcodes` (all) in every computation; end at the rewrite limit.

    Passes may change computations during the walk: each is a snapshot taken when it is reached.
    """
    for computation in live_computations(module):
        insts = computation.instructions
        for inst in [i for i in insts if i.opcode.name in opcodes] if opcodes else insts:
            if context.spent:
                return
            context.at = inst
            yield inst
