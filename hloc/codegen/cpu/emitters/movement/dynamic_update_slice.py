"""dynamic-update-slice: only the update is written where the operand's memory is reused."""

from __future__ import annotations

from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.elements.remap import start_operands
from hloc.codegen.kernels.context import Emitter, KernelContext, no_scratch, no_split, root_of
from hloc.ir.instruction import Instruction


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a dynamic-update-slice."""
    return root_of(inst).opcode.name == "dynamic-update-slice"


def emit(k: KernelContext) -> None:
    """Copy the operand unless it is there already, then write the update over it."""
    operand, update = k.root.operands[:2]
    first = first_element(k)
    if not is_in_place(k, operand):
        k.copy_array(operand, k.output)
    with k.body.nest(update.array.dims, loop_order(update.array)) as at:
        target = tuple(k.math.add(i, j) for i, j in zip(first, at, strict=True))
        k.output.store(k.math, target, k.read(update, tuple(at)))


def first_element(k: KernelContext) -> list[IndexValue]:
    """Return where the update begins, moved so that it lies inside the operand."""
    operand, update = k.root.operands[:2]
    first: list[IndexValue] = []
    for (start, place), size, count in zip(
        start_operands(k.root, 2), operand.array.dims, update.array.dims, strict=True
    ):
        room = size - count
        first.append(k.math.start_index(k.read(start, place), room) if room else 0)
    return first


def is_in_place(k: KernelContext, operand: Instruction) -> bool:
    """True if `operand` already lies, in the same order, where the result goes."""
    array = k.plain_array(operand)
    shared = k.aliased[0]
    return array is not None and shared is not None and array is k.inputs[shared]


EMITTER = Emitter("dynamic-update-slice", can_emit, emit, no_split, no_scratch)
