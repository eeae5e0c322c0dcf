"""Scatter of windows that are longer than one element along indexed dimensions.

Such windows may overlap at any distance, so a thread has one element of the result: it visits all
windows in order and applies those that cover its element.
"""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.movement.dynamic_update_slice import copy_operand
from hloc.codegen.gpu.emitters.scatter.scatter import set_number, window_loops
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.scatter import combine, first_of_window, fits, window_dimensions
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan any scatter."""
    return GpuPlan(emit) if root_of(inst).is_a("scatter") else None


def emit(w: LaunchWriter) -> None:
    """Write a launch per operand that is copied, and one for the updates."""
    root = root_of(w.inst)
    count = (len(root.operands) - 1) // 2
    for number, operand in enumerate(root.operands[:count]):
        copy_operand(w, operand, number)
    updates, result = root.operands[-1].array, root.operands[0].array
    if not updates.elements:
        return
    outer, _ = window_loops(root)
    windows = prod(updates.dims[d] for d in outer)
    with w.each(result.elements) as (k, thread):
        target = tuple(k.math.in_memory(thread, result))
        with k.body.loop(0, windows) as window:
            at: list[IndexValue] = [0] * updates.rank
            set_number(k, at, outer, window)
            first = first_of_window(k, root.operands[count], [at[d] for d in outer])
            covered = k.body.all_of([fits(k, first), *_covers(k, first, target)])
            with k.body.when(covered):
                for begin, end, d in zip(first, target, window_dimensions(root), strict=True):
                    if d is not None:
                        at[d] = k.math.sub(end, begin)
                combine(k, target, at)


def _covers(k: GpuContext, first: list[IndexValue], target: Index) -> list[Value]:
    """Return the conditions that the window at `first` covers an element."""
    updates = k.root.operands[-1].array
    conditions: list[Value] = []
    for begin, element, d in zip(first, target, window_dimensions(k.root), strict=True):
        inside = k.math.sub(element, begin)
        conditions.append(k.math.compare("GE", inside, 0))
        conditions.append(k.math.compare("LT", inside, updates.dims[d] if d is not None else 1))
    return conditions


EMITTER = Emitter("window-scatter", plan)
