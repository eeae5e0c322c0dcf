"""dynamic-update-slice: only the update is written where the operand's memory is reused."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.cpu_plan import CpuPlan
from hloc.codegen.cpu.emitters.movement.rows import write_row
from hloc.codegen.cpu.split_kernel import moved_nanoseconds
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.dynamic_update_slice import first_element, is_in_place
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.lanes import mark_final
from hloc.codegen.kernels.unrolling import is_unrolled, write_elements
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a dynamic-update-slice; threads share the operand where it is copied."""
    root = root_of(inst)
    operand, update = root.operands[:2]
    slowest = loop_order(root.array)[:1]
    if not _inner(update, slowest):
        return KernelPlan(_emit)
    # The cost of the instruction alone is that of the update in place.
    copied = 0 if inst.is_a("fusion") else moved_nanoseconds(2 * operand.array.size_bytes)
    extent = root.array.dims[slowest[0]]
    return CpuPlan(_emit, apart=KernelPlan(_emit_apart, extent, nanoseconds=copied))


def _emit(k: KernelContext) -> None:
    """Copy the operand unless it is there already, then write the update over it."""
    operand, update = k.root.operands[:2]
    first = first_element(k)
    if not is_in_place(k, operand):
        k.is_final = False
        k.copy_array(operand, k.output)
    members = k.inst.called[0].instructions if k.inst.is_a("fusion") else ()
    if is_unrolled(update.array, members):
        write_elements(
            [update.array],
            lambda _, at: k.read(update, at),
            lambda _, at, value: _store(k, first, at, value),
        )
        return
    _write_rows(k, first, loop_order(update.array))


def _emit_apart(k: KernelContext) -> None:
    """Copy the kernel's part of the operand, then write what of the update lies there."""
    operand, update = k.root.operands[:2]
    order = loop_order(k.root.array)
    first, slowest = first_element(k), order[0]
    k.is_final = False
    k.copy_array(operand, k.output, order, (k.begin, k.end))
    within = [k.math.sub(x, first[slowest]) for x in (k.begin, k.end)]
    begin, end = (k.math.clamp(x, update.array.dims[slowest]) for x in within)
    _write_rows(k, first, [slowest, *_inner(update, [slowest])], (begin, end))


def _inner(update: Instruction, slowest: Sequence[int]) -> list[int]:
    """Return the loops over an update inside of that over `slowest`, outermost first."""
    return [d for d in loop_order(update.array) if d not in slowest] if slowest else []


def _write_rows(
    k: KernelContext,
    first: Sequence[IndexValue],
    order: Sequence[int],
    first_range: tuple[IndexValue, IndexValue] | None = None,
) -> None:
    """Write the rows of the update, or those within a range of the outermost of its loops."""
    update = k.root.operands[1]
    *slow, last = order
    with k.body.nest(update.array.dims, slow, first_range) as at:
        write_row(k, update, last, at, lambda at, value: _store(k, first, at, value))
    mark_final(k)


def _store(
    k: KernelContext, first: Sequence[IndexValue], at: Sequence[IndexValue], value: Value
) -> None:
    place = tuple(k.math.add(i, j) for i, j in zip(first, at, strict=True))
    k.output.store(k.math, place, value)
