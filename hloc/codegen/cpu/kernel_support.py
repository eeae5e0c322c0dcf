"""What the kernel emitters cannot do, asked before any code is made."""

from __future__ import annotations

from hloc.codegen.cpu.emitters.table import emitter_for
from hloc.codegen.plan.kernel_request import needs_kernel
from hloc.ir.instruction import Instruction


def unsupported_reason(inst: Instruction) -> str:
    """Return why there is no kernel for `inst`, "" if there is one."""
    if not needs_kernel(inst) or emitter_for(inst) is None:
        return "there is no code generator for it yet"
    return ""
