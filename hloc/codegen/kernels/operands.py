"""Operands of the root of a fusion: in memory, or computed into scratch memory first.

A contiguous slice of an array in memory is in memory, too.
"""

from __future__ import annotations

from hloc.analysis.contiguous_slice import contiguous_slice
from hloc.codegen.builder.ir_array import IrArray, dense_array
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.elements.remap import start_operands
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.gemm_problem import is_in_memory
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes


def slice_in_memory(operand: Instruction) -> Instruction | None:
    """Return the slice of an array outside that a fused operand is, None if it is computed."""
    found = contiguous_slice(operand)
    return found if found is not None and found.operands[0].is_a("parameter") else None


def computed_operands(inst: Instruction) -> list[Instruction]:
    """Return the operands of the root that fused producers compute."""
    operands = dict.fromkeys(root_of(inst).operands)
    return [o for o in operands if not is_in_memory(inst, o) and slice_in_memory(o) is None]


def operand_bytes(inst: Instruction) -> int:
    """Return room for the operands of the root that are computed by fused producers."""
    return sum(aligned_bytes(operand.array.size_bytes) for operand in computed_operands(inst))


def operand_arrays(k: KernelContext) -> list[IrArray]:
    """Return the operands in memory; those that are computed go to scratch memory first."""
    offset = 0
    found: dict[Instruction, IrArray] = {}
    for operand in dict.fromkeys(k.root.operands):
        array = array_of(k, operand)
        if array is None:
            array = k.materialise(operand, offset)
            offset += aligned_bytes(operand.array.size_bytes)
        found[operand] = array
    return [found[operand] for operand in k.root.operands]


def array_of(k: KernelContext, operand: Instruction) -> IrArray | None:
    """Return the array or slice in memory that `operand` is, None if producers compute it."""
    found = None if k.inst is k.root else slice_in_memory(operand)
    if found is None:
        return k.plain_array(operand)
    source = k.plain_array(found.operands[0])
    assert source is not None
    first = k.math.value(k.math.linear(_first(k, found), source.strides))
    pointer = k.b.address(source.pointer, source.dtype, first)
    return dense_array(pointer_value(pointer), operand.array.dtype, operand.array.dims)


def _first(k: KernelContext, inst: Instruction) -> list[IndexValue]:
    """Return the index of the first element of a slice or dynamic-slice in its operand."""
    if inst.is_a("slice"):
        return [dim.start for dim in inst.attributes.slice]
    rooms = [s - n for s, n in zip(inst.operands[0].array.dims, inst.array.dims, strict=True)]
    return [
        k.math.start_index(k.read(start, place), room) if room else 0
        for (start, place), room in zip(start_operands(inst, 1), rooms, strict=True)
    ]
