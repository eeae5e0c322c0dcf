"""Factorisations and solvers on CPUs: a kernel is one call of a routine.

Small matrices of a batch are computed in vectors, one matrix per lane; others one after another.
"""

from __future__ import annotations

from functools import partial

from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import number_table
from hloc.codegen.cpu.emitters.linalg.linalg_routines import (
    called_routines,
    lanes_of,
    linalg_routine,
    routine_form,
    table_of,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.linalg.calls import LinalgCall, call_of
from hloc.codegen.kernels.linalg.inline import strided
from hloc.codegen.kernels.linalg.transfer import FEW_ROWS
from hloc.dtypes import component_of
from hloc.ir.instruction import Instruction

_WIDEST_VECTOR_BYTES = 64

_LANES_BYTES = 256 << 10
"""Most workspace of matrices in lanes, for locality in the cache."""

_FEWEST = 4
"""Smallest batch for which lanes pay."""

_SMALLEST, _FEWEST_SIDES = 128, 32
"""Unknowns and right-hand sides of a triangular system for which products of blocks pay.

A system of 80 unknowns takes 1.2 to 1.7 times as long with them, four right-hand sides 1.3 times.
"""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a call that has an algorithm; a few large systems have another kernel."""
    call = call_of(inst)
    if call is None:
        return None
    in_lanes = call.batch >= _FEWEST and _lanes_bytes(call) <= _LANES_BYTES
    size = _lanes_bytes(call) if in_lanes else call.bytes_with_blocks
    if inst.is_a("triangular-solve") and not in_lanes and _has_own_kernel(call):
        return None
    return KernelPlan(partial(_emit, call, in_lanes), call.batch, size)


def _has_own_kernel(call: LinalgCall) -> bool:
    """True for the systems that `kernels/triangular.py` solves faster, which copies no matrix."""
    sizes = dict(call.sizes)
    is_small = sizes["n"] < _SMALLEST or sizes["k"] < _FEWEST_SIDES
    return is_small and sizes["k"] >= _FEWEST


def _emit(call: LinalgCall, in_lanes: bool, k: KernelContext) -> None:
    with_lanes = in_lanes and lanes_of(call.dtype, k.target) > 0
    has_blocks = with_lanes and max(size for _, size in call.sizes) > FEW_ROWS
    algorithm, order = routine_form(call.algorithm)
    routine = linalg_routine(
        algorithm, call.dtype, k.target, with_lanes=with_lanes, has_blocks=has_blocks
    )
    for unit in (routine, *called_routines(algorithm, call.dtype, k.target)):
        k.use(unit)
    arrays = (*k.inputs, *k.outputs)
    pointers = [strided(k, arrays[i], call.views[i]).pointer for i in order]
    table = number_table(k, table_of(call, order))
    k.b.call_routine(routine.name, (*pointers, k.scratch, table), k.begin, k.end)
    k.level = 0  # all work is in the routine


def _lanes_bytes(call: LinalgCall) -> int:
    """Return the workspace for as many matrices as the widest vector has lanes."""
    elements = call.algorithm.elements(dict(call.sizes), with_lanes=True)
    lanes = _WIDEST_VECTOR_BYTES // component_of(call.dtype).storage_bytes
    return elements * lanes * call.dtype.storage_bytes
