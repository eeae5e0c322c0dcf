"""Scatter: windows of updates are combined into a copy of the operands, one after another.

A window that is not completely in bounds is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod

from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
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
from hloc.ops.folding import LONG_SUM

MAX_TOTAL_BYTES = 1 << 25
"""Most scratch memory for totals in f64."""

_WORTH_COUNTING = 8
"""Least elements of a window for which counting the windows costs less than totals in f64."""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a scatter; it runs on one thread.

    If many float updates may be added to one element, the sums are in f64 in scratch memory. Where
    updates are whole rows, the kernel counts those of each row first: in graphs and in gradients of
    embeddings few meet, although there are many.
    """
    root = root_of(inst)
    total = _total_dtype(root.operands[0].array.dtype)
    size_bytes = root.operands[0].array.elements * total.storage_bytes
    if not _is_long_sum(root) or size_bytes > MAX_TOTAL_BYTES:
        return KernelPlan(_emit)
    rows = _rows(root)
    if rows is None:
        return KernelPlan(partial(_emit_in_f64, total), scratch_bytes=size_bytes)
    count_bytes = (prod(rows) + 1) * S32.storage_bytes
    return KernelPlan(partial(_emit_by_count, total, rows), scratch_bytes=size_bytes + count_bytes)


def _total_dtype(dtype: DType) -> DType:
    return C128 if dtype.is_complex else F64


def _is_long_sum(root: Instruction) -> bool:
    """True if more than `LONG_SUM` updates of f32 or narrower may be added to one element."""
    dtype, window = root.operands[0].array.dtype, root.attributes.update_window_dims
    is_narrow = dtype is C64 or (dtype.is_float and dtype is not F64)
    if len(root.operands) != 3 or plain_reducer(root.called[0]) != "add" or not is_narrow:
        return False
    if root.attributes.unique_indices:
        return False
    updates = root.operands[2].array
    windows = prod(size for d, size in enumerate(updates.dims) if d not in window)
    return windows > LONG_SUM


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


def _emit_by_count(dtype: DType, rows: tuple[int, ...], k: KernelContext) -> None:
    """Sum in the result if at most `LONG_SUM` updates meet in each row, else in `dtype`."""
    b, offset = k.b, prod(k.output.dims) * dtype.storage_bytes
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
        _emit(k)
    with k.body.when(b.not_(is_short)):
        _emit_in_f64(dtype, k)


def _emit_in_f64(dtype: DType, k: KernelContext) -> None:
    """Sum in scratch memory in `dtype`, whose parts are f64, then round."""
    operand, output = k.root.operands[0], k.output
    total = k.scratch_array(0, dtype, output.dims)
    order = list(range(len(output.dims)))
    with k.body.nest(output.dims, order) as at:
        total.store(k.math, tuple(at), k.b.convert(k.read(operand, tuple(at)), dtype))

    def add(k: KernelContext, target: Index, at: Sequence[IndexValue]) -> None:
        new = k.read(k.root.operands[2], tuple(at))
        value = k.b.fadd(total.load(k.math, target), k.b.convert(new, dtype))
        total.store(k.math, target, value)

    _each_update(k, [total], add)
    with k.body.nest(output.dims, order) as at:
        value = total.load(k.math, tuple(at))
        output.store(k.math, tuple(at), k.b.convert(value, output.dtype))


def _emit(k: KernelContext) -> None:
    """Copy the operands that are not in place, then combine the updates."""
    operands = k.root.operands[: len(k.outputs)]
    for number, (operand, output) in enumerate(zip(operands, k.outputs, strict=True)):
        array, shared = k.plain_array(operand), k.aliased[number]
        if array is None or shared is None or array is not k.inputs[shared]:
            k.copy_array(operand, output)
    _each_update(k, k.outputs, combine)


def _each_update(
    k: KernelContext,
    targets: Sequence[IrArray],
    each: Callable[[KernelContext, Index, Sequence[IndexValue]], None],
) -> None:
    """Call `each` with the index in `targets` and that of each update in bounds, in order."""
    updates, window = k.root.operands[-1].array, k.root.attributes.update_window_dims
    window_dims, window_sizes = _window_loops(k, targets)
    if updates.elements == 0:
        return
    with _each_window(k) as (outer, first), k.body.nest(window_sizes, window_dims) as inner:
        at = tuple(inner[d] if d in window else outer[d] for d in range(updates.rank))
        each(k, target_of(k, first, at), at)


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
