"""From a kernel request to the functions that are launched for it."""

from __future__ import annotations

from hloc.codegen.emitters.context import array_leaves
from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitters.table import emitter_for
from hloc.codegen.gpu.kernel import GpuKernel
from hloc.codegen.kernel import KernelRequest, needs_kernel
from hloc.codegen.target import Target
from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction


def unsupported_reason(inst: Instruction) -> str:
    """Return why there is no kernel for `inst`, "" if there is one."""
    if not needs_kernel(inst) or emitter_for(inst) is None:
        return "there is no code generator for it yet"
    return ""


def scratch_bytes(inst: Instruction) -> int:
    """Return the bytes of scratch memory that the kernel of `inst` needs."""
    emitter = emitter_for(inst) if needs_kernel(inst) else None
    return emitter.scratch_bytes(inst) if emitter else 0


def emit_kernel(request: KernelRequest, name: str, target: Target) -> GpuKernel:
    """Write the kernel of a request; its functions are named `name`, `name_1` ...

    Raises:
        UnsupportedError: no emitter can make it.
    """
    inst = request.inst
    emitter = emitter_for(inst)
    if emitter is None:
        raise UnsupportedError(f"{inst.opcode.name} is not supported on {target.cpu}", inst.span)
    scratch = emitter.scratch_bytes(inst)
    w = LaunchWriter(inst, request.aliased, name, target, scratch > 0)
    if any(leaf.elements for leaf in array_leaves(inst.shape)):
        emitter.emit(w)
    return GpuKernel(name, tuple(w.functions), scratch, inst.name)
