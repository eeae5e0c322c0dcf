"""Which emitter writes the kernel of an instruction."""

from typing import Any

from hloc.codegen.cpu import kernel
from hloc.codegen.gpu import emit
from hloc.codegen.kernels.emitter import Emitter
from hloc.ir.instruction import Instruction


def emitter_for(inst: Instruction) -> Emitter[Any] | None:
    """Return the emitter for processors, None if there is none."""
    planned = kernel.plan_kernel(inst)
    return planned.emitter if planned else None


def gpu_emitter_for(inst: Instruction) -> Emitter[Any] | None:
    """Return the emitter for GPUs, None if there is none."""
    planned = emit.plan_kernel(inst)
    return planned.emitter if planned else None
