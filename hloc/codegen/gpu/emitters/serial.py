"""The way of last resort: the emitters of the processor, each independent part on one thread.

Kernels whose loops the processor may split get a thread per part; others run on a single thread.
Right for everything, fast for nothing: an opcode that matters has an emitter of its own.
"""

from __future__ import annotations

from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.kernel import GpuEmitter
from hloc.codegen.kernels import reduce, row_region, select_and_scatter, triangular
from hloc.codegen.kernels.emitter import Emitter
from hloc.dtypes import U8
from hloc.ir.instruction import Instruction

_MOST_STACK_BYTES = 1 << 10
"""Working memory up to which every thread has its own, as local memory."""

_MOST_SCRATCH_BYTES = 1 << 26
"""Working memory of all threads together; fewer threads run where it is not enough."""


def on_threads(emitter: Emitter) -> GpuEmitter:
    """Return an emitter for GPUs that writes what `emitter` writes."""

    def threads(inst: Instruction) -> int:
        extent, size = emitter.extent(inst), emitter.scratch_bytes(inst)
        return extent if size <= _MOST_STACK_BYTES else min(extent, _most_threads(size))

    def scratch_bytes(inst: Instruction) -> int:
        size = emitter.scratch_bytes(inst)
        return 0 if size <= _MOST_STACK_BYTES else _aligned(size) * threads(inst)

    def emit(w: LaunchWriter) -> None:
        size, extent, count = emitter.scratch_bytes(w.inst), emitter.extent(w.inst), threads(w.inst)
        each = -(-extent // count)
        with w.each(-(-extent // each)) as (k, thread):
            if w.has_scratch:
                mine = k.math.value(k.math.mul(thread, _aligned(size)))
                k.scratch = pointer_value(k.b.address(k.scratch, U8, mine))
            elif size:
                k.scratch = k.b.allocate(U8, size)
            k.begin = k.math.mul(thread, each)
            k.end = k.math.minimum(k.math.add(k.begin, each), extent)
            emitter.emit(k)

    return GpuEmitter(f"{emitter.name} on threads", emitter.can_emit, emit, scratch_bytes)


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def _most_threads(size: int) -> int:
    return max(1, _MOST_SCRATCH_BYTES // _aligned(size))


EMITTERS: tuple[GpuEmitter, ...] = tuple(
    on_threads(emitter)
    for emitter in (
        row_region.EMITTER,
        reduce.EMITTER,
        select_and_scatter.EMITTER,
        triangular.SOLVE,
    )
)
