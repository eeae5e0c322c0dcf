"""Gemms of more rows with a small right-hand side, in groups of few rows, without packing.

Each group is a gemm of few rows whose accumulators stay in registers (`gemv_resident`); every group
reads the right-hand side from the L2 cache. Packing it would cost more than these reads.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming import (
    MAX_ROWS,
    GemvStreaming,
    gemv_streaming,
)
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem
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

GROUPS = (8, 6, 10, 5, 7, 11, 9, 4)
"""Rows of a group, best first: accumulators fill the registers, and there are few groups."""


def grouped_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType
) -> GemvStreaming | None:
    """Return the gemm of each group of rows; None if that is not supported, or does not pay."""
    if sources not in ((F32, F32), (F64, F64)) or len(p.rows) != 1:
        return None
    (row,) = p.rows
    elements = prod(axis.size for axis in (*p.batch, row, *p.columns))
    if elements * result.storage_bytes > MAX_RESULT_BYTES:
        return None
    size = next((size for size in GROUPS if row.size % size == 0), 0)
    if not size or not MAX_ROWS < row.size <= MAX_GROUPED_ROWS:
        return None
    groups = Axis(row.size // size, row.lhs * size, 0, row.out * size)
    part = GemmProblem((*p.batch, groups), (replace(row, size=size),), p.columns, p.contracted)
    found = gemv_streaming(part, sources, result)
    is_worth = found is not None and found.is_resident and not found.exchanged
    return found if is_worth else None
