"""dynamic-update-slice: the start of the update, and whether the operand is already in place."""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.elements.remap import start_operands
from hloc.codegen.kernels.context import KernelContext
from hloc.ir.instruction import Instruction


def first_element(k: KernelContext) -> list[IndexValue]:
    """Return the start indices, clamped so that the update lies inside the operand."""
    operand, update = k.root.operands[:2]
    first: list[IndexValue] = []
    for (start, place), size, count in zip(
        start_operands(k.root, 2), operand.array.dims, update.array.dims, strict=True
    ):
        room = size - count
        first.append(k.math.start_index(k.read(start, place), room) if room else 0)
    return first


def is_in_place(k: KernelContext, operand: Instruction) -> bool:
    """True if `operand` shares the memory and the layout of the result."""
    array = k.plain_array(operand)
    shared = k.aliased[0]
    return array is not None and shared is not None and array is k.inputs[shared]
