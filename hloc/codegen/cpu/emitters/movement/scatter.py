"""Scatter: windows of updates are combined into a copy of the operands, one after another.

A window that is not completely in bounds is skipped. Threads share the slowest dimension of the
windows: each goes through all of them, and combines its pieces of each. So every element receives
its updates in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod

from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.movement.gathered_rows import gathers_of, row_in_memory
from hloc.codegen.elements.reductions import plain_reducer
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.scatter import (
    combine,
    first_of_window,
    fits,
    target_of,
    window_dimensions,
)
from hloc.dtypes import C64, C128, F32, F64, S32, DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES
from hloc.ops.folding import LONG_SUM

MAX_TOTAL_BYTES = 1 << 25
"""Most scratch memory for totals in f64."""

_WORTH_COUNTING = 8
"""Least elements of a window for which counting the windows costs less than totals in f64."""

_PIECE_BYTES, LEAST_SHARED_BYTES = 2 * CACHE_LINE_BYTES, 1 << 20
"""Fewest bytes of a window that a thread updates, and of an array that threads share.

In the cache of one core pieces take longer than windows: 1.09 for 40,000 rows of f32[300,64].
"""

_AHEAD, _MOST_AHEAD_BYTES = 8, 1 << 12
"""How many windows later a window is whose memory is prefetched, and most bytes of one.

Time relative to no prefetching, AVX2: 0.73 for 88,648 rows of f32[19717,128] that are gathered,
0.82 for f32[19717,16], 0.84 for 50,000 rows of f32[100000,32]; 1.0 for 4,096 of f32[50257,768].
"""

_WINDOW_BYTES = 16
"""Bytes that are copied in the time of finding a window, or of counting it."""


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The equal pieces of every window that threads share.

    Attributes:
        dim: the dimension of the operand that is divided.
        count: number of pieces, 1 if windows are not divided.
        size: steps along the dimension of a piece.
    """

    dim: int
    count: int
    size: int

    def part(self, k: KernelContext) -> tuple[IndexValue, IndexValue]:
        """Return the pieces of a thread: the first, and the one after the last."""
        return (0, 1) if self.count == 1 else (k.begin, k.end)

    def dims(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes of a piece of an array."""
        return tuple(size if d != self.dim else self.size for d, size in enumerate(dims))

    def at(self, k: KernelContext, piece: IndexValue, index: Sequence[IndexValue]) -> Index:
        """Return the place in the array of an index within a piece."""
        first = k.math.mul(piece, self.size)
        return tuple(k.math.add(first, i) if d == self.dim else i for d, i in enumerate(index))

    def within(self, k: KernelContext, piece: IndexValue, index: Sequence[IndexValue]) -> Index:
        """Return the place in a piece of an index in the array."""
        first = k.math.mul(piece, self.size)
        return tuple(k.math.sub(i, first) if d == self.dim else i for d, i in enumerate(index))


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a scatter.

    If many float updates may be added to one element, the sums are in f64 in scratch memory. Where
    updates are whole rows, the kernel counts those of each row first: in graphs and in gradients of
    embeddings few meet, although there are many.
    """
    root = root_of(inst)
    pieces, windows = _pieces(root), _windows(root)
    extent = pieces.count
    repeated = windows * _WINDOW_BYTES if extent > 1 else 0
    total = _total_dtype(root.operands[0].array.dtype)
    size_bytes = root.operands[0].array.elements // extent * total.storage_bytes
    if not _is_long_sum(root, windows) or size_bytes > MAX_TOTAL_BYTES:
        return KernelPlan(partial(_emit, pieces), extent, repeated_bytes=repeated)
    rows = _rows(root)
    if rows is None:
        return KernelPlan(partial(_emit_in_f64, total, pieces), extent, size_bytes, repeated)
    count_bytes = (prod(rows) + 1) * S32.storage_bytes
    emit = partial(_emit_by_count, total, rows, pieces)
    return KernelPlan(emit, extent, size_bytes + count_bytes, 2 * repeated)


def _pieces(root: Instruction) -> _Pieces:
    """Return the pieces of the slowest dimension of the windows.

    It is divided where windows are as long as the operand along it, if that is large.
    """
    operand, updates, a = root.operands[0].array, root.operands[-1].array, root.attributes
    whole = _Pieces(0, 1, operand.dims[0] if operand.dims else 1)
    slow = [d for d in loop_order(updates) if d in a.update_window_dims]
    if not slow or operand.size_bytes < LEAST_SHARED_BYTES:
        return whole
    dim, size = window_dimensions(root).index(slow[0]), updates.dims[slow[0]]
    if size != operand.dims[dim] or dim in a.scatter_dims_to_operand_dims:
        return whole
    step_bytes = prod(updates.dims[d] for d in slow[1:]) * operand.dtype.storage_bytes
    for steps in range(-(-_PIECE_BYTES // step_bytes), size):
        if size % steps == 0:
            return _Pieces(dim, size // steps, steps)
    return whole


def _windows(root: Instruction) -> int:
    """Return the number of windows."""
    window, updates = root.attributes.update_window_dims, root.operands[-1].array
    return prod(size for d, size in enumerate(updates.dims) if d not in window)


def _total_dtype(dtype: DType) -> DType:
    return C128 if dtype.is_complex else F64


def _is_long_sum(root: Instruction, windows: int) -> bool:
    """True if more than `LONG_SUM` updates of f32 or narrower may be added to one element."""
    dtype = root.operands[0].array.dtype
    is_narrow = dtype is C64 or (dtype.is_float and dtype is not F64)
    if len(root.operands) != 3 or plain_reducer(root.called[0]) != "add" or not is_narrow:
        return False
    return not root.attributes.unique_indices and windows > LONG_SUM


def _rows(root: Instruction) -> tuple[int, ...] | None:
    """Return the sizes of an array of one element for each window that may be updated.

    None if windows may overlap without being the same, or have few elements.
    """
    operand, updates, a = root.operands[0].array, root.operands[2].array, root.attributes
    along = window_dimensions(root)
    moved = {*a.scatter_dims_to_operand_dims, *a.input_batching_dims}
    window_elements = prod(updates.dims[d] for d in along if d is not None)
    is_narrow = operand.dtype not in (F32, C64)
    if is_narrow or window_elements < _WORTH_COUNTING:
        return None
    if any((d := along[dim]) is not None and updates.dims[d] != 1 for dim in moved):
        return None
    return tuple(size if dim in moved else 1 for dim, size in enumerate(operand.dims))


def _emit_by_count(dtype: DType, rows: tuple[int, ...], pieces: _Pieces, k: KernelContext) -> None:
    """Sum in the result if at most `LONG_SUM` updates meet in each row, else in `dtype`."""
    b, offset = k.b, prod(pieces.dims(k.output.dims)) * dtype.storage_bytes
    counts = k.scratch_array(offset, S32, rows)
    most = k.scratch_array(offset + prod(rows) * S32.storage_bytes, S32, ())
    b.clear(b.offset_pointer(k.scratch, offset), (prod(rows) + 1) * S32.storage_bytes)
    with _each_window(k) as (_, first):
        row = tuple(first)
        counts.store(k.math, row, b.iadd(counts.load(k.math, row), b.const(S32, 1)))
    with k.body.nest(rows, list(range(len(rows)))) as at:
        count, known = counts.load(k.math, tuple(at)), most.load(k.math, ())
        most.store(k.math, (), b.select(b.compare("GT", count, known), count, known))
    is_short = b.compare("LE", most.load(k.math, ()), b.const(S32, LONG_SUM))
    with k.body.when(is_short):
        _emit(pieces, k)
    with k.body.when(b.not_(is_short)):
        _emit_in_f64(dtype, pieces, k)


def _emit_in_f64(dtype: DType, pieces: _Pieces, k: KernelContext) -> None:
    """Sum in scratch memory in `dtype`, whose parts are f64, then round; piece after piece."""
    operand, output = k.root.operands[0], k.output
    total = k.scratch_array(0, dtype, pieces.dims(output.dims))
    order = range(len(output.dims))
    with k.body.loop(*pieces.part(k)) as piece:

        def add(k: KernelContext, target: Index, at: Sequence[IndexValue]) -> None:
            place = pieces.within(k, piece, target)
            new = k.read(k.root.operands[2], tuple(at))
            value = k.b.fadd(total.load(k.math, place), k.b.convert(new, dtype))
            total.store(k.math, place, value)

        with k.body.nest(total.dims, order) as at:
            value = k.read(operand, pieces.at(k, piece, at))
            total.store(k.math, tuple(at), k.b.convert(value, dtype))
        part = piece, k.math.add(piece, 1)
        _each_update(k, [output, total], add, pieces, part)
        with k.body.nest(total.dims, order) as at:
            value = k.b.convert(total.load(k.math, tuple(at)), output.dtype)
            output.store(k.math, pieces.at(k, piece, at), value)


def _emit(pieces: _Pieces, k: KernelContext) -> None:
    """Copy the operands that are not in place, then combine the updates."""
    operands = k.root.operands[: len(k.outputs)]
    for number, (operand, output) in enumerate(zip(operands, k.outputs, strict=True)):
        array, shared = k.plain_array(operand), k.aliased[number]
        if array is None or shared is None or array is not k.inputs[shared]:
            _copy(operand, output, pieces, k)
    _each_update(k, k.outputs, combine, pieces, pieces.part(k))


def _copy(operand: Instruction, output: IrArray, pieces: _Pieces, k: KernelContext) -> None:
    """Copy the pieces of a thread."""
    if pieces.count == 1:
        k.copy_array(operand, output)
        return
    order, dims = loop_order(operand.array), pieces.dims(output.dims)
    place = order.index(pieces.dim)
    with (
        k.body.nest(dims, order[:place]) as outer,
        k.body.loop(*pieces.part(k)) as piece,
        k.body.nest(dims, order[place:]) as inner,
    ):
        index = pieces.at(k, piece, list(map(k.math.add, outer, inner)))
        output.store(k.math, index, k.read(operand, index))


def _each_update(
    k: KernelContext,
    targets: Sequence[IrArray],
    each: Callable[[KernelContext, Index, Sequence[IndexValue]], None],
    pieces: _Pieces,
    part: tuple[IndexValue, IndexValue],
) -> None:
    """Call `each` with the index in the result and that of each update in bounds, in order.

    The updates are those of a part of the pieces; `targets` are the arrays that `each` writes.
    """
    updates, window = k.root.operands[-1].array, k.root.attributes.update_window_dims
    if updates.elements == 0:
        return
    loops, sizes = _window_loops(k, targets)
    if pieces.count > 1:
        sizes[loops[0]] //= pieces.count
    with _each_window(k) as (outer, first):
        if len(loops) == 1:
            _prefetch_later(k, outer, (loops[0], sizes[loops[0]]), part)
        with k.body.loop(*part) as piece, k.body.nest(sizes, loops) as inner:
            if pieces.count > 1:
                start = k.math.mul(piece, sizes[loops[0]])
                inner[loops[0]] = k.math.add(start, inner[loops[0]])
            at = tuple(inner[d] if d in window else outer[d] for d in range(updates.rank))
            each(k, target_of(k, first, at), at)


def _prefetch_later(
    k: KernelContext,
    outer: list[IndexValue],
    row: tuple[int, int],
    part: tuple[IndexValue, IndexValue],
) -> None:
    """Prefetch what a later window updates, and the row of a table that its updates come from.

    Args:
        k: the kernel.
        outer: the index of the present window in the updates.
        row: the dimension of the updates along which windows are rows, and the steps of a piece.
        part: the pieces that are updated.
    """
    root, update, (last, size) = k.root, k.root.operands[-1], row
    dims, window = update.array.dims, root.attributes.update_window_dims
    batch = [d for d in range(len(dims)) if d not in window]
    dim = next((d for d in reversed(batch) if dims[d] > _AHEAD), None)
    bytes_ = prod(dims[d] for d in window) * update.array.dtype.storage_bytes
    if dim is None or bytes_ > _MOST_AHEAD_BYTES:
        return
    later = list(outer)
    later[dim] = k.math.minimum(k.math.add(outer[dim], _AHEAD), dims[dim] - 1)
    first = first_of_window(k, root.operands[len(k.outputs)], [later[d] for d in batch])
    along = window_dimensions(root).index(last)
    rows = [
        (k.b.address(x.pointer, x.dtype, k.math.value(k.math.linear(first, x.strides))), x.dtype)
        for x in k.outputs
        if x.strides[along] == 1 and prod(x.dims) * x.dtype.storage_bytes > k.target.l2_bytes
    ]
    for gather in gathers_of(k, update, dims, last):
        start = row_in_memory(k, gather, tuple(later), last)
        if start is not None:
            rows.append((start, gather.array.dtype))
    with k.body.loop(*part) as piece:
        for start, dtype in rows:
            for at in range(0, size, CACHE_LINE_BYTES // dtype.storage_bytes):
                place = k.math.value(k.math.add(k.math.mul(piece, size), at))
                k.b.prefetch_at(k.b.address(pointer_value(start), dtype, place), 1)


@contextmanager
def _each_window(k: KernelContext) -> Iterator[tuple[list[IndexValue], list[IndexValue]]]:
    """A loop over the windows in bounds: the index in the updates, and the start of the window."""
    updates = k.root.operands[-1].array
    window = k.root.attributes.update_window_dims
    scatter_dims = [d for d in range(updates.rank) if d not in window]
    with k.body.nest(updates.dims, [d for d in scatter_dims if updates.dims[d] != 1]) as outer:
        batch = [outer[d] for d in scatter_dims]
        first = first_of_window(k, k.root.operands[len(k.outputs)], batch)
        with k.body.when(fits(k, first)):
            yield outer, first


def _window_loops(k: KernelContext, targets: Sequence[IrArray]) -> tuple[list[int], list[int]]:
    """Return the dimensions of `updates` that loops over a window run along, and their sizes.

    Dimensions that lie side by side in all arrays are one loop along the last of them, beyond its
    size. Windows of 22x12 f32 take 0.3 of the time: parts of vectors, for rows of 12, would be
    loaded before the row that overlaps them is stored.
    """
    updates = k.root.operands[len(k.outputs) + 1 :]
    shape, indexed = updates[0].array, k.root.attributes.scatter_dims_to_operand_dims
    loops = [d for d in loop_order(shape) if d in k.root.attributes.update_window_dims]
    sizes, sources = list(shape.dims), [k.plain_array(update) for update in updates]
    if None in sources:
        return loops, sizes
    along = {d: dim for dim, d in enumerate(window_dimensions(k.root)) if d is not None}
    inner = loops[-1] if loops else 0
    while len(loops) > 1:
        outer, size = loops[-2], shape.dims[inner]
        is_whole = size == targets[0].dims[along[inner]] and along[inner] not in indexed
        pairs = [(array.strides, outer, inner) for array in sources if array is not None]
        pairs += [(array.strides, along[outer], along[inner]) for array in targets]
        if not is_whole or any(strides[i] != size * strides[j] for strides, i, j in pairs):
            break
        del loops[-2]
        sizes[loops[-1]] *= sizes[outer]
        inner = outer
    return loops, sizes
