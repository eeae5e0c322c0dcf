"""The inner part of gemms and convolutions: rows times a panel of columns.

The accumulators of several rows stay in the L1 cache during the loop over k. The loop is unrolled,
so that an accumulator is loaded and stored once per several multiplications. Micro-kernels with
explicit vectors replace `multiply_panel` where they exist. Source: Goto and van de Geijn, "Anatomy
of high-performance matrix multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value, is_narrow_float
from hloc.codegen.kernels.context import KernelContext
from hloc.dtypes import F32, DType
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes

ROWS = 4
"""Rows of the result that share one pass over a panel."""

UNROLL = 4
"""Steps of k per pass over the running sums of `ROWS` rows; fewer rows may have more."""

PASS_PRODUCTS = 16
"""Most products per pass that are added to the sums of a column.

One row of 128 by 128x128 in a loop takes 0.85 of the time with 16 steps of k per pass over that
with 4, by 64x64 0.86 (AVX-512).
"""

STRIP = 256
"""Most columns of a panel."""

PANEL_BYTES = 1 << 19
"""Largest panel, which should stay in the L2 cache."""

MIN_ROWS_TO_PACK = 16
"""Fewest rows for which packing a panel pays."""

DEPTH_BLOCK = 1024
"""Float products that are summed before they are added to a total, for accurate long sums."""

SMALL_WORK = 1 << 15
"""Most multiplications for which short code matters more than fast code, in kernels that run once.

It compiles in a third of the time and is not slower: eight products of 10x30 by 30x36 on AVX2. In a
loop the sums in memory are slower: 200 steps of 8x48 by 48x48 take 3 times as long.
"""

LoadFunction: TypeAlias = Callable[[IndexValue, IndexValue], Value]
"""Returns the element at (row, k) or (k, column), in the type of the sums."""

StoreFunction: TypeAlias = Callable[[IndexValue, IndexValue, Value], None]
"""Writes the element at (row, column) of the result."""


@dataclass(frozen=True, slots=True)
class PanelGemm:
    """out[row, column] = sum over k of lhs[row, k] * rhs[k, column].

    Attributes:
        width: columns of this panel, at most `strip`.
        is_packed: `rhs` reads a packed panel.
    """

    dtype: DType
    rows: int
    depth: int
    strip: int
    width: IndexValue
    lhs: LoadFunction
    rhs: LoadFunction
    store: StoreFunction
    is_packed: bool = False


def accumulator_dtype(dtype: DType) -> DType:
    """Return the type in which products of result type `dtype` are summed."""
    return F32 if is_narrow_float(dtype) else dtype


def strip_width(columns: int, depth: int, dtype: DType) -> int:
    """Return how many columns a panel of `depth` rows should have."""
    fitting = PANEL_BYTES // (max(depth, 1) * dtype.storage_bytes)
    return min(columns, max(64, min(STRIP, fitting // 64 * 64)))


def panel_bytes(strip: int, depth: int, dtype: DType) -> int:
    """Return the scratch memory of a packed panel."""
    return aligned_bytes(strip * depth * dtype.storage_bytes)


def panel_at(k: KernelContext, offset_bytes: int, strip: int, depth: int, dtype: DType) -> IrArray:
    """Return the packed panel at a place in scratch memory, `[k, column]`."""
    return k.scratch_array(offset_bytes, dtype, (depth, strip))


def multiply_panel(k: KernelContext, p: PanelGemm) -> None:
    """Write the loops of one panel."""
    is_small = not k.is_repeated and p.rows * p.depth * p.strip <= SMALL_WORK
    tile = 1 if is_small else min(ROWS, p.rows)
    slots = [k.b.allocate(p.dtype, p.strip) for _ in range(tile)]
    whole = p.rows // tile * tile
    for start, stop, count in ((0, whole, tile), (whole, p.rows, 1)):
        if start < stop:
            with k.body.loop(start, stop, count) as row:
                _tile(k, p, row, slots[:count], 1 if is_small else _unrolled(p.depth, count))


def _unrolled(depth: int, rows: int) -> int:
    """Return the steps of k per pass for some rows: many only if no step is left over."""
    steps = PASS_PRODUCTS // rows
    while steps > UNROLL and depth % steps:
        steps //= 2
    return max(steps, UNROLL)


def _tile(
    k: KernelContext, p: PanelGemm, row: IndexValue, slots: Sequence[Value], unroll: int
) -> None:
    """Compute `len(slots)` rows of the result from `row` on, times one panel of columns.

    Long sums of floats are added up block by block into `totals`, which bounds their rounding
    error.
    """
    rows = [k.math.add(row, r) for r in range(len(slots))]
    whole = p.depth // unroll * unroll
    _clear(k, p, slots)
    totals = slots
    if p.dtype.is_float and p.depth > DEPTH_BLOCK:
        totals = [k.b.allocate(p.dtype, p.strip) for _ in slots]
        _clear(k, p, totals)
        block = DEPTH_BLOCK // unroll * unroll  # a pass must not go on into the next block
        with k.body.loop(0, whole, block) as first:
            stop = k.math.minimum(k.math.add(first, block), whole)
            _add_range(k, p, rows, (first, stop, unroll), slots)
            _move(k, p, slots, totals)
    else:
        _add_range(k, p, rows, (0, whole, unroll), slots)
    if whole < p.depth:
        _add_range(k, p, rows, (whole, p.depth, 1), totals)
    for column in _columns(k, p):
        for r, slot in zip(rows, totals, strict=True):
            p.store(r, column, k.b.load(slot, p.dtype, column))


def _columns(k: KernelContext, p: PanelGemm) -> Iterator[IndexValue]:
    """Yield a column index for each loop over the panel's columns; the caller writes its body.

    A loop whose length is no multiple of a vector would get masks from LLVM, or a scalar remainder.
    So the rest is computed by loops over vectors of half, a quarter ... of the width.
    """
    vectors = p.is_packed and not p.dtype.is_complex
    if not isinstance(p.width, int):
        with k.body.loop(0, p.width, vectors=vectors) as column:
            yield column
        return
    lanes = max(k.target.vector_bits // p.dtype.bits, 1)
    start, stop = 0, p.width // lanes * lanes
    while start < p.width:
        if start < stop:
            with k.body.loop(start, stop, vectors=vectors) as column:
                yield column
        start, lanes = stop, lanes // 2
        stop = start + (p.width - start) // lanes * lanes if lanes else start


def _clear(k: KernelContext, p: PanelGemm, slots: Sequence[Value]) -> None:
    for column in _columns(k, p):
        for slot in slots:
            k.b.store(slot, column, k.b.const(p.dtype, 0))


def _move(k: KernelContext, p: PanelGemm, slots: Sequence[Value], totals: Sequence[Value]) -> None:
    """Add the sums of a block to the totals and clear them."""
    for column in _columns(k, p):
        for slot, total in zip(slots, totals, strict=True):
            x, y = k.b.load(total, p.dtype, column), k.b.load(slot, p.dtype, column)
            k.b.store(total, column, k.b.fadd(x, y))
            k.b.store(slot, column, k.b.const(p.dtype, 0))


def _add_range(
    k: KernelContext,
    p: PanelGemm,
    rows: Sequence[IndexValue],
    steps: tuple[IndexValue, IndexValue, int],
    slots: Sequence[Value],
) -> None:
    """Add the products of a range of k, some at a time."""
    first, stop, count = steps
    if first == stop:
        return
    with k.body.loop(first, stop, count) as step:
        _add_products(k, p, rows, [k.math.add(step, u) for u in range(count)], slots)


def _add_products(
    k: KernelContext,
    p: PanelGemm,
    rows: Sequence[IndexValue],
    steps: Sequence[IndexValue],
    slots: Sequence[Value],
) -> None:
    """Add the products of some k to the sums of some rows."""
    factors = [[p.lhs(row, step) for step in steps] for row in rows]
    for column in _columns(k, p):
        ys = [p.rhs(step, column) for step in steps]
        for slot, xs in zip(slots, factors, strict=True):
            total = k.b.load(slot, p.dtype, column)
            for x, y in zip(xs, ys, strict=True):
                total = k.b.multiply_add(x, y, total)
            k.b.store(slot, column, total)
