"""Eigenvalues and singular values by SciPy's LAPACK, called from machine code.

A kernel receives the routine's address as an argument. It copies one matrix after another into the
routine's working memory and calls it; no Python runs.
"""

from __future__ import annotations

from functools import partial
from math import prod

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import LIBRARY_FUNCTION, KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.linalg.lapack import Argument, LapackCall, Memory, lapack_call
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan the kernel of a custom call that LAPACK serves."""
    call = lapack_call(inst)
    if call is None:
        return None
    size = sum(_room(argument) for argument in call.arguments)
    return KernelPlan(partial(_emit, call), scratch_bytes=size, library_function=call.routine)


def _room(argument: Argument) -> int:
    return aligned_bytes(argument.size_bytes) if isinstance(argument, Memory) else 0


def _emit(call: LapackCall, k: KernelContext) -> None:
    """Write the loop over the batch, on one thread: the library has threads of its own."""
    batch_dims = call.source.dims[:-2]
    (source,), target = k.inputs, k.outputs[0]
    for output, shape in zip(k.outputs[2:-1], call.results[2:-1], strict=True):
        if call.arguments[0] == "N":  # which the routine leaves alone
            k.b.clear(output.pointer, shape.size_bytes)
    with k.body.nest(batch_dims, range(len(batch_dims))) as batch:
        m, n = call.source.dims[-2:]
        with k.body.loop(0, n) as j, k.body.loop(0, m) as i:
            index = (*batch, i, j)
            target.store(k.math, index, source.load(k.math, index))
        offset, pointers = 0, []
        for argument in call.arguments:
            pointers.append(_pointer(k, call, argument, batch, offset))
            offset += _room(argument)
        given = ", ".join(f"ptr {pointer}" for pointer in pointers)
        k.fn.line(f"call void {LIBRARY_FUNCTION}({given})")


def _pointer(
    k: KernelContext, call: LapackCall, argument: Argument, batch: list[IndexValue], offset: int
) -> str:
    """Return the address of an argument; memory lies at `offset` in the scratch memory."""
    if isinstance(argument, str):
        return k.fn.byte_constant(argument.encode())
    if isinstance(argument, int):
        return k.fn.global_constant("i32", str(argument))
    if isinstance(argument, Memory):
        return k.b.offset_pointer(k.scratch, offset).text
    output, shape = k.outputs[argument.number], call.results[argument.number]
    index = (*batch, *[0] * (shape.rank - len(batch)))
    place = k.math.linear(index, output.strides)
    assert isinstance(place, (int, Value)), prod(shape.dims)
    return k.b.address(output.pointer, output.dtype, place)


EMITTER = Emitter("lapack", plan, roots=("custom-call",))
