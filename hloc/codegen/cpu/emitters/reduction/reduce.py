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
from hloc.codegen.kernels.reduce_problem import ReduceProblem, reduce_problem
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a call of a routine, and the loops for where the routine does not fit the target."""
    problem = reduce_problem(inst)
    if problem is None:
        return None
    extent = reduce.extent_of(problem)
    return KernelPlan(partial(_emit, plain_reduction(inst), problem, extent), extent)


def _emit(
    plain: PlainReduction | None, problem: ReduceProblem, extent: int, k: KernelContext
) -> None:
    if plain is None or not emit_plain(k, plain, extent):
        reduce.emit(problem, k)


EMITTER = Emitter("reduce", plan)
