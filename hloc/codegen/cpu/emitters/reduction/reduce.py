"""Reductions: the call of a routine where one fits, else the loops of `kernels/reduce`."""

from __future__ import annotations

from functools import partial

from hloc.codegen.cpu.emitters.reduction.plain_reduction import (
    PlainReduction,
    emit_plain,
    plain_reduction,
)
from hloc.codegen.kernels import reduce
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.reduce import ReductionLoops
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a call of a routine, and the loops for where the routine does not fit the target."""
    loops = reduce.loops_of(inst)
    if loops is None:
        return None
    return KernelPlan(partial(_emit, plain_reduction(inst), loops), loops.extent)


def _emit(plain: PlainReduction | None, loops: ReductionLoops, k: KernelContext) -> None:
    if plain is None or not emit_plain(k, plain, loops.extent):
        reduce.emit(loops, k)


EMITTER = Emitter("reduce", plan)
