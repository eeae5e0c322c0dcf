"""Which fusions can be one kernel on a processor."""

from __future__ import annotations

from hloc.codegen.cpu.emitters.attention.attention_plan import attention_plan
from hloc.codegen.cpu.emitters.gemm import gemm_epilogue
from hloc.codegen.cpu.emitters.reduction import row_region
from hloc.codegen.lower.fusible import is_beyond
from hloc.ir.instruction import Instruction


def needs_defusion(inst: Instruction) -> bool:
    """True if fusion `inst` must be taken apart before kernels are made."""
    if attention_plan(inst) is not None:
        return False
    product = gemm_epilogue.core_of(inst)
    return is_beyond(inst, row_region.plan(inst) is not None, product)
