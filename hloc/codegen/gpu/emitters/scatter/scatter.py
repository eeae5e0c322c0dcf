"""Scatter: each element of the result has one thread that combines all its updates in order.

Threads share the elements of a window and, by the start of windows, the windows: a thread reads all
indices and applies the windows that it owns. All updates of an element are thus applied by one
thread: no atomics, and the order of the updates is kept.
"""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.index import row_major_strides
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.movement.dynamic_update_slice import copy_operand
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.scatter import (
    combine,
    first_of_window,
    fits,
    target_of,
    window_dimensions,
)
from hloc.ir.instruction import Instruction
from hloc.shapes import ArrayShape

_THREADS = 1 << 14
"""Target total of threads."""

_MOST_OWNERS = 1 << 10
"""Maximum threads that share the windows: each reads all indices."""


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a scatter of points."""
    return GpuPlan(emit) if scatters_points(root_of(inst)) else None


def scatters_points(root: Instruction) -> bool:
    """True for a scatter whose windows have size 1 along all indexed dimensions."""
    if root.opcode.name != "scatter":
        return False
    a, updates = root.attributes, _updates(root)
    dims = window_dimensions(root)
    return all(
        dims[dim] is None or updates.dims[dims[dim]] == 1 for dim in a.scatter_dims_to_operand_dims
    )


def _updates(root: Instruction) -> ArrayShape:
    return root.operands[-1].array


def _owners(windows: int, elements: int, operand: ArrayShape) -> int:
    """Return the number of threads that share the windows, per element of a window."""
    wanted = max(_THREADS // max(elements, 1), 1)
    return min(wanted, _MOST_OWNERS, windows, max(operand.elements // max(elements, 1), 1))


def emit(w: LaunchWriter) -> None:
    """Write a launch per operand that is copied, and one for the updates."""
    root = root_of(w.inst)
    count = (len(root.operands) - 1) // 2
    for number, operand in enumerate(root.operands[:count]):
        copy_operand(w, operand, number)
    updates = _updates(root)
    if not updates.elements:
        return
    outer, inner = window_loops(root)
    elements = prod(updates.dims[d] for d in inner)
    windows = updates.elements // elements
    owners = _owners(windows, elements, root.operands[0].array)
    with w.each(elements * owners) as (k, thread):
        m = k.math
        element, owner = m.rem(thread, elements), m.div(thread, elements)
        at: list[IndexValue] = [0] * updates.rank
        set_number(k, at, inner, element)
        with k.body.loop(0, windows) as window:
            set_number(k, at, outer, window)
            first = first_of_window(k, root.operands[count], [at[d] for d in outer])
            mine = k.body.all_of([fits(k, first), *_is_owner(k, root, first, owner, owners)])
            with k.body.when(mine):
                combine(k, target_of(k, first, at), at)


def window_loops(root: Instruction) -> tuple[list[int], list[int]]:
    """Return the dimensions of the updates that enumerate windows, and those within a window."""
    inner = [d for d in range(_updates(root).rank) if d in root.attributes.update_window_dims]
    return [d for d in range(_updates(root).rank) if d not in inner], inner


def set_number(k: GpuContext, at: list[IndexValue], dims: list[int], number: IndexValue) -> None:
    """Put number `number` of the loops over `dims` into index `at` of the updates."""
    sizes = [_updates(k.root).dims[d] for d in dims]
    for dim, position in zip(dims, k.math.delinear(number, sizes), strict=True):
        at[dim] = position


def _is_owner(
    k: GpuContext, root: Instruction, first: list[IndexValue], owner: IndexValue, owners: int
) -> list[Value]:
    """Return the condition that the thread owns the window at `first`."""
    if owners == 1:
        return []
    place = k.math.linear(first, row_major_strides(root.operands[0].array.dims))
    return [k.math.compare("EQ", k.math.rem(place, owners), owner)]


EMITTER = Emitter("scatter", plan)
