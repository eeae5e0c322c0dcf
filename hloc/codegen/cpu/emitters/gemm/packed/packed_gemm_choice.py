"""Chooses the gemms that use packed panels, and which of their axes are rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from hloc.codegen.cpu.emitters.gemm.micro_kernels.bf16_parts import PART_STEPS
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import (
    BYTE_PRODUCTS,
    PackedGemm,
    has_matrices,
    stays_in_rows,
    sums_type,
)
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem, swapped
from hloc.dtypes import F32, DType

MIN_ROWS, MIN_COLUMNS, MIN_DEPTH, MIN_WORK = 12, 3, 8, 1 << 15
"""For smaller sizes, gemms of few rows are faster than packing."""

LEAST_ROWS, LEAST_SHALLOW_ROWS, LEAST_LINE_DEPTH, LEAST_WORK = 8, 24, 3, 1 << 12
"""For smaller sizes, plain loops are faster: rows contiguous along k; rows and steps of k below
`MIN_DEPTH` if columns are contiguous; multiplications if they are not, where plain loops are not
vectorised.

Time relative to plain loops, f32: 0.05 for 256x512x3, 0.73 for 2048x500x5, 1.7 for 500x100x2; 0.10
for 12x12x192; 0.27 for 197 of 8x256x32, 1.4 for 17 of 4x197x31.
"""

LEAST_COLUMNS, LEAST_ROW_COLUMNS, LEAST_SHALLOW_COLUMNS = 12, 31, 64
"""The same for columns: of `MIN_ROWS` rows, of fewer, and with fewer than `MIN_DEPTH` steps of k.

Time relative to plain loops, f32: 1.0 for 128x128x5, 2.3 for 512x17x4.
"""

MIN_BYTE_ROWS = 4
"""The same for bytes, which streaming would have to widen."""

MIN_LINES = 96
"""Fewest contiguous rows for which they are packed by themselves."""

LEAST_IN_ROWS, LEAST_NARROW_IN_ROWS = 3, 16
LEAST_IN_ROWS_RESULTS, LEAST_IN_ROWS_DEPTH = 40, 32
"""For fewer rows of bytes and of bf16, elements of the result or steps of k, plain loops are faster
than matrix registers, if rows are contiguous along k and columns are few.

Time relative to plain loops, s8: 0.2 to 0.8 for 512x2x1000, 0.8 for 12x12x100, 0.9 for 3x31x512;
1.0 to 1.6 for 100x3x17, 1.8 for 2x17x1000; 2.2 for 3x17x2048 of bf16.
"""

ROW_SPLIT, COLUMN_SPLIT, LEAST_SPLIT_DEPTH = 80, 30, 48
"""Multiplications by parts that take as long as splitting an element of a row, and one of a column;
fewest steps of k.

Time of parts over that of f32: 0.64 for 128x3072x768, 0.68 for 512x768x192, 0.79 for 784x256x512;
0.82 to 0.88 for 20000x96x256, 2000x96x512 and 784x96x128; 0.89 for 3136x128x128, 0.92 for
784x128x512; 1.05 for 12544x128x256, 1.2 for 19717x128x128, which wait for memory; 1.1 for
1000x64x512, 1.2 for 3136x64x576.
"""


SINGLE_SPLIT, LEAST_RUN = 900, 8
"""The same for elements that are packed one by one, since fewer than `LEAST_RUN` are contiguous.

Time of parts over that of f32, columns in runs of 3: 3.6 for 64x192x64, 1.5 for 256x192x64, 0.96
for 1024x192x64; in runs of 12: 0.88 for 64x768x128.
"""


def packed_gemm(
    p: GemmProblem,
    sources: tuple[DType, DType],
    result: DType,
    *,
    fewest_rows: int = MIN_ROWS,
    fewest_columns: int = MIN_COLUMNS,
    least_work: int = MIN_WORK,
) -> PackedGemm | None:
    """Return `p` as a packed gemm; None if that is not supported, or does not pay.

    For less than `fewest_rows` rows, `fewest_columns` columns or `least_work` multiplications other
    kernels are faster.
    """
    found = _as_packed(p, sources, result)
    if found is None:
        return None
    m, n, k = found.sizes
    fewest = MIN_BYTE_ROWS if found.sources in BYTE_PRODUCTS else fewest_rows
    is_worth = m >= fewest and n >= fewest_columns and k >= MIN_DEPTH and m * n * k >= least_work
    if not is_worth:
        return None
    return replace(found, splits=True) if _gains_by_splitting(found) else found


def _gains_by_splitting(p: PackedGemm) -> bool:
    """True if the products of parts gain more than splitting the elements takes."""
    m, n, k = p.sizes
    if (*p.sources, p.result) != (F32, F32, F32) or k < LEAST_SPLIT_DEPTH:
        return False
    padded = prod(-(-x // side) * side for x, side in ((m, 16), (n, 16), (k, PART_STEPS)))
    saved = 2 * m * n * k - padded  # multiplications by parts, twice as fast
    of_row = ROW_SPLIT if _is_in_runs(p.rows, p.depth, lambda axis: axis.lhs) else SINGLE_SPLIT
    in_runs = _is_in_runs(p.columns, p.depth, lambda axis: axis.rhs)
    of_column = COLUMN_SPLIT if in_runs else SINGLE_SPLIT
    return saved > k * (m * of_row + n * of_column)


def _is_in_runs(axes: Sequence[Axis], depth: Sequence[Axis], step: Callable[[Axis], int]) -> bool:
    """True if one side of a gemm has contiguous runs of `LEAST_RUN` elements or more."""
    return any(step(side[-1]) == 1 and side[-1].size >= LEAST_RUN for side in (axes, depth) if side)


def small_packed_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType
) -> PackedGemm | None:
    """Return the same for gemms whose only alternative is plain loops."""
    found = _as_packed(p, sources, result)
    if found is None:
        return None
    m, n, k = found.sizes
    if stays_in_rows(found) and k >= LEAST_IN_ROWS_DEPTH:
        fewest = LEAST_IN_ROWS if found.sources in BYTE_PRODUCTS else LEAST_NARROW_IN_ROWS
        return found if m >= fewest and m * n >= LEAST_IN_ROWS_RESULTS and n > 1 else None
    is_shallow, has_few_rows = k < MIN_DEPTH, m < MIN_ROWS
    if m < LEAST_ROWS or (has_few_rows and (is_shallow or found.depth[-1].lhs != 1)):
        return None
    side_by_side = found.columns[-1].rhs == 1
    is_slow = side_by_side or has_matrices(found)
    if is_shallow and is_slow and m < LEAST_SHALLOW_ROWS:
        return None
    if is_shallow and side_by_side and k < LEAST_LINE_DEPTH:
        return None
    if has_matrices(found) and side_by_side and len(found.columns) > 1:
        return None  # packed element by element
    least = LEAST_ROW_COLUMNS if has_few_rows else LEAST_COLUMNS
    least = LEAST_SHALLOW_COLUMNS if is_shallow else least
    is_worth = n >= least and m * n * k >= (MIN_WORK if side_by_side else LEAST_WORK)
    return found if is_worth else None


def _as_packed(p: GemmProblem, sources: tuple[DType, DType], result: DType) -> PackedGemm | None:
    """Return `p` in the form of the routine, None if the routine does not support it."""
    if sums_type(sources, result) is None or not p.contracted:
        return None
    exchanged = not any(axis.out == 1 for axis in p.columns)
    if exchanged:
        p = swapped(p)
        sources = (sources[1], sources[0])
    columns, other_columns = _chain(p.columns, 1)
    if not columns:
        return None
    rows, other_rows = _chain(p.rows, min((axis.out for axis in p.rows), default=1))
    if len(rows) > 1 and rows[-1].lhs == 1 and rows[-1].size >= MIN_LINES:
        rows, other_rows = rows[-1:], (*rows[:-1], *other_rows)
    outer = (*p.batch, *other_columns, *other_rows)
    return PackedGemm(outer, rows, columns, p.contracted, exchanged, sources, result)


def _chain(axes: Sequence[Axis], step: int) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Return the axes that together have stride `step` in the result, and the others."""
    chain: list[Axis] = []
    for axis in sorted(axes, key=lambda axis: axis.out):
        if axis.out == step:
            chain.insert(0, axis)
            step *= axis.size
    return tuple(chain), tuple(axis for axis in axes if axis not in chain)
