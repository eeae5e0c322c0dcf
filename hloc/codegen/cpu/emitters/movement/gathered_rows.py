"""Rows that are gathered from a table: start indices are loaded once a row, later rows prefetched.

Without that every vector of a row loads the indices again, since the stores between might change
them; and the processor cannot foresee which row comes next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.shared_values import with_same_index
from hloc.codegen.elements.remap import gather_starts, gather_window
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.lanes import lanes_of
from hloc.dtypes import S64, DType
from hloc.ir.instruction import Instruction

_AHEAD = 4
"""How many rows later a row is that is prefetched, vector by vector while a row is written.

Time relative to no prefetching, AVX2: 0.72 for 4096 rows of f32[50257,256], 0.80 for 2048 of
bf16[50257,512], 0.86 for 8192 of f32[100000,16]; 1.0 if the rows are in the third-level cache. Two
rows take 0.87 for the first, eight 0.79.
"""


class GatheredRows:
    """Writes what gathers add to the loops of a kernel."""

    def __init__(self, k: KernelContext, dims: tuple[int, ...], order: Sequence[int]) -> None:
        """Find the gathers.

        Args:
            k: the kernel; results in place have no such code, since they may overwrite indices, nor
                have rows shorter than a vector, which are left to LLVM.
            dims: sizes of the result.
            order: the loops over it, slowest first.
        """
        self.k, self.order = k, order
        lanes, is_apart = lanes_of(k), all(shared is None for shared in k.aliased)
        has_rows = len(order) > 1 and lanes is not None and dims[order[-1]] >= lanes.count
        may_prefetch = has_rows and is_apart
        self._gathers = list(gathers_of(k, k.root, dims, order[-1])) if may_prefetch else []
        self._later: list[tuple[str, DType]] = []

    def start(self, index: Sequence[IndexValue]) -> None:
        """Before the row at `index`, load what all its elements need."""
        self._later.clear()
        for gather in self._gathers:
            if gather.operands[0].array.elements:
                _load_starts(self.k, gather, tuple(index))
                self._find_later(gather, tuple(index))

    def prefetch(self, index: Sequence[IndexValue]) -> None:
        """Prefetch later rows at the position of `index` along the row."""
        b = self.k.b
        for start, dtype in self._later:
            at = Value(S64, self.k.math.value(index[self.order[-1]]).text)
            b.prefetch_at(b.address(pointer_value(start), dtype, at), 1)

    def _find_later(self, gather: Instruction, index: Index) -> None:
        """Find a later row, unless the table fits a cache."""
        k, dim, last = self.k, self.order[-2], self.order[-1]
        rows = gather.array.dims[dim]
        if rows <= _AHEAD:
            return
        later = k.math.minimum(k.math.add(index[dim], _AHEAD), rows - 1)
        start = row_in_memory(k, gather, (*index[:dim], later, *index[dim + 1 :]), last)
        if start is not None:
            self._later.append((start, gather.operands[0].array.dtype))


def row_in_memory(k: KernelContext, gather: Instruction, index: Index, last: int) -> str | None:
    """Return the address of the row along `last` that a gather reads for an index.

    None if the table is not in memory, or not contiguous along rows, or fits a cache. The start is
    not clamped: prefetching from anywhere does no harm.
    """
    table = _table(k, gather)
    if table is None or gather.operands[0].array.size_bytes <= k.target.l2_bytes:
        return None
    step = gather_window(gather, tuple(int(d == last) for d in range(len(index))))
    if k.math.linear(step, table.strides) != 1:
        return None
    at = gather_window(gather, index)
    for row, _, place in gather_starts(gather, index):
        value = k.g.element(k.frame, gather.operands[1], place)
        at[row] = k.math.add(at[row], k.b.convert(value, S64))
    return k.b.address(table.pointer, table.dtype, k.math.linear(at, table.strides))


def gathers_of(
    k: KernelContext, value: Instruction, dims: tuple[int, ...], last: int
) -> Iterator[Instruction]:
    """Yield gathers of whole rows along `last`, of which elements have the indices of `value`."""
    for inst in with_same_index(k, value, dims):
        if inst.is_a("gather") and last in inst.attributes.offset_dims:
            yield inst


def _table(k: KernelContext, gather: Instruction) -> IrArray | None:
    """Return the operand of a gather, None if it is not in memory."""
    source = k.frame.sources.get(gather.operands[0])
    return source[0] if isinstance(source, list) else None


def _load_starts(k: KernelContext, gather: Instruction, index: Index) -> None:
    """Load the start indices of a row, which the element generator keeps."""
    for _, _, place in gather_starts(gather, index):
        k.g.element(k.frame, gather.operands[1], place)
