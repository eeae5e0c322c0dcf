"""The emitters of GPU kernels in the order in which they are asked."""

from __future__ import annotations

from hloc.codegen.gpu.emitters import (
    attention,
    cumulative,
    dynamic_update_slice,
    fft,
    loop,
    matrix_product,
    random_bits,
    reduce,
    row_region,
    scatter,
    scatter_sorted,
    scatter_windows,
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
    attention.EMITTER,
    matrix_product.EMITTER,
    reduce.EMITTER,
    cumulative.EMITTER,
    fft.EMITTER,
    sort.EMITTER,
    topk.EMITTER,
    scatter_sorted.EMITTER,
    scatter.EMITTER,
    scatter_windows.EMITTER,
    select_and_scatter.EMITTER,
    dynamic_update_slice.EMITTER,
    triangular.SOLVE,
    triangular.CHOLESKY,
    random_bits.EMITTER,
    *serial.EMITTERS,
    transpose.EMITTER,
    loop.EMITTER,
)


def emitter_for(inst: Instruction) -> GpuEmitter | None:
    """Return the first emitter that can write the kernel of `inst`, or None."""
    return next((emitter for emitter in EMITTERS if emitter.can_emit(inst)), None)
