"""All routines that programs for one machine are likely to call, whatever their sizes.

They depend on the machine and on element types alone, so they can be compiled before any program
is known (`hloc/runtime/routine_fill.py`). One that is not listed here is compiled with the
first program that calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from hloc.codegen.cpu.emitters.convolution import (
    feature_sums,
    filter_rows,
    grouped_routine,
    padding_routine,
    winograd_planes,
    winograd_products,
    winograd_routines,
)
from hloc.codegen.cpu.emitters.fft import fft_routines, first_pass
from hloc.codegen.cpu.emitters.gemm import complex_gemm
from hloc.codegen.cpu.emitters.gemm.micro_kernels.matrix_rows import row_tiles
from hloc.codegen.cpu.emitters.gemm.micro_kernels.multiply_accumulate import has_pair_sums
from hloc.codegen.cpu.emitters.gemm.micro_kernels.tile_arithmetic import Arithmetic
from hloc.codegen.cpu.emitters.gemm.packed import gemm_loops
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import (
    ANY,
    IN_PARTS,
    IN_PLACE,
    LINES,
    LONG,
    PIECES,
    RUNS,
    gemm_routines,
)
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of, tiles_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.unpacked import (
    lane_gemm_routine,
    small_gemm_routine,
    square_gemm_routine,
)
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming import MAX_ROWS as STREAM_ROWS
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming import unrolls
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming_routine import stream_routines
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm import FEW_ROWS, MIN_SHORT_DEPTH, SHORT_ROWS
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm import MAX_ROWS as INNER_ROWS
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm_routine import copy_routine, inner_routines
from hloc.codegen.cpu.emitters.linalg import linalg_routines
from hloc.codegen.cpu.emitters.reduction import lane_tiles, plain_reduction, pool_routine
from hloc.codegen.cpu.emitters.sort import sort_columns, sort_routines, topk_routines
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import BF16, F16, F32, F64, S8, S16, S32, U8, DType

_Types = tuple[tuple[DType, DType], DType]

_FLOAT_PRODUCTS: tuple[_Types, ...] = (
    ((F32, F32), F32),
    ((BF16, BF16), BF16),
    ((BF16, BF16), F32),
    ((F16, F16), F16),
    ((F16, F16), F32),
    ((F64, F64), F64),
)
"""Element types of the operands and of the result, also for gemms of few rows."""

_WIDENED_PRODUCTS: tuple[_Types, ...] = (((F32, S8), F32), ((F32, BF16), F32))
"""The same of few rows that widen a matrix."""

_PACKED_PRODUCTS: tuple[_Types, ...] = (
    *_FLOAT_PRODUCTS,
    ((BF16, F32), F32),
    ((F32, BF16), F32),
    ((F16, F32), F32),
    ((F32, F16), F32),
    ((F32, BF16), BF16),
    ((F32, F16), F16),
    ((S32, S32), S32),
    *(((left, right), S32) for left, right in product((S8, U8), repeat=2)),
)


def packed_routines(target: Target) -> Iterator[Routines]:
    """Yield micro-kernels and packing for all element types, tiles and forms in memory."""
    for sources, result in _PACKED_PRODUCTS:
        for arithmetic in _arithmetics(sources, result, target):
            forms = _forms(arithmetic)
            for tile in tiles_of(arithmetic, target, ANY):
                for form in forms:
                    found = gemm_routines(arithmetic, tile, sources, (form, form), target)
                    yield from found.units
                if arithmetic.parts > 1:
                    in_parts = gemm_routines(arithmetic, tile, sources, (IN_PARTS, ANY), target)
                    yield from in_parts.units
                elif arithmetic.is_matrix:
                    yield row_tiles(arithmetic, tile, target)
            if not (sources[0] is arithmetic.operand is arithmetic.total):
                continue
            for in_place in IN_PLACE:
                for tile in tiles_of(arithmetic, target, in_place):
                    # Rows that are contiguous in memory are packed, with these tiles too.
                    for rows, form in product((in_place, LINES), forms):
                        found = gemm_routines(arithmetic, tile, sources, (rows, form), target)
                        yield from found.units


def _forms(arithmetic: Arithmetic) -> tuple[str, ...]:
    """Return the forms in memory that have different packing."""
    if arithmetic.is_matrix:
        return ANY, LINES, LONG
    return (ANY, LINES, RUNS, LONG, PIECES) if arithmetic.group == 1 else (ANY, LINES, RUNS, LONG)


def _arithmetics(
    sources: tuple[DType, DType], result: DType, target: Target
) -> dict[Arithmetic, None]:
    """Return the arithmetics of such gemms."""
    axis = Axis(64, 1, 1, 1)
    samples = (
        PackedGemm((), (axis,), (axis,), (Axis(64, 1, 1, 0),), False, sources, result, splits)
        for splits in (False, sources == (F32, F32))
    )
    return dict.fromkeys(arithmetic_of(p, target) for p in samples)


def streaming_routines(target: Target) -> Iterator[Routines]:
    """Yield gemms of few rows that stream the right-hand side."""
    products = (*_FLOAT_PRODUCTS, *_WIDENED_PRODUCTS)
    for (sources, result), rows in product(products, range(1, STREAM_ROWS + 1)):
        yield stream_routines(rows, 0, False, sources, result, target)
        fitting = unrolls(rows, target)
        for unroll in fitting:
            yield stream_routines(rows, unroll, False, sources, result, target)
        yield stream_routines(rows, fitting[0], True, sources, result, target)


def inner_product_routines(target: Target) -> Iterator[Routines]:
    """Yield gemms of few rows whose operands are contiguous along k; up to 8 rows if narrow."""
    rests = tuple(product((False, True), repeat=2))
    for sources, result in (*_FLOAT_PRODUCTS, *_WIDENED_PRODUCTS):
        total = F64 if result is F64 else F32
        has_short_depths = target.vector_bits // total.bits > MIN_SHORT_DEPTH
        most = INNER_ROWS if sources == (total, total) else FEW_ROWS
        for rows in range(1, most + 1):
            yield copy_routine(rows, sources[0], total, target)
            for rest, left in product(rests, dict.fromkeys((sources[0], total))):
                # Copied rows have the type of the sums.
                yield inner_routines(rows, rest, (left, sources[1]), result, target)
                if rest[1] and rows <= SHORT_ROWS and has_short_depths:
                    short = rows, rest, (left, sources[1]), result, target
                    yield inner_routines(*short, is_short=True)
    if has_pair_sums(target):
        yield from _byte_product_routines(target)


def _byte_product_routines(target: Target) -> Iterator[Routines]:
    """Yield those for bytes: of a few rows, in parts of which others are computed."""
    rests = tuple(product((False, True), repeat=2))
    for rows in range(1, FEW_ROWS + 1):
        for source in (S8, U8):
            yield copy_routine(rows, source, S16, target)
        for sources, rest in product(((S8, S8), (S16, S8), (S16, U8)), rests):
            yield inner_routines(rows, rest, sources, S32, target)


MAKERS: tuple[Callable[[Target], Iterator[Routines]], ...] = (
    packed_routines,
    gemm_loops.listed_routines,
    complex_gemm.listed_routines,
    padding_routine.listed_routines,
    grouped_routine.listed_routines,
    feature_sums.listed_routines,
    filter_rows.listed_routines,
    winograd_planes.listed_routines,
    winograd_products.listed_routines,
    winograd_routines.listed_routines,
    streaming_routines,
    inner_product_routines,
    small_gemm_routine.listed_routines,
    lane_gemm_routine.listed_routines,
    square_gemm_routine.listed_routines,
    fft_routines.listed_routines,
    first_pass.listed_routines,
    plain_reduction.listed_routines,
    pool_routine.listed_routines,
    lane_tiles.listed_routines,
    linalg_routines.listed_routines,
    sort_columns.listed_routines,
    sort_routines.listed_routines,
    topk_routines.listed_routines,
)


def all_routines(target: Target) -> dict[str, Routines]:
    """Return every routine of the table for `target`, by name."""
    return {routine.name: routine for maker in MAKERS for routine in maker(target)}
