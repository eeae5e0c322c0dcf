"""The emitters of GPU kernels in the order in which they are asked."""

from __future__ import annotations

from hloc.codegen.gpu.emitters import (
    dynamic_update_slice,
    loop,
    matrix_product,
    reduce,
    row_region,
    scatter,
    serial,
    sort,
    transpose,
)
from hloc.codegen.gpu.kernel import GpuEmitter
from hloc.ir.instruction import Instruction

EMITTERS: tuple[GpuEmitter, ...] = (
    row_region.EMITTER,
    matrix_product.EMITTER,
    reduce.EMITTER,
    sort.EMITTER,
    scatter.EMITTER,
    dynamic_update_slice.EMITTER,
    *serial.EMITTERS,
    transpose.EMITTER,
    loop.EMITTER,
)


def emitter_for(inst: Instruction) -> GpuEmitter | None:
    """Return the first emitter that can write the kernel of `inst`, or None."""
    return next((emitter for emitter in EMITTERS if emitter.can_emit(inst)), None)
