"""Factorisations and solvers on CPUs: a kernel is one call of a routine.

Small matrices of a batch are computed in vectors, one matrix per lane; others one after another.
"""

from __future__ import annotations

from functools import partial
from math import prod

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
from hloc.dtypes import F32, component_of
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

CUBE_NANOSECONDS = {
    "cholesky": 0.06, "solve": 0.4, "tridiagonal": 0.0, "lu": 0.5, "qr": 1.0, "q": 1.0,
    "apply": 1.0, "eigen": 2.0, "singular": 2.0, "values": 2.0,
}  # fmt: skip
"""Estimated time of one thread by the first word of an algorithm, for matrices of f32: by the
product of three sizes, the first one taken again where there are fewer.

Measured, AVX2: eigenvalues 2.6 for 8x8, 1.8 for 32x32, singular values 2.7 for 16x8, LU 0.6 for
4x4 and 0.4 for 6x6 of c64, solutions 0.7 for 4x4 and 4 sides, Cholesky 0.05 for 16x16.
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
    group = _lanes(call) if in_lanes else 1
    return KernelPlan(
        partial(_emit, call, group),
        extent=-(-call.batch // group),
        scratch_bytes=size,
        nanoseconds=_nanoseconds(call),
    )


def _nanoseconds(call: LinalgCall) -> int:
    """Estimate the time of all matrices on one thread."""
    sizes = [size for _, size in call.sizes]
    cube = prod((*sizes, sizes[0], sizes[0])[:3])
    words = call.dtype.storage_bytes // F32.storage_bytes
    each = CUBE_NANOSECONDS[call.algorithm.name.partition("-")[0]]
    return int(call.batch * cube * words * each)


def _has_own_kernel(call: LinalgCall) -> bool:
    """True for the systems that `kernels/triangular.py` solves faster, which copies no matrix."""
    sizes = dict(call.sizes)
    is_small = sizes["n"] < _SMALLEST or sizes["k"] < _FEWEST_SIDES
    return is_small and sizes["k"] >= _FEWEST


def _emit(call: LinalgCall, group: int, k: KernelContext) -> None:
    """Emit the call for the kernel's groups of matrices."""
    with_lanes = group > 1 and lanes_of(call.dtype, k.target) > 0
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
    begin, end = k.math.mul(k.begin, group), k.math.mul(k.end, group)
    bounds = (k.math.value(x) for x in (begin, k.math.minimum(end, call.batch)))
    k.b.call_routine(routine.name, (*pointers, k.scratch, table), *bounds)
    k.level = 0  # all work is in the routine


def _lanes_bytes(call: LinalgCall) -> int:
    """Return the workspace for as many matrices as the widest vector has lanes."""
    elements = call.algorithm.elements(dict(call.sizes), with_lanes=True)
    return elements * _lanes(call) * call.dtype.storage_bytes


def _lanes(call: LinalgCall) -> int:
    """Return the lanes of the widest vector: the matrices that threads take together."""
    return _WIDEST_VECTOR_BYTES // component_of(call.dtype).storage_bytes
