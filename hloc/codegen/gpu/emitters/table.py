"""GPU kernel emitters in order of preference."""

from __future__ import annotations

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitters import loop, random_bits, serial, triangular
from hloc.codegen.gpu.emitters.attention import attention
from hloc.codegen.gpu.emitters.fft import fft
from hloc.codegen.gpu.emitters.gemm import gemm
from hloc.codegen.gpu.emitters.movement import dynamic_update_slice, transpose
from hloc.codegen.gpu.emitters.reduction import cumulative, reduce, row_region, select_and_scatter
from hloc.codegen.gpu.emitters.scatter import scatter, scatter_sorted, scatter_windows
from hloc.codegen.gpu.emitters.sort import sort, topk
from hloc.codegen.kernels.emitter import Emitter

EMITTERS: tuple[Emitter[LaunchWriter], ...] = (
    row_region.EMITTER,
    attention.EMITTER,
    gemm.EMITTER,
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
