"""Gemms of few rows or columns of bytes as inner products, where vectors multiply pairs of s16.

The longer side is read in place once; packing it would take longer than multiplying.
"""

from __future__ import annotations

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.gemm.micro_kernels.multiply_accumulate import has_pair_sums
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import (
    BYTE_PRODUCTS,
    PackedGemm,
)
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm import InnerGemm, emit_inner
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.llvm.target import Target
from hloc.dtypes import S8, S16

MAX_ROWS, MIN_DEPTH = 48, 96
"""Most rows, and fewest steps of k, for which this is faster than packing.

Time relative to packing, AVX2: 0.18 for 2048x2048x2, 0.42 for 2048x2048x8, 0.49 for 2048x2048x16,
0.70 for 2048x2048x48, 0.76 for 512x768x48, 0.83 for 4000x96x8, 0.94 for 256x256x48; 1.10 for
4000x32x8, 1.14 for 12 of 8x64x512.
"""

MAX_UNITS_ROWS = 16
"""The same rows where an instruction multiplies four times as many packed bytes.

Not measured: so few rows are read once where packing reads and writes the longer side before.
"""


def byte_inner_gemm(p: PackedGemm, target: Target) -> InnerGemm | None:
    """Return `p` as inner products; None if the machine has better instructions, or packs faster.

    Its columns are the longer side.
    """
    if p.sources not in BYTE_PRODUCTS or not has_pair_sums(target):
        return None
    arithmetic = arithmetic_of(p, target)
    if arithmetic.is_matrix or not len(p.rows) == len(p.columns) == len(p.depth) == 1:
        return None
    row, column, depth, sources = p.rows[0], p.columns[0], p.depth[0], p.sources
    exchanged = p.larger_side == "rows"
    if exchanged:
        row, column, depth = column.swapped(), row.swapped(), depth.swapped()
        sources = sources[1], sources[0]
    most = MAX_ROWS if arithmetic.operand is S16 else MAX_UNITS_ROWS
    if depth.rhs != 1 or depth.size < MIN_DEPTH or row.size > most:
        return None
    outer = tuple(axis.swapped() for axis in p.outer) if exchanged else p.outer
    copied = depth.lhs != 1 or sources != (S8, S8)  # fewer routines, of the types that are common
    exchanged = exchanged != p.exchanged
    found = InnerGemm(outer, row, column, depth, exchanged, sources, p.result, copied)
    return found if found.scratch_bytes <= p.scratch_bytes else None


def emit_byte_inner(
    k: KernelContext, p: PackedGemm, inner: InnerGemm, lhs: IrArray, rhs: IrArray, offset: int
) -> None:
    """Write the calls of the routine; the kernel's extent is that of `p.pieces`."""
    columns, by_batch = inner.column.size, p.shared == "outer"
    part: tuple[IndexValue, IndexValue] = (0, columns)
    if not by_batch:
        piece = p.row_piece if p.shared == "rows" else p.column_piece
        first = k.math.mul(k.begin, piece)
        stop = k.math.minimum(columns, k.math.mul(k.end, piece))
        part = first, k.math.sub(stop, first)
    emit_inner(k, inner, lhs, rhs, k.output, offset, whole=not by_batch, part=part)
