"""Arrays of zeros, by the C library's `memset`; LLVM's passes are not needed."""

from __future__ import annotations

from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.streaming import STREAMED_BYTES
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.dtypes import U8
from hloc.ir.instruction import Instruction


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a broadcast of a constant all of whose bits are zero; None if it is not one.

    The constant is inside the fusion: kernels are shared, so they do not depend on values of
    operands. Non-temporal stores and small results are left to the loop emitter.
    """
    root = root_of(inst)
    if root is inst:
        return None
    (source,) = root.operands
    shape = root.array
    if not source.is_a("constant") or not _LEAST_BYTES <= shape.size_bytes < STREAMED_BYTES:
        return None
    value = source.attributes.literal.uniform
    if value is None or any(value.tobytes()):
        return None
    return KernelPlan(_emit, shape.elements)


def _emit(k: KernelContext) -> None:
    """Clear the part of the result, whose order in memory does not matter."""
    item = k.root.array.dtype.storage_bytes
    first, count = k.math.mul(k.begin, item), k.math.sub(k.end, k.begin)
    start = pointer_value(k.b.address(k.outputs[0].pointer, U8, first))
    k.b.clear(start, k.math.value(k.math.mul(count, item)).text)
    k.level = 0


_LEAST_BYTES = 256
"""For fewer bytes, stores are faster than a call."""

EMITTER = Emitter("zeros", plan, roots=("broadcast",))
