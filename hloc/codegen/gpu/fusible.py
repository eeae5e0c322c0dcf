"""Which fusions can be one kernel on a GPU."""

from __future__ import annotations

from hloc.codegen.emitters.table import STRUCTURAL
from hloc.codegen.fusible import is_beyond
from hloc.codegen.gpu.emitters import attention, row_region
from hloc.codegen.gpu.emitters.matrix_epilogue import is_product, product_root
from hloc.ir.instruction import Instruction


def needs_defusion(inst: Instruction) -> bool:
    """True if fusion `inst` must be taken apart before kernels are made."""
    if attention.can_emit(inst):
        return False
    core = product_root(inst) if is_product(inst) else None
    return is_beyond(inst, STRUCTURAL, row_region.can_emit(inst), core)
