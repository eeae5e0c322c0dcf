"""From a kernel request to the functions that are launched for it."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters import table
from hloc.codegen.gpu.emitters.attention import attention
from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import gemm_root, is_gemm
from hloc.codegen.gpu.emitters.reduction import row_region
from hloc.codegen.gpu.kernel import GpuKernel
from hloc.codegen.gpu.library.table import library_call
from hloc.codegen.kernels.emitter import Emitter, PlannedKernel, first_plan
from hloc.codegen.llvm.target import Target
from hloc.codegen.lower.fusible import is_beyond
from hloc.codegen.plan.kernel_request import KernelRequest, needs_kernel
from hloc.ir.instruction import Instruction
from hloc.shapes import array_leaves


def plan_kernel(
    inst: Instruction, libraries: Sequence[str] = ()
) -> PlannedKernel[LaunchWriter] | None:
    """Return the plan of the launches of `inst`, None if no emitter supports it.

    Args:
        inst: an instruction or a fusion.
        libraries: libraries that may replace kernels.
    """
    result = library_call(inst, libraries)
    if result is not None:
        library, call = result
        plan = GpuPlan(
            lambda w: library.finish(w, call), scratch_bytes=call.workspace_bytes, library=call
        )
        return PlannedKernel(Emitter(library.name, lambda inst: plan), plan)
    return first_plan(table.EMITTERS, inst) if needs_kernel(inst) else None


def needs_defusion(inst: Instruction) -> bool:
    """True if fusion `inst` must be defused before kernels are planned."""
    if attention.plan(inst):
        return False
    core = gemm_root(inst) if is_gemm(inst) else None
    return is_beyond(inst, row_region.plan(inst) is not None, core)


def emit_kernel(request: KernelRequest, name: str, target: Target) -> GpuKernel:
    """Emit the planned kernel of a request; its functions are named `name`, `name_1` ..."""
    return _emit(request, name, target, 0)


def alternatives(request: KernelRequest, kernel: GpuKernel, target: Target) -> list[GpuKernel]:
    """Return `kernel`, and all alternatives with the same result and the same scratch memory."""
    count = _plan_of(request).choices(target)
    others = (_emit(request, f"{kernel.name}_c{i}", target, i) for i in range(1, count))
    return [kernel, *others]


def _plan_of(request: KernelRequest) -> GpuPlan:
    planned = request.planned
    assert isinstance(planned, PlannedKernel)
    assert isinstance(planned.plan, GpuPlan)
    return planned.plan


def _emit(request: KernelRequest, name: str, target: Target, choice: int) -> GpuKernel:
    inst, plan = request.inst, _plan_of(request)
    w = LaunchWriter(inst, request.aliased, name, target, plan.scratch_bytes > 0, choice)
    if plan.library or any(leaf.elements for leaf in array_leaves(inst.shape)):
        plan.emit(w)
    return GpuKernel(name, tuple(w.functions), plan.scratch_bytes, inst.name, plan.library)
