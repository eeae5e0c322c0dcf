"""Chains over rows that no routine of a single reduction covers."""

from __future__ import annotations

from hloc.codegen.cpu.emitters.reduction.plain_reduction import plain_reduction
from hloc.codegen.kernels import row_region
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a fusion row by row, unless a routine makes it (`plain_reduction`)."""
    found = row_region.plan(inst)
    return None if found is None or plain_reduction(inst) is not None else found


EMITTER = Emitter("row-region", plan)
