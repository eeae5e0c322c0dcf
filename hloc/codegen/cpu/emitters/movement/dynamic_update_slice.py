"""dynamic-update-slice: only the update is written where the operand's memory is reused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.dynamic_update_slice import first_element, is_in_place
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.lanes import lanes_of, mark_final
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
    _write_rows(k, update, store)
    mark_final(k)


def _write_rows(
    k: KernelContext, update: Instruction, store: Callable[[Sequence[IndexValue], Value], None]
) -> None:
    """Write the update, several elements at a time if possible.

    The last elements of a row that is no whole number of vectors are computed first, in a vector
    that overlaps the one before, and written last: the update may read the elements that it
    changes.
    """
    dims, lanes = update.array.dims, lanes_of(k)
    *slow, last = loop_order(update.array)
    size = dims[last]
    if lanes is None or size < lanes.count:
        k.is_final = False
        with k.body.nest(dims, (*slow, last)) as at:
            store(at, k.read(update, tuple(at)))
        return
    whole = size - size % lanes.count
    with k.body.nest(dims, slow) as at:
        rest = list(at)
        with lanes.inside():
            if whole < size:
                rest[last] = lanes.at(size - lanes.count)
                value = k.read(update, tuple(rest))
        with lanes.loop(0, whole, whole) as at[last]:
            store(at, k.read(update, tuple(at)))
        if whole < size:
            with lanes.inside():
                store(rest, value)


EMITTER = Emitter("dynamic-update-slice", plan, roots=("dynamic-update-slice",))
