"""The emitters, in the order they are asked; the general loop comes last."""

from __future__ import annotations

from hloc.codegen.emitters import (
    concatenate,
    dynamic_update_slice,
    loop,
    random_bits,
    scatter,
    triangular,
)
from hloc.codegen.emitters.attention import kernel as attention
from hloc.codegen.emitters.context import Emitter
from hloc.codegen.emitters.convolution import (
    convolution,
    convolution_product,
    dilated_product,
    windowed_product,
)
from hloc.codegen.emitters.fourier import fft
from hloc.codegen.emitters.product import dot, product_epilogue
from hloc.codegen.emitters.reduction import cumulative, pool, reduce, row_region, select_and_scatter
from hloc.codegen.emitters.sorting import sort, sort_calls, topk, topk_calls
from hloc.ir.instruction import Instruction

EMITTERS: tuple[Emitter, ...] = (
    attention.EMITTER,
    product_epilogue.EMITTER,
    row_region.EMITTER,
    dot.EMITTER,
    reduce.EMITTER,
    cumulative.EMITTER,
    pool.EMITTER,
    dot.CONVOLUTION,
    dilated_product.EMITTER,
    windowed_product.EMITTER,
    convolution_product.EMITTER,
    convolution.EMITTER,
    select_and_scatter.EMITTER,
    sort_calls.EMITTER,
    sort.EMITTER,
    topk_calls.EMITTER,
    topk.EMITTER,
    fft.EMITTER,
    triangular.SOLVE,
    triangular.CHOLESKY,
    random_bits.EMITTER,
    scatter.EMITTER,
    dynamic_update_slice.EMITTER,
    concatenate.EMITTER,
    loop.EMITTER,
)

STRUCTURAL = frozenset(emitter.name for emitter in EMITTERS[:-1])
"""Opcodes with an emitter of their own, which bear the emitter's name; as root of a kernel."""


def emitter_for(inst: Instruction) -> Emitter | None:
    """Return the first emitter that can write the kernel of `inst`, or None."""
    for emitter in EMITTERS:
        if emitter.can_emit(inst):
            return emitter
    return None
