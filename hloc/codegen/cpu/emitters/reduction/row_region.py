"""Chains over rows that no routine of a single reduction covers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hloc.codegen.cpu.emitters.reduction.plain_reduction import (
    PlainReduction,
    emit_plain,
    plain_reduction,
)
from hloc.codegen.elements.reductions import FEWEST_ROWS, MOST_UNROLLED
from hloc.codegen.kernels import row_region
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.ir.instruction import Instruction
from hloc.opt.fusion.row_plan import RowPlan


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a fusion row by row; a routine may do it (`plain_reduction`), also for `reduce`."""
    rows = row_region.plan_of(inst)
    if rows is None or _is_short(rows):
        return None
    plain, planned = plain_reduction(inst), row_region.plan(inst)
    if plain is None or planned is None:
        return planned
    if not plain.fold.finish:
        return None
    return replace(planned, emit=partial(_emit, plain, planned))


def _emit(plain: PlainReduction, planned: KernelPlan[KernelContext], k: KernelContext) -> None:
    if not emit_plain(k, plain, planned.extent):
        planned.emit(k)


def _is_short(plan: RowPlan) -> bool:
    """True if loops over the results, in vectors of several rows, are faster.

    Row by row, the work after the sums is scalar: a step of twelve bodies that attract each other,
    with 144 distances, takes 0.28 us in vectors instead of 0.68.
    """
    if plan.rows.size > MOST_UNROLLED or any(s.keeps or s.writes for s in plan.stages):
        return False
    sizes = {output.array.dims for output in plan.outputs}
    return len(sizes) == 1 and bool(min(sizes)) and min(sizes)[-1] >= FEWEST_ROWS


EMITTER = Emitter("row-region", plan)
