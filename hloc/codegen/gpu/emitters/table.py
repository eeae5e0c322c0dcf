"""The emitters of GPU kernels in the order in which they are asked."""

from __future__ import annotations

from hloc.codegen.gpu.emitters import (
    cumulative,
    dynamic_update_slice,
    fft,
    loop,
    matrix_product,
    reduce,
    row_region,
    scatter,
    select_and_scatter,
    serial,
    sort,
    topk,
    transpose,
    triangular,
)
from hloc.codegen.gpu.kernel import GpuEmitter
from hloc.ir.instruction import Instruction

EMITTERS: tuple[GpuEmitter, ...] = (
    row_region.EMITTER,
    matrix_product.EMITTER,
    reduce.EMITTER,
    cumulative.EMITTER,
    fft.EMITTER,
    sort.EMITTER,
    topk.EMITTER,
    scatter.EMITTER,
    select_and_scatter.EMITTER,
    dynamic_update_slice.EMITTER,
    triangular.SOLVE,
    triangular.CHOLESKY,
    *serial.EMITTERS,
    transpose.EMITTER,
    loop.EMITTER,
)


def emitter_for(inst: Instruction) -> GpuEmitter | None:
    """Return the first emitter that can write the kernel of `inst`, or None."""
    return next((emitter for emitter in EMITTERS if emitter.can_emit(inst)), None)
