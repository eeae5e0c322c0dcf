"""The emitters, in order of preference; the general loop comes last."""

from __future__ import annotations

from hloc.codegen.cpu.emitters import loop, unrolled
from hloc.codegen.cpu.emitters.attention import attention
from hloc.codegen.cpu.emitters.convolution import (
    convolution_gemm,
    dilated_gemm,
    direct_convolution,
    grouped_epilogue,
    windowed_gemm,
    winograd,
)
from hloc.codegen.cpu.emitters.fft import fft
from hloc.codegen.cpu.emitters.gemm import dot, gemm_epilogue
from hloc.codegen.cpu.emitters.linalg import lapack, linalg
from hloc.codegen.cpu.emitters.movement import concatenate, dynamic_update_slice, pad, zeros
from hloc.codegen.cpu.emitters.reduction import cumulative, pool, reduce, row_region
from hloc.codegen.cpu.emitters.sort import sort, sort_calls, topk, topk_calls
from hloc.codegen.kernels import random_bits, scatter, select_and_scatter, triangular
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter

EMITTERS: tuple[Emitter[KernelContext], ...] = (
    unrolled.SUMS,
    attention.EMITTER,
    winograd.EPILOGUE,
    gemm_epilogue.EMITTER,
    grouped_epilogue.EMITTER,
    row_region.EMITTER,
    dot.EMITTER,
    reduce.EMITTER,
    cumulative.EMITTER,
    pool.EMITTER,
    dilated_gemm.EMITTER,
    winograd.EMITTER,
    windowed_gemm.EMITTER,
    convolution_gemm.EMITTER,
    direct_convolution.EMITTER,
    select_and_scatter.EMITTER,
    sort_calls.EMITTER,
    sort.EMITTER,
    topk_calls.EMITTER,
    topk.EMITTER,
    fft.EMITTER,
    linalg.EMITTER,
    lapack.EMITTER,
    triangular.SOLVE,
    triangular.CHOLESKY,
    random_bits.EMITTER,
    scatter.EMITTER,
    dynamic_update_slice.EMITTER,
    concatenate.EMITTER,
    zeros.EMITTER,
    unrolled.EMITTER,
    pad.EMITTER,
    loop.EMITTER,
)
