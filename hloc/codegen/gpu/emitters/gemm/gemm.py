"""The emitter of dots and convolutions: selects the kernel of a gemm.

Gemms whose types allow it run on tensor cores, large ones by warpgroups if the chip has them; the
others are tiled. Few rows or columns use memory-bound kernels, and small gemms one thread per
element.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.gemm import few_rows, tensor_core, tiled_gemm, warpgroup_gemm
from hloc.codegen.gpu.emitters.gemm.convolution_problem import convolution_problem
from hloc.codegen.gpu.emitters.gemm.few_rows import MOST_ROWS
from hloc.codegen.gpu.emitters.gemm.gemm_elements import emit_elements
from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import gemm_root, is_gemm
from hloc.codegen.gpu.emitters.gemm.gemm_plan import TilePlan
from hloc.codegen.gpu.emitters.gemm.gemm_plan import scratch_bytes as scratch_for
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem, dot_problem
from hloc.codegen.gpu.emitters.gemm.tensor_core import emit_tensor_core
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import has_tensor_cores, kind_of
from hloc.codegen.gpu.emitters.gemm.tiled_gemm import emit_tiles
from hloc.codegen.gpu.emitters.gemm.warpgroup_gemm import emit_warpgroup_gemm, has_warpgroups
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.llvm.target import Target
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

SMALL_WORK = 1 << 12
"""Gemms with at most this many multiplications use one thread per element."""

_FEWEST_LINES = 8
"""For fewer rows or columns, most of the smallest tile would be empty."""


class Way(Enum):
    """The kinds of gemm kernels."""

    ELEMENTS = auto()
    FEW_ROWS = auto()
    TILES = auto()


def problem_of(inst: Instruction) -> MatrixProblem:
    """Return the gemm of `inst`, or inside of `inst`."""
    if gemm_root(inst).opcode.name == "convolution":
        return convolution_problem(inst)
    return dot_problem(inst)


def way_of(p: MatrixProblem) -> Way:
    """Return the kind of kernel for `p`, the same on all chips; tiles may use tensor cores."""
    fewest, depth = min(p.rows.count, p.columns.count), p.depth.count
    is_empty = any(side.operand.array.elements == 0 for side in (p.left, p.right))
    work = p.batch.count * p.rows.count * p.columns.count * depth
    # The other kernels use zeros beyond edges and in padding; f8e8m0fnu has no zero.
    has_zeros = all(s.dtype.has_sign or not s.dtype.is_float for s in (p.left, p.right))
    if is_empty or work <= SMALL_WORK or not has_zeros:
        return Way.ELEMENTS
    if fewest <= MOST_ROWS and kind_of(p) is None and few_rows.suits(p):
        return Way.FEW_ROWS
    return Way.ELEMENTS if fewest < _FEWEST_LINES else Way.TILES


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tiled kernel for a gemm: its plan, and the function that emits its launches."""

    plan: TilePlan
    emit: Callable[[LaunchWriter, MatrixProblem, TilePlan], None]


def candidates(p: MatrixProblem, target: Target) -> list[Candidate]:
    """Return the tiled kernels for `p` on a chip, ordered by the cost model."""
    kind = kind_of(p)
    if kind is None or not has_tensor_cores(target):
        return [Candidate(plan, emit_tiles) for plan in tiled_gemm.plans_for(p)]
    single = partial(emit_tensor_core, kind=kind)
    result = [Candidate(plan, single) for plan in tensor_core.plans_for(p, kind)]
    joint_kind = warpgroup_gemm.kind_for(p) if has_warpgroups(target) else None
    if joint_kind is None:
        return result
    joint = partial(emit_warpgroup_gemm, kind=joint_kind)
    others = [Candidate(plan, joint) for plan in warpgroup_gemm.plans_for(p, joint_kind)]
    return others + result if warpgroup_gemm.is_faster(p, joint_kind, kind) else result + others


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a dot or a convolution, alone or inside a fusion."""
    if not is_gemm(inst):
        return None
    p = problem_of(inst)
    match way_of(p):
        case Way.ELEMENTS:
            return GpuPlan(lambda w: emit_elements(w, p))
        case Way.FEW_ROWS:
            few = partial(few_rows.emit_few_rows, p=p)
            return GpuPlan(few, scratch_bytes=few_rows.scratch_for(p))
        case Way.TILES:
            room = _tile_scratch_bytes(p)
            return GpuPlan(
                partial(_emit_tiles, p, room),
                scratch_bytes=room,
                choices=lambda target: len(_fitting(p, room, target)),
            )


def _tile_scratch_bytes(p: MatrixProblem) -> int:
    """Return the scratch bytes for the sums of parts, the maximum over all chips."""
    plans = [tiled_gemm.plans_for(p)[0]]
    kind = kind_of(p)
    if kind is not None:
        plans.append(tensor_core.plans_for(p, kind)[0])
        joint_kind = warpgroup_gemm.kind_for(p)
        if joint_kind is not None and warpgroup_gemm.is_faster(p, joint_kind, kind):
            plans.append(warpgroup_gemm.plans_for(p, joint_kind)[0])
    return max(scratch_for(p, plan.parts) for plan in plans)


def _fitting(p: MatrixProblem, room: int, target: Target) -> list[Candidate]:
    """Return the kernels that a chip may use: those whose sums of parts fit into `room` bytes."""
    return [c for c in candidates(p, target) if scratch_for(p, c.plan.parts) <= room]


def _emit_tiles(p: MatrixProblem, room: int, w: LaunchWriter) -> None:
    chosen = _fitting(p, room, w.target)[w.choice]
    chosen.emit(w, p, chosen.plan)


EMITTER = Emitter("gemm", plan)
