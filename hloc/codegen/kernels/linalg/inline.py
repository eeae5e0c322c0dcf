"""The emitter that inlines an algorithm into the kernel, one matrix after another: for GPUs."""

from __future__ import annotations

from functools import partial

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.linalg.calls import ArrayView, LinalgCall, call_of
from hloc.codegen.kernels.linalg.loops import write_loops
from hloc.codegen.kernels.linalg.transfer import Strided
from hloc.codegen.kernels.linalg.work import Work
from hloc.ir.instruction import Instruction
from hloc.ops.rows.custom_call import is_linalg


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan the kernel of a custom call that stands for an algorithm."""
    call = call_of(inst) if is_linalg(inst) else None
    if call is None:
        return None
    return KernelPlan(partial(_emit, call), call.batch, call.bytes)


def _emit(call: LinalgCall, k: KernelContext) -> None:
    work = Work(k, call.dtype, dict(call.sizes))
    arrays = [strided(k, *pair) for pair in zip((*k.inputs, *k.outputs), call.views, strict=True)]
    write_loops(work, call.algorithm, arrays, k.scratch, k.begin, k.end)


def strided(k: KernelContext, array: IrArray, view: ArrayView) -> Strided:
    """Return the matrices of an array."""
    pointer = k.b.offset_pointer(array.pointer, view.offset * array.dtype.storage_bytes)
    return Strided(pointer, array.dtype, view.batch, view.row, view.column)


EMITTER = Emitter("linear-algebra", plan, roots=("custom-call",))
