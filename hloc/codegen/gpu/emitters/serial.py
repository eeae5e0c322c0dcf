"""Fallback: the CPU emitters, each independent part on one thread.

A kernel whose loop the CPU may split gets a thread per part; others run on a single thread. It is
correct for every opcode but slow: opcodes that matter have GPU emitters.
"""

from __future__ import annotations

from functools import partial

from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.kernels import reduce, row_region, select_and_scatter, triangular
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.linalg import inline
from hloc.dtypes import U8
from hloc.ir.instruction import Instruction
from hloc.memory.heap import aligned_bytes

_MOST_STACK_BYTES = 1 << 10
"""Scratch of at most this many bytes is local memory of each thread."""

_MOST_SCRATCH_BYTES = 1 << 26
"""Limit on the scratch of all threads; larger kernels run on fewer threads."""


def on_threads(emitter: Emitter[KernelContext]) -> Emitter[LaunchWriter]:
    """Return an emitter for GPUs that emits the code of `emitter`."""

    def plan(inst: Instruction) -> GpuPlan | None:
        serial = emitter.plan(inst)
        if serial is None:
            return None
        size = serial.scratch_bytes
        if size <= _MOST_STACK_BYTES:
            return GpuPlan(partial(_emit, serial, serial.extent))
        threads = min(serial.extent, max(1, _MOST_SCRATCH_BYTES // aligned_bytes(size)))
        return GpuPlan(partial(_emit, serial, threads), scratch_bytes=aligned_bytes(size) * threads)

    return Emitter(f"{emitter.name}-on-threads", plan, emitter.roots)


def _emit(serial: KernelPlan[KernelContext], threads: int, w: LaunchWriter) -> None:
    size, extent = serial.scratch_bytes, serial.extent
    each = -(-extent // threads)
    with w.each(-(-extent // each)) as (k, thread):
        if w.has_scratch:
            mine = k.math.value(k.math.mul(thread, aligned_bytes(size)))
            k.scratch = pointer_value(k.b.address(k.scratch, U8, mine))
        elif size:
            k.scratch = k.b.allocate(U8, size)
        k.begin = k.math.mul(thread, each)
        k.end = k.math.minimum(k.math.add(k.begin, each), extent)
        serial.emit(k)


EMITTERS: tuple[Emitter[LaunchWriter], ...] = tuple(
    on_threads(emitter)
    for emitter in (
        row_region.EMITTER,
        reduce.EMITTER,
        select_and_scatter.EMITTER,
        triangular.SOLVE,
        inline.EMITTER,
    )
)
