"""From a kernel request to the functions that are launched for it."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitters.table import emitter_for
from hloc.codegen.gpu.kernel import GpuKernel
from hloc.codegen.gpu.library.table import library_call
from hloc.codegen.kernels.context import array_leaves
from hloc.codegen.llvm.target import Target
from hloc.codegen.plan.kernel_request import KernelRequest, needs_kernel
from hloc.errors import UnsupportedError
from hloc.ir.instruction import Instruction


def unsupported_reason(inst: Instruction) -> str:
    """Return why there is no kernel for `inst`, "" if there is one."""
    if not needs_kernel(inst) or emitter_for(inst) is None:
        return "there is no code generator for it yet"
    return ""


def scratch_bytes(inst: Instruction, libraries: Sequence[str] = ()) -> int:
    """Return the bytes of scratch memory that the kernel of `inst` needs.

    Args:
        inst: an instruction or a fusion.
        libraries: those that may make it.
    """
    found = library_call(inst, libraries)
    if found is not None:
        return found[1].workspace_bytes
    emitter = emitter_for(inst) if needs_kernel(inst) else None
    return emitter.scratch_bytes(inst) if emitter else 0


def emit_kernel(
    request: KernelRequest, name: str, target: Target, libraries: Sequence[str] = ()
) -> GpuKernel:
    """Write the kernel of a request; its functions are named `name`, `name_1` ...

    Args:
        request: what is wanted.
        name: of the kernel.
        target: the chip.
        libraries: those that may make it instead.

    Raises:
        UnsupportedError: no emitter can make it.
    """
    inst = request.inst
    found = library_call(inst, libraries)
    if found is not None:
        library, call = found
        w = LaunchWriter(inst, request.aliased, name, target, call.workspace_bytes > 0)
        library.finish(w, call)
        return GpuKernel(name, tuple(w.functions), call.workspace_bytes, inst.name, call)
    return _emit(request, name, target, 0)


def alternatives(request: KernelRequest, kernel: GpuKernel, target: Target) -> list[GpuKernel]:
    """Return `kernel`, and all others that make the same with the same memory."""
    emitter = emitter_for(request.inst)
    count = 1 if emitter is None else emitter.choices(request.inst, target)
    others = (_emit(request, f"{kernel.name}_c{i}", target, i) for i in range(1, count))
    return [kernel, *others]


def _emit(request: KernelRequest, name: str, target: Target, choice: int) -> GpuKernel:
    inst = request.inst
    emitter = emitter_for(inst)
    if emitter is None:
        raise UnsupportedError(f"{inst.opcode.name} is not supported on {target.cpu}", inst.span)
    scratch = emitter.scratch_bytes(inst)
    w = LaunchWriter(inst, request.aliased, name, target, scratch > 0, choice)
    if any(leaf.elements for leaf in array_leaves(inst.shape)):
        emitter.emit(w)
    return GpuKernel(name, tuple(w.functions), scratch, inst.name)
