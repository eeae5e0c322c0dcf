"""Operands of the root of a fusion: in memory, or computed into scratch memory first."""

from __future__ import annotations

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.gemm_problem import is_in_memory
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes


def computed_operands(inst: Instruction) -> list[Instruction]:
    """Return the operands of the root that fused producers compute."""
    operands = root_of(inst).operands
    return [o for o in dict.fromkeys(operands) if not is_in_memory(inst, o)]


def operand_bytes(inst: Instruction) -> int:
    """Return room for the operands of the root that are computed by fused producers."""
    return sum(aligned_bytes(operand.array.size_bytes) for operand in computed_operands(inst))


def operand_arrays(k: KernelContext) -> list[IrArray]:
    """Return the operands in memory; those that are computed go to scratch memory first."""
    arrays: list[IrArray] = []
    offset = 0
    found: dict[Instruction, IrArray] = {}
    for operand in k.root.operands:
        plain = k.plain_array(operand)
        if plain is None and operand not in found:
            found[operand] = k.materialise(operand, offset)
            offset += aligned_bytes(operand.array.size_bytes)
        arrays.append(plain or found[operand])
    return arrays
