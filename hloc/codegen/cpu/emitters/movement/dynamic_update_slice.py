"""dynamic-update-slice: only the update is written where the operand's memory is reused."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.movement.rows import write_row
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.dynamic_update_slice import first_element, is_in_place
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.lanes import mark_final
from hloc.codegen.kernels.unrolling import is_unrolled, write_elements
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a dynamic-update-slice; it runs on one thread."""
    return KernelPlan(_emit)


def _emit(k: KernelContext) -> None:
    """Copy the operand unless it is there already, then write the update over it."""
    operand, update = k.root.operands[:2]
    first = first_element(k)
    if not is_in_place(k, operand):
        k.is_final = False
        k.copy_array(operand, k.output)

    def store(at: Sequence[IndexValue], value: Value) -> None:
        place = tuple(k.math.add(i, j) for i, j in zip(first, at, strict=True))
        k.output.store(k.math, place, value)

    members = k.inst.called[0].instructions if k.inst.is_a("fusion") else ()
    if is_unrolled(update.array, members):
        write_elements(
            [update.array],
            lambda _, at: k.read(update, at),
            lambda _, at, value: store(at, value),
        )
        return
    dims, (*slow, last) = update.array.dims, loop_order(update.array)
    with k.body.nest(dims, slow) as at:
        write_row(k, update, last, at, store)
    mark_final(k)
