"""Which fusions can be one kernel on a GPU."""

from __future__ import annotations

from hloc.codegen.gpu.emitters.attention import attention
from hloc.codegen.gpu.emitters.gemm.gemm_epilogue import gemm_root, is_gemm
from hloc.codegen.gpu.emitters.reduction import row_region
from hloc.codegen.lower.fusible import is_beyond
from hloc.ir.instruction import Instruction


def needs_defusion(inst: Instruction) -> bool:
    """True if fusion `inst` must be taken apart before kernels are made."""
    if attention.plan(inst):
        return False
    core = gemm_root(inst) if is_gemm(inst) else None
    return is_beyond(inst, row_region.plan(inst) is not None, core)
