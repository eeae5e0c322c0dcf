"""Numbers of a kernel's arguments: leaves of its operands, of its result, then scratch memory."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.shapes import array_leaves


def operand_number(inst: Instruction, operand: Instruction) -> int:
    """Return the argument of an array that the kernel of `inst` reads.

    Args:
        inst: an instruction or a fusion.
        operand: one of its operands, or of the parameters of its fused computation.
    """
    names = inst.called[0].parameters if inst.opcode.name == "fusion" else inst.operands
    position = next(i for i, name in enumerate(names) if name is operand)
    return sum(len(array_leaves(given.shape)) for given in inst.operands[:position])


def result_number(inst: Instruction) -> int:
    """Return the argument of the first array of the result."""
    return sum(len(array_leaves(operand.shape)) for operand in inst.operands)


def scratch_number(inst: Instruction) -> int:
    """Return the argument of scratch memory."""
    return result_number(inst) + len(array_leaves(inst.shape))
