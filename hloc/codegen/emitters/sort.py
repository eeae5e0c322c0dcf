"""Sort: a stable bottom-up merge sort of each row in scratch memory.

Runs of eight are made by insertion, then merged back and forth between two buffers. Positions never
depend on the comparator being consistent, so NaN or a broken order cannot leave a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hloc.codegen.emitters.context import Emitter, KernelContext, no_split, root_of
from hloc.codegen.index import loop_order
from hloc.codegen.ir_array import IrArray, dense_array
from hloc.codegen.loops import IndexValue
from hloc.codegen.scalar_builder import pointer_value
from hloc.codegen.values import Value
from hloc.dtypes import S64, U8, DType
from hloc.ir.instruction import Instruction

RUN = 8
"""Length of the runs that insertion makes."""

Comparator: TypeAlias = Callable[[Sequence[Value], Sequence[Value]], Value]
"""`less(left, right)` on the elements of all arrays at two places."""


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a sort."""
    return root_of(inst).opcode.name == "sort"


def row_bytes(dtype: DType, size: int) -> int:
    """Return the bytes of a row in scratch memory."""
    return (size * dtype.storage_bytes + 63) // 64 * 64


def _size(root: Instruction) -> int:
    dim: int = root.attributes.dimensions[0]
    return root.operands[0].array.dims[dim]


def scratch_bytes(inst: Instruction) -> int:
    """Return two rows per operand."""
    root = root_of(inst)
    return 2 * sum(row_bytes(operand.array.dtype, _size(root)) for operand in root.operands)


def emit(k: KernelContext) -> None:
    """Sort row by row."""
    dim = k.root.attributes.dimensions[0]
    shape = k.root.operands[0].array
    order = [d for d in loop_order(shape) if d != dim]
    dtypes = [operand.array.dtype for operand in k.root.operands]
    sorter = RowSorter(k, dtypes, shape.dims[dim], _comparator(k))
    with k.body.nest(shape.dims, order) as at:
        rows = sorter.buffers(0)
        with k.body.loop(0, sorter.size) as i:
            index = (*at[:dim], i, *at[dim + 1 :])
            values = [k.read(operand, index) for operand in k.root.operands]
            for array, value in zip(rows, values, strict=True):
                array.store(k.math, (i,), value)
        sorter.make_runs(rows)
        sorter.merge_runs()
        rows = sorter.buffers(sorter.half)
        with k.body.loop(0, sorter.size) as i:
            index = (*at[:dim], i, *at[dim + 1 :])
            for array, output in zip(rows, k.outputs, strict=True):
                output.store(k.math, index, array.load(k.math, (i,)))


def _comparator(k: KernelContext) -> Comparator:
    """Return the called computation; it takes the pairs of the operands in turn."""

    def less(left: Sequence[Value], right: Sequence[Value]) -> Value:
        arguments = [v for pair in zip(left, right, strict=True) for v in pair]
        return k.g.inline(k.root.called[0], arguments)[0]

    return less


class RowSorter:
    """Writes the steps of one row; the two buffers are the halves of the scratch memory.

    Slots: 0 and 1 are positions in the runs being merged, 2 is the length of the runs, 3 is the
    half that holds the row.
    """

    def __init__(
        self, k: KernelContext, dtypes: Sequence[DType], size: int, less: Comparator
    ) -> None:
        self.k, self.b, self.math, self.body, self.size = k, k.b, k.math, k.body, size
        self.dtypes, self._less = dtypes, less
        self.slots = [k.b.allocate(S64) for _ in range(4)]
        self.half_bytes = sum(row_bytes(dtype, size) for dtype in dtypes)

    @property
    def half(self) -> IndexValue:
        """The half that holds the row, 0 or 1."""
        return self._get(3)

    def buffers(self, half: IndexValue) -> list[IrArray]:
        """Return the rows of all operands in one half of the scratch memory."""
        position = self.math.mul(half, self.half_bytes)
        arrays = []
        for dtype in self.dtypes:
            pointer = pointer_value(self.b.address(self.k.scratch, U8, position))
            arrays.append(dense_array(pointer, dtype, (self.size,)))
            position = self.math.add(position, row_bytes(dtype, self.size))
        return arrays

    def _get(self, slot: int) -> Value:
        return self.b.load(self.slots[slot], S64, 0)

    def _set(self, slot: int, value: IndexValue) -> None:
        self.b.store(self.slots[slot], 0, self.math.value(value))

    def _load(self, arrays: Sequence[IrArray], at: IndexValue) -> list[Value]:
        return [array.load(self.math, (at,)) for array in arrays]

    def _store(self, arrays: Sequence[IrArray], at: IndexValue, values: Sequence[Value]) -> None:
        for array, value in zip(arrays, values, strict=True):
            array.store(self.math, (at,), value)

    def make_runs(self, arrays: Sequence[IrArray]) -> None:
        """Sort every stretch of `RUN` elements by insertion."""
        m, body = self.math, self.body
        with body.loop(0, self.size, RUN) as first:
            stop = m.minimum(m.add(first, RUN), self.size)
            with body.loop(m.add(first, 1), stop) as i:
                key = self._load(arrays, i)
                self._set(0, i)
                with body.repeat_while() as head:
                    j = self._get(0)
                    head.go_on_if(m.compare("GT", j, first))
                    before = m.sub(j, 1)
                    previous = self._load(arrays, before)
                    head.go_on_if(self._less(key, previous))
                    self._store(arrays, j, previous)
                    self._set(0, before)
                self._store(arrays, self._get(0), key)

    def merge_runs(self) -> None:
        """Double the length of the runs until one is left."""
        m = self.math
        self._set(2, RUN)
        self._set(3, 0)
        with self.body.repeat_while() as head:
            width = self._get(2)
            head.go_on_if(m.compare("LT", width, self.size))
            half = self._get(3)
            other = m.sub(1, half)
            twice = m.add(width, width)
            self._merge_pass(self.buffers(half), self.buffers(other), width, twice)
            self._set(2, twice)
            self._set(3, other)

    def _merge_pass(
        self,
        source: Sequence[IrArray],
        target: Sequence[IrArray],
        width: IndexValue,
        twice: IndexValue,
    ) -> None:
        """Merge neighbouring runs of `width` from `source` into `target`."""
        m, b, body = self.math, self.b, self.body
        with body.loop(0, self.size, twice) as first:
            middle = m.minimum(m.add(first, width), self.size)
            stop = m.minimum(m.add(first, twice), self.size)
            self._set(0, first)
            self._set(1, middle)
            with body.loop(first, stop) as out:
                i, j = self._get(0), self._get(1)
                left_done = m.compare("GE", i, middle)
                right_done = m.compare("GE", j, stop)
                # Where a run is used up its last element is compared, and not taken.
                left = self._load(source, m.minimum(i, m.sub(middle, 1)))
                right = self._load(source, m.minimum(j, m.sub(stop, 1)))
                less = self._less(right, left)
                right_left = b.xor(right_done, b.const(less.dtype, True))
                take_right = b.and_(b.or_(left_done, less), right_left)
                chosen = [b.select(take_right, y, x) for x, y in zip(left, right, strict=True)]
                self._store(target, out, chosen)
                one = b.convert(take_right, S64)
                self._set(1, b.iadd(j, one))
                self._set(0, b.iadd(i, b.isub(b.const(S64, 1), one)))


EMITTER = Emitter("sort", can_emit, emit, no_split, scratch_bytes)
