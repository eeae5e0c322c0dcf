"""select-and-scatter: one launch finds the element each window selects, one sums by element.

The thread of an element visits the windows that cover it, in order, and adds the source values of
those that selected it: no atomics, and a deterministic order.
"""

from __future__ import annotations

from contextlib import ExitStack

from hloc.codegen.builder.index import Index, loop_order, row_major_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.select_and_scatter import select_in_window
from hloc.dtypes import PRED, S64
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction

_NOTHING = -1
"""Marks a window that is completely in the padding: it selects nothing."""


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a select-and-scatter without dilation; scratch memory has the selection per window."""
    root = root_of(inst)
    if not root.is_a("select-and-scatter"):
        return None
    if any(d.window_dilation != 1 or d.base_dilation != 1 for d in _window(root)):
        return None
    windows = max(1, root.operands[1].array.elements)  # scratch memory of 0 bytes is no argument
    return GpuPlan(emit, scratch_bytes=windows * S64.storage_bytes)


def _window(root: Instruction) -> tuple[WindowDimension, ...]:
    window = root.attributes.window or Window()
    return window.dimensions or (WindowDimension(1),) * root.array.rank


def emit(w: LaunchWriter) -> None:
    """Write both launches."""
    root = root_of(w.inst)
    source = root.operands[1].array
    if source.elements:
        with w.each(source.elements) as (k, thread):
            _select(k, tuple(k.math.delinear(thread, source.dims)))
    with w.each(root.array.elements) as (k, thread):
        _add_up(k, tuple(k.math.in_memory(thread, root.array)))


def _selected(k: GpuContext) -> IrArray:
    """Return the array of the numbers of the selected elements, by window."""
    return k.scratch_array(0, S64, k.root.operands[1].array.dims)


def _select(k: GpuContext, window: Index) -> None:
    """Write the number of the element that a window selects."""
    operand = k.root.operands[0].array
    selected, best = k.b.allocate(PRED), k.b.allocate(operand.dtype)
    place = [k.b.allocate(S64) for _ in operand.dims]
    select_in_window(k, window, selected, best, place)
    at = [k.b.load(slot, S64, 0) for slot in place]
    number = k.math.value(k.math.linear(at, row_major_strides(operand.dims)))
    number = k.b.select(k.b.load(selected, PRED, 0), number, k.b.const(S64, _NOTHING))
    _selected(k).store(k.math, window, number)


def _add_up(k: GpuContext, index: Index) -> None:
    """Write one element of the result."""
    _, source, start = k.root.operands
    dtype, output = k.root.array.dtype, k.output
    me = k.math.linear(index, row_major_strides(output.dims))
    total = k.b.allocate(dtype)
    k.b.store(total, 0, k.read(start, ()))
    window: list[IndexValue] = [0] * len(index)
    with ExitStack() as loops:
        for dim in loop_order(source.array):
            first, end = _covering(k, _window(k.root)[dim], index[dim], source.array.dims[dim])
            window[dim] = loops.enter_context(k.body.loop(first, end))
        taken = _selected(k).load(k.math, tuple(window))
        loops.enter_context(k.body.when(k.math.compare("EQ", taken, me)))
        new = k.read(source, tuple(window))
        (value,) = k.g.inline(k.root.called[1], [new, k.b.load(total, dtype, 0)])
        k.b.store(total, 0, k.b.convert(value, dtype))
    output.store(k.math, index, k.b.load(total, dtype, 0))


def _covering(
    k: GpuContext, d: WindowDimension, at: IndexValue, windows: int
) -> tuple[IndexValue, IndexValue]:
    """Return the range of windows that cover position `at`."""
    m = k.math
    padded = m.add(at, d.pad_low)
    first = m.div(_not_negative(k, m.add(padded, d.stride - d.size)), d.stride)
    end = m.div(_not_negative(k, m.add(padded, d.stride)), d.stride)
    return first, m.minimum(end, windows)


def _not_negative(k: GpuContext, x: IndexValue) -> IndexValue:
    return k.math.maximum(x, 0)


EMITTER = Emitter("select-and-scatter", plan)
