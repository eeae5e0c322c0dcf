"""Operands of the root of a fusion: in memory, or computed into scratch memory first.

A contiguous slice of an array in memory is in memory, too.
"""

from __future__ import annotations

from hloc.analysis.dataflow import is_row_major
from hloc.analysis.stored_operand import contiguous_slice, is_widening, reshaped_from
from hloc.codegen.builder.ir_array import IrArray, dense_array
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.remap import start_operands
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.gemm_problem import is_in_memory
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes


def slice_in_memory(operand: Instruction) -> Instruction | None:
    """Return the slice of an array outside that a fused operand is, None if it is computed."""
    found = contiguous_slice(operand)
    return found if found is not None and found.operands[0].is_a("parameter") else None


def narrow_in_memory(operand: Instruction) -> Instruction | None:
    """Return the narrower array or slice in memory that a fused operand widens, None for others."""
    found = reshaped_from(operand)
    if not is_widening(found):
        return None
    source = reshaped_from(found.operands[0])
    is_array = source.is_a("parameter") and is_row_major(source.array)
    return source if is_array else slice_in_memory(source)


def computed_operands(inst: Instruction, *, widens: bool = False) -> list[Instruction]:
    """Return the operands of the root that fused producers compute.

    Args:
        inst: the instruction or fusion.
        widens: the kernel reads narrower arrays itself.
    """
    return [
        operand
        for operand in dict.fromkeys(root_of(inst).operands)
        if not is_in_memory(inst, operand)
        and slice_in_memory(operand) is None
        and not (widens and narrow_in_memory(operand) is not None)
    ]


def operand_bytes(inst: Instruction, *, widens: bool = False) -> int:
    """Return room for the operands of the root that are computed by fused producers."""
    computed = computed_operands(inst, widens=widens)
    return sum(aligned_bytes(operand.array.size_bytes) for operand in computed)


def stored_types(inst: Instruction) -> list[DType]:
    """Return the types in which memory holds the operands, or those in which they are computed."""
    found = []
    for operand in root_of(inst).operands:
        narrow = None if is_in_memory(inst, operand) else narrow_in_memory(operand)
        found.append((operand if narrow is None else narrow).array.dtype)
    return found


def operand_arrays(k: KernelContext, *, widens: bool = False) -> list[IrArray]:
    """Return the operands in memory; those that are computed go to scratch memory first.

    With `widens`, those that widen an array are that array.
    """
    offset = 0
    found: dict[Instruction, IrArray] = {}
    for operand in dict.fromkeys(k.root.operands):
        array = array_of(k, operand, widens=widens)
        if array is None:
            array = k.materialise(operand, offset)
            offset += aligned_bytes(operand.array.size_bytes)
        found[operand] = array
    return [found[operand] for operand in k.root.operands]


def array_of(k: KernelContext, operand: Instruction, *, widens: bool = False) -> IrArray | None:
    """Return the array or slice in memory that `operand` is, None if producers compute it."""
    if k.inst is k.root:
        return k.plain_array(operand)
    narrow = narrow_in_memory(operand) if widens else None
    stored = slice_in_memory(operand) if narrow is None else narrow
    if stored is None:
        return k.plain_array(operand)
    pointer, dtype = _pointer(k, stored), stored.array.dtype
    return dense_array(pointer, dtype, operand.array.dims)


def _pointer(k: KernelContext, stored: Instruction) -> Value:
    """Return the address of an array in memory, or of a contiguous slice of one."""
    is_slice = not stored.is_a("parameter")
    source = k.plain_array(stored.operands[0] if is_slice else stored)
    assert source is not None
    if not is_slice:
        return source.pointer
    first = k.math.value(k.math.linear(_first(k, stored), source.strides))
    return pointer_value(k.b.address(source.pointer, source.dtype, first))


def _first(k: KernelContext, inst: Instruction) -> list[IndexValue]:
    """Return the index of the first element of a slice or dynamic-slice in its operand."""
    if inst.is_a("slice"):
        return [dim.start for dim in inst.attributes.slice]
    rooms = [s - n for s, n in zip(inst.operands[0].array.dims, inst.array.dims, strict=True)]
    return [
        k.math.start_index(k.read(start, place), room) if room else 0
        for (start, place), room in zip(start_operands(inst, 1), rooms, strict=True)
    ]
