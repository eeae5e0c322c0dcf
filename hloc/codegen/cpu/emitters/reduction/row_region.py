"""Chains over rows that no routine of a single reduction covers."""

from __future__ import annotations

from hloc.codegen.cpu.emitters.reduction.plain_reduction import plain_reduction
from hloc.codegen.kernels import row_region
from hloc.codegen.kernels.emitter import emitter_of, no_scratch
from hloc.ir.instruction import Instruction


def can_emit(inst: Instruction) -> bool:
    """True for a fusion that can be made row by row, and not by a routine (`plain_reduction`)."""
    return row_region.can_emit(inst) and plain_reduction(inst) is None


EMITTER = emitter_of("row-region", can_emit, row_region.emit, row_region.extent, no_scratch)
