"""Gemms of more rows with a small right-hand side, in groups of few rows, without packing.

Each group is a gemm of few rows whose accumulators stay in registers (`gemv_resident`); every group
reads the right-hand side from the L2 cache. Packing it would cost more than these reads.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming import (
    MAX_ROWS,
    GemvStreaming,
    emit_gemv_streaming,
    gemv_streaming,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, DType

MAX_GROUPED_ROWS = 64
"""Most rows for which groups are faster than packing.

Time relative to packing, rows x columns x depth of f32 with vectors of 512 bits: 0.46 for
16x512x128, 0.60 for 32x512x128, 0.82 for 48x512x128, 0.92 for 64x128x128; 1.08 for 128x512x128,
1.18 for 256x128x128. Of f64 0.86 for 32x512x128.
"""

MAX_RESULT_BYTES = (1 << 18) - 1
"""Largest result: larger ones are fused with their epilogues, which need tiles of rows
(`opt/fusion/output_fusion.py`)."""

MAX_LARGE_ROWS = 48
"""The same where only a large L2 cache holds the right-hand side (`gemv_resident.MAX_SHARE`).

Time relative to packing, AVX-512, cache of 2 MB: 0.5 to 0.75 for 12 rows of 512x512, 1024x256 and
256x1024, 0.57 to 0.8 for 16, 0.7 to 1.0 for 24 and 32, 0.8 to 1.07 for 48; 1.0 to 1.1 for 64. Of
f64 0.5 to 0.85 for 12 to 40 rows.
"""

GROUPS = (8, 6, 10, 5, 7, 11, 9, 4)
"""Rows of a group, best first: accumulators fill the registers, and there are few groups."""


def grouped_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType, l2_bytes: int = 0
) -> GemvStreaming | None:
    """Return the gemm of each group of rows; None if that is not supported, or does not pay.

    The right-hand side is small for any machine, or for one with a second-level cache of this size.
    """
    if sources not in ((F32, F32), (F64, F64)) or len(p.rows) != 1:
        return None
    (row,) = p.rows
    elements = prod(axis.size for axis in (*p.batch, row, *p.columns))
    if elements * result.storage_bytes > MAX_RESULT_BYTES:
        return None
    size = next((size for size in GROUPS if row.size % size == 0), 0)
    most = MAX_LARGE_ROWS if l2_bytes else MAX_GROUPED_ROWS
    if not size or not MAX_ROWS < row.size <= most:
        return None
    groups = Axis(row.size // size, row.lhs * size, 0, row.out * size)
    part = GemmProblem((*p.batch, groups), (replace(row, size=size),), p.columns, p.contracted)
    found = gemv_streaming(part, sources, result)
    is_worth = found is not None and found.is_resident_in(l2_bytes) and not found.exchanged
    return found if is_worth else None


def groups_in_cache(p: PackedGemm, target: Target) -> GemvStreaming | None:
    """Return the gemm of each group of rows of `p`, which a large cache makes faster than packing.

    Only if threads share columns.
    """
    if p.shared != "columns":
        return None
    problem = GemmProblem(p.outer, p.rows, p.columns, p.depth)
    return grouped_gemm(problem, p.sources, p.result, target.l2_bytes)


def emit_groups(
    k: KernelContext, p: PackedGemm, groups: GemvStreaming, lhs: IrArray, rhs: IrArray
) -> None:
    """Write the calls of the routine of `groups`; the kernel's extent is that of `p.pieces`."""
    if p.exchanged:
        lhs, rhs = rhs, lhs
    first = k.math.mul(k.begin, p.column_piece)
    stop = k.math.minimum(p.sizes[1], k.math.mul(k.end, p.column_piece))
    emit_gemv_streaming(k, groups, lhs, rhs, 0, (first, k.math.sub(stop, first)))
