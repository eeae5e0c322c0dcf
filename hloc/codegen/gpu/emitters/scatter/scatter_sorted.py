"""Scatter of many windows, sorted by their start, so that windows at one position are adjacent.

The sort is stable, so the updates of an element keep their order. The threads of the first window
at a position, one per element of the window, combine all of them into the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from hloc.codegen.builder.index import row_major_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.movement.dynamic_update_slice import copy_operand
from hloc.codegen.gpu.emitters.scatter.scatter import scatters_points, set_number, window_loops
from hloc.codegen.gpu.emitters.sort.rank_merge import RankMerge, chunk_for, store_all
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.scatter import combine, first_of_window, fits, target_of
from hloc.dtypes import S32, S64
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes

_LEAST_WINDOWS = 1 << 11
"""Minimum number of windows: with fewer, each thread can scan all of them."""

_MOST = (1 << 31) - 1
"""Windows and positions in the operand are s32; one position marks windows out of bounds."""

_PAIR_BYTES = 2 * S32.storage_bytes


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a scatter of many windows that are pairwise equal or disjoint.

    Positions and numbers of all windows are in scratch memory, twice.
    """
    root = root_of(inst)
    if not scatters_points(root):
        return None
    windows = _windows(root)
    if root.operands[0].array.elements >= _MOST or not _LEAST_WINDOWS <= windows <= _MOST:
        return None
    return GpuPlan(partial(emit, windows), scratch_bytes=4 * _room(windows))


def _windows(root: Instruction) -> int:
    updates = root.operands[-1].array
    outer, _ = window_loops(root)
    return prod(updates.dims[d] for d in outer) if updates.elements else 0


def _room(windows: int) -> int:
    return aligned_bytes(windows * S32.storage_bytes)


def emit(windows: int, w: LaunchWriter) -> None:
    """Write a launch per operand that is copied, those of the sort, and one for the updates."""
    root = root_of(w.inst)
    for number, operand in enumerate(root.operands[: (len(root.operands) - 1) // 2]):
        copy_operand(w, operand, number)
    chunk = chunk_for(windows, _PAIR_BYTES)
    chunks = -(-windows // chunk)
    merges = (chunks - 1).bit_length()
    with w.launch((chunks, 1, 1), (chunk, 1, 1)) as k:
        _Windows(k, windows, chunk).sort_chunk()
    for number in range(merges):
        with w.each(windows) as (k, thread):
            _Windows(k, windows, chunk).merge(thread, number)
    with w.each(root.operands[-1].array.elements) as (k, thread):
        _Windows(k, windows, chunk).combine_run(thread, merges)


class _Windows:
    """One launch over pairs of a window's position in the operand and its number."""

    def __init__(self, k: GpuContext, windows: int, chunk: int) -> None:
        self.k, self.windows, self.chunk = k, windows, chunk
        self.shape, self.updates = k.root.operands[0].array, k.root.operands[-1].array
        self.outer, self.inner = window_loops(k.root)

    def _pairs(self, number: int) -> list[IrArray]:
        """Return positions and numbers after `number` merges."""
        room = _room(self.windows)
        first = number % 2 * 2 * room
        return [self.k.scratch_array(first + i * room, S32, (self.windows,)) for i in range(2)]

    def _load(self, arrays: Sequence[IrArray], at: IndexValue) -> list[Value]:
        return [array.load(self.k.math, (at,)) for array in arrays]

    def _less(self, left: Sequence[Value], right: Sequence[Value]) -> Value:
        return self.k.b.compare("LT", left[0], right[0])

    def sort_chunk(self) -> None:
        """Sort some windows in shared memory; those that do not fit come last."""
        k, m = self.k, self.k.math
        thread, first = k.thread("x"), m.mul(k.block_index("x"), self.chunk)
        count = m.minimum(m.sub(self.windows, first), self.chunk)
        inside = m.compare("LT", thread, count)
        arrays = [k.shared_array(S32, (2 * self.chunk,)) for _ in range(2)]
        with k.body.when(inside):
            number = m.value(m.add(first, thread))
            store_all(k, arrays, (thread,), [self._place(number), k.b.convert(number, S32)])
        k.barrier()
        half = RankMerge(k, self._less).sort_block(arrays, self.chunk, thread, count)
        with k.body.when(inside):
            values = self._load(arrays, m.add(thread, half * self.chunk))
            store_all(k, self._pairs(0), (m.add(first, thread),), values)

    def _place(self, window: IndexValue) -> Value:
        """Return the start of a window, the number of elements of the operand if out of bounds."""
        k = self.k
        at: list[IndexValue] = [0] * self.updates.rank
        set_number(k, at, self.outer, window)
        indices = k.root.operands[len(k.outputs)]
        first = first_of_window(k, indices, [at[d] for d in self.outer])
        place = k.math.value(k.math.linear(first, row_major_strides(self.shape.dims)))
        outside = k.math.value(self.shape.elements)
        return k.b.convert(k.b.select(fits(k, first), place, outside), S32)

    def merge(self, thread: IndexValue, number: int) -> None:
        """Move one pair to its position in the merge of two runs."""
        source, target = self._pairs(number), self._pairs(number + 1)
        run = self.chunk << number
        RankMerge(self.k, self._less).place(
            thread,
            run,
            self.windows,
            run.bit_length(),
            lambda at: self._load(source, at),
            lambda at, values: store_all(self.k, target, (at,), values),
        )

    def combine_run(self, thread: IndexValue, merges: int) -> None:
        """Combine one element of all windows at a position, in the threads of the first one."""
        k, m, b = self.k, self.k.math, self.k.b
        elements = self.updates.elements // self.windows
        element, first = m.rem(thread, elements), m.div(thread, elements)
        places, numbers = self._pairs(merges)
        place = places.load(m, (first,))
        before = places.load(m, (m.maximum(m.sub(first, 1), 0),))
        leads = b.or_(m.compare("EQ", first, 0), b.compare("NE", place, before))
        here = b.convert(place, S64)
        with k.body.when(k.body.all_of([leads, m.compare("LT", here, self.shape.elements)])):
            at: list[IndexValue] = [0] * self.updates.rank
            set_number(k, at, self.inner, element)
            target = target_of(k, m.delinear(here, self.shape.dims), at)
            pair = b.allocate(S64)
            b.store(pair, 0, m.value(first))
            with k.body.repeat_while() as run:
                now = b.load(pair, S64, 0)
                clamped = m.minimum(now, self.windows - 1)
                same = b.compare("EQ", places.load(m, (clamped,)), place)
                run.go_on_if(k.body.all_of([m.compare("LT", now, self.windows), same]))
                set_number(k, at, self.outer, b.convert(numbers.load(m, (now,)), S64))
                combine(k, target, at)
                b.store(pair, 0, m.value(m.add(now, 1)))


EMITTER = Emitter("sorted-scatter", plan)
