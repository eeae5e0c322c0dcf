"""select-and-scatter: each window selects one element and adds its source value there."""

from __future__ import annotations

from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import window_position
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.dtypes import PRED, S64
from hloc.ir.attributes import Window
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a select-and-scatter; it runs on one thread."""
    return KernelPlan(_emit)


def _emit(k: KernelContext) -> None:
    """Fill with the initial value, then scatter window by window."""
    operand, source, start = k.root.operands
    first = k.read(start, ())
    with k.body.nest(k.output.dims, loop_order(k.root.array)) as at:
        k.output.store(k.math, tuple(at), first)
    found, best = k.b.allocate(PRED), k.b.allocate(operand.array.dtype)
    place = [k.b.allocate(S64) for _ in operand.array.dims]
    with k.body.nest(source.array.dims, loop_order(source.array)) as at:
        select_in_window(k, tuple(at), found, best, place)
        with k.body.when(k.b.load(found, PRED, 0)):
            target = tuple(k.b.load(slot, S64, 0) for slot in place)
            update = k.read(source, tuple(at))
            value = k.g.inline(k.root.called[1], [update, k.output.load(k.math, target)])[0]
            k.output.store(k.math, target, k.b.convert(value, k.output.dtype))


def select_in_window(
    k: KernelContext, window_index: Index, found: Value, best: Value, place: list[Value]
) -> None:
    """Find the element of a window that the `select` computation prefers; the first one stays.

    Args:
        k: the kernel.
        window_index: the window.
        found: slot for whether the window has an element.
        best: slot for the element.
        place: slots for its index.
    """
    k.b.store(found, 0, k.b.const(PRED, False))
    for slot in place:
        k.b.store(slot, 0, k.b.const(S64, 0))
    operand = k.root.operands[0]
    window = (k.root.attributes.window or Window()).dimensions
    sizes = [d.size for d in window]
    order = [d for d in range(len(sizes)) if sizes[d] != 1]
    with k.body.nest(sizes, order) as within:
        at, inside = window_position(k.g, operand.array, window, window_index, within)
        with k.body.when(inside):
            new = k.read(operand, at)
            started = k.b.load(found, PRED, 0)
            # Before the first element the kept value is arbitrary; the flag decides then.
            kept = k.b.select(started, k.b.load(best, operand.array.dtype, 0), new)
            keeps = k.b.and_(started, k.g.inline(k.root.called[0], [kept, new])[0])
            k.b.store(best, 0, k.b.select(keeps, kept, new))
            for slot, position in zip(place, at, strict=True):
                old = k.b.load(slot, S64, 0)
                k.b.store(slot, 0, k.b.select(keeps, old, k.math.value(position)))
            k.b.store(found, 0, k.b.const(PRED, True))


EMITTER = Emitter("select-and-scatter", plan, roots=("select-and-scatter",))
