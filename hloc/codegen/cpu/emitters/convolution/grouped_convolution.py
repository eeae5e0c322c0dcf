"""Recognises convolutions of small groups that `grouped_routine` computes, and emits the call."""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.cpu.emitters.convolution.grouped_arguments import (
    SPATIAL_DIMS,
    OuterDim,
    SpatialDim,
    grouped_numbers,
)
from hloc.codegen.cpu.emitters.convolution.grouped_routine import (
    MAX_INPUTS,
    GroupForm,
    grouped_routine,
)
from hloc.codegen.cpu.emitters.gemm.packed_gemm_call import number_table
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.operands import operand_bytes
from hloc.codegen.kernels.panel_gemm import accumulator_dtype
from hloc.dtypes import F32, F64
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.ops.folding import LONG_SUM

_FEWEST_FEATURES = 4


def call_grouped(k: KernelContext, lhs: IrArray, rhs: IrArray, shared: int | None) -> bool:
    """Emit the call of the routine; return False if it does not support the convolution.

    Args:
        k: the kernel of a convolution.
        lhs: the input.
        rhs: the kernel of the convolution.
        shared: the dimension of the result that threads share.
    """
    form = _form(k, lhs, rhs)
    if form is None:
        return False
    labels = k.root.attributes.dim_labels
    out, offset = k.output, 0
    spatial: list[SpatialDim] = []

    def outer_dim(place: int, step: int) -> OuterDim:
        size = out.dims[place]
        part = (1, 0) if place == shared else (0, size)
        return OuterDim(size, *part, step, out.strides[place])

    for n, d in enumerate(_window(k)):
        place, step = labels.output_spatial[n], lhs.strides[labels.input_spatial[n]]
        along = rhs.strides[labels.kernel_spatial[n]]
        if d.reversal:
            offset += (d.size - 1) * along
            along = -along
        held = lhs.dims[labels.input_spatial[n]]
        sizes = (held, d.size, d.stride, d.pad_low, d.window_dilation)
        spatial.append(SpatialDim(outer_dim(place, step), *sizes, along))
    nothing = SpatialDim(OuterDim(1, 0, 1, 0, 0), 1, 1, 1, 0, 1, 0)
    spatial = [nothing] * (SPATIAL_DIMS - len(spatial)) + spatial
    batch = outer_dim(labels.output_batch, lhs.strides[labels.input_batch])
    numbers = grouped_numbers(out.dims[labels.output_feature], batch, spatial)
    routine = grouped_routine(form, k.target)
    k.use(routine)
    if not operand_bytes(k.inst):
        k.level = 0  # almost all time is spent in the routine
    kernel = k.b.offset_pointer(rhs.pointer, offset * form.dtype.storage_bytes)
    table = f"ptr {number_table(k, numbers)}"
    k.b.call_routine(routine.name, (lhs.pointer, kernel, out.pointer), k.begin, k.end, table)
    return True


def is_long_sum(root: Instruction) -> bool:
    """True if elements of a convolution in f32 or narrower are long sums (`LONG_SUM`)."""
    a, kernel = root.attributes, root.operands[1].array
    sizes = [d.size for d in (a.window or Window()).dimensions]
    addends = prod(sizes) * kernel.dims[a.dim_labels.kernel_input_feature]
    return accumulator_dtype(root.array.dtype) is F32 and addends > LONG_SUM


def _window(k: KernelContext) -> tuple[WindowDimension, ...]:
    return (k.root.attributes.window or Window()).dimensions


def _form(k: KernelContext, lhs: IrArray, rhs: IrArray) -> GroupForm | None:
    """Return the form of the routine, None if features are not contiguous, or are many."""
    a, out = k.root.attributes, k.output
    labels, groups = a.dim_labels, a.feature_group_count
    dtype, features = out.dtype, out.dims[labels.output_feature]
    window = _window(k)
    if a.batch_group_count > 1 or groups == 1 or features < _FEWEST_FEATURES:
        return None
    if is_long_sum(k.root):
        return None
    if {lhs.dtype, rhs.dtype, dtype} != {dtype} or dtype not in (F32, F64):
        return None
    if len(window) > SPATIAL_DIMS or any(d.base_dilation > 1 for d in window):
        return None
    steps = (
        lhs.strides[labels.input_feature],
        rhs.strides[labels.kernel_output_feature],
        out.strides[labels.output_feature],
    )
    inputs, outputs = rhs.dims[labels.kernel_input_feature], features // groups
    if steps != (1, 1, 1) or inputs > MAX_INPUTS:
        return None
    if inputs > 1 and rhs.strides[labels.kernel_input_feature] != features:
        return None
    fits = outputs * dtype.bits <= k.target.vector_bits
    return GroupForm(inputs, outputs, dtype) if fits else None
