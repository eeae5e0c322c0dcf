"""dynamic-update-slice: a launch that copies the operand, if necessary, and one for the update."""

from __future__ import annotations

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.dynamic_update_slice import first_element
from hloc.codegen.kernels.emitter import Emitter
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a dynamic-update-slice."""
    return GpuPlan(emit) if root_of(inst).is_a("dynamic-update-slice") else None


def emit(w: LaunchWriter) -> None:
    """Write the launches."""
    operand, update = root_of(w.inst).operands[:2]
    copy_operand(w, operand, 0)
    if not update.array.elements:
        return
    with w.each(update.array.elements) as (k, thread):
        first = first_element(k)
        at = tuple(k.math.in_memory(thread, update.array))
        target = tuple(k.math.add(i, j) for i, j in zip(first, at, strict=True))
        k.output.store(k.math, target, k.read(update, at))


def copy_operand(w: LaunchWriter, operand: Instruction, number: int) -> None:
    """Emit a launch that copies `operand` to result `number`, unless they share memory."""
    shape = operand.array
    if w.is_in_place(operand, number) or not shape.elements:
        return
    with w.each(shape.elements) as (k, thread):
        index = tuple(k.math.in_memory(thread, shape))
        k.outputs[number].store(k.math, index, k.read(operand, index))


EMITTER = Emitter("dynamic-update-slice", plan)
