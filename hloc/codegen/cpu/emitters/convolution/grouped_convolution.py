"""Recognises convolutions of small groups and of one output feature; emits calls of routines."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloc.analysis.small_groups import SPATIAL_DIMS, small_groups
from hloc.codegen.builder.index import layout_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.cpu.emitters.convolution import filter_rows
from hloc.codegen.cpu.emitters.convolution.feature_sums import FeatureSums, feature_sums_routine
from hloc.codegen.cpu.emitters.convolution.filter_rows import FilterRows, filter_rows_routine
from hloc.codegen.cpu.emitters.convolution.grouped_arguments import (
    OuterDim,
    SpatialDim,
    grouped_numbers,
)
from hloc.codegen.cpu.emitters.convolution.grouped_routine import (
    CHUNK_ALONE,
    UNROLLED,
    GroupForm,
    grouped_routine,
)
from hloc.codegen.cpu.emitters.convolution.row_sums import MAX_ROW
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import Epilogue, number_table
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.panel_gemm import accumulator_dtype
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.ops.folding import LONG_SUM
from hloc.shapes import ArrayShape

KERNEL_BYTES = 1 << 14
"""Most bytes of the kernel for features that go through a line together: half of a first-level
cache.

Time relative to all features at a time, AVX2: 0.82 for windows of 5x5 over 8x28x28x120, 0.77 over
8x7x7x960.
"""


def group_form(
    convolution: Instruction, lhs: ArrayShape, rhs: ArrayShape, bits: int
) -> GroupForm | None:
    """Return the form of the routine with vectors of `bits`, None if it does not support this."""
    if is_long_sum(convolution):
        return None
    groups = small_groups(convolution, lhs, rhs, bits)
    if groups is None:
        return None
    dtype, line = convolution.array.dtype, None
    if dtype is F32 and groups.inputs == groups.outputs == 1:
        line = _line(_window(convolution))
    return GroupForm(groups.inputs, groups.outputs, dtype, line)


def one_feature_form(
    convolution: Instruction, lhs: ArrayShape, rhs: ArrayShape, target: Target
) -> FeatureSums | FilterRows | None:
    """Return the form of a routine for one output feature, None if none supports it on `target`.

    They need loads of some lanes of a vector.
    """
    a, dtype = convolution.attributes, convolution.array.dtype
    labels, window = a.dim_labels, _window(convolution)
    if a.batch_group_count > 1 or convolution.array.dims[labels.output_feature] != 1:
        return None
    if {lhs.dtype, rhs.dtype} != {dtype} or dtype not in (F32, F64) or is_long_sum(convolution):
        return None
    if len(window) > SPATIAL_DIMS or any(d.base_dilation > 1 for d in window):
        return None
    if lhs.dims[labels.input_feature] == 1:
        has_rows = target.has("avx2") and _has_rows(convolution, lhs)
        width = window[-1].size if has_rows and window[-1].size in filter_rows.UNROLLED else 0
        return FilterRows(dtype, width) if has_rows else None
    step = layout_strides(lhs)[labels.input_feature]
    is_run = step == layout_strides(rhs)[labels.kernel_input_feature] == 1
    return FeatureSums(dtype) if is_run and target.has("avx2") else None


def _has_rows(convolution: Instruction, lhs: ArrayShape) -> bool:
    """True if windows of neighbouring results along the last dimension lie along a row."""
    window, labels = _window(convolution), convolution.attributes.dim_labels
    if not window or window[-1].stride != 1:
        return False
    place, d = labels.input_spatial[-1], window[-1]
    steps = layout_strides(lhs)[place], layout_strides(convolution.array)[labels.output_spatial[-1]]
    return steps == (1, 1) and lhs.dims[place] + d.size * d.window_dilation < MAX_ROW


def _line(window: Sequence[WindowDimension]) -> tuple[int, int] | None:
    """Return size and stride of the last dimension if loops over it are unrolled."""
    if not window or window[-1].window_dilation > 1:
        return None
    line = window[-1].size, window[-1].stride
    return line if line in UNROLLED else None


def call_grouped(
    k: KernelContext,
    form: GroupForm | FeatureSums | FilterRows,
    convolution: Instruction,
    operands: tuple[IrArray, IrArray],
    shared: int | None,
    epilogue: Epilogue | None = None,
) -> None:
    """Emit the call of the routine.

    Args:
        k: the kernel.
        form: that of `group_form` or `one_feature_form`.
        convolution: its instruction, in the kernel.
        operands: the input, and the kernel of the convolution.
        shared: the dimension of the result that threads share.
        epilogue: what follows the sums; without, they are the kernel's only result.
    """
    lhs, rhs = operands
    labels = convolution.attributes.dim_labels
    out, offset = epilogue.sums if epilogue else k.output, 0
    spatial: list[SpatialDim] = []

    def outer_dim(place: int, step: int) -> OuterDim:
        size = out.dims[place]
        part = (1, 0) if place == shared else (0, size)
        return OuterDim(size, *part, step, out.strides[place])

    for n, d in enumerate(_window(convolution)):
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
    if isinstance(form, FeatureSums):
        features = part = lhs.dims[labels.input_feature]
        routine = feature_sums_routine(form, k.target)
    elif isinstance(form, FilterRows):
        features = part = 1
        routine = filter_rows_routine(form, k.target)
    else:
        features, part = out.dims[labels.output_feature], _feature_part(k, form, spatial)
        routine = grouped_routine(form, k.target)
    numbers = grouped_numbers((features, part), batch, spatial)
    k.use(routine)
    kernel = k.b.offset_pointer(rhs.pointer, offset * form.dtype.storage_bytes)
    finish = (f"@{epilogue.function}", epilogue.context) if epilogue else ("null", "null")
    others = [f"ptr {x}" for x in (number_table(k, numbers), *finish)]
    k.b.call_routine(routine.name, (lhs.pointer, kernel, out.pointer), k.begin, k.end, *others)


def _feature_part(k: KernelContext, form: GroupForm, spatial: Sequence[SpatialDim]) -> int:
    """Return how many features go through a line at a time: chunks of whole vectors."""
    lanes = k.target.vector_bits // form.dtype.bits
    chunk = CHUNK_ALONE * (lanes // form.outputs) * form.outputs
    feature_bytes = form.inputs * form.dtype.storage_bytes * prod(d.window for d in spatial)
    return max(KERNEL_BYTES // feature_bytes // chunk, 1) * chunk


def is_long_sum(root: Instruction) -> bool:
    """True if elements of a convolution in f32 or narrower are long sums (`LONG_SUM`)."""
    a, kernel = root.attributes, root.operands[1].array
    sizes = [d.size for d in (a.window or Window()).dimensions]
    addends = prod(sizes) * kernel.dims[a.dim_labels.kernel_input_feature]
    return accumulator_dtype(root.array.dtype) is F32 and addends > LONG_SUM


def _window(convolution: Instruction) -> tuple[WindowDimension, ...]:
    return (convolution.attributes.window or Window()).dimensions
