"""Recognises convolutions of small groups and of few output features; emits calls of routines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from hloc.analysis.small_groups import SPATIAL_DIMS, small_groups
from hloc.codegen.builder.index import layout_strides, loop_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.convolution import filter_rows
from hloc.codegen.cpu.emitters.convolution.feature_sums import (
    FEW_FEATURES,
    FeatureSums,
    feature_sums_routine,
)
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
from hloc.codegen.cpu.emitters.convolution.padding_routine import copy_lines
from hloc.codegen.cpu.emitters.convolution.residues import Residue, residues_of, skips_holes
from hloc.codegen.cpu.emitters.convolution.row_sums import MAX_ROW
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import Epilogue, number_table
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.panel_gemm import accumulator_dtype
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64
from hloc.ir.attributes import ConvolutionDimensions, Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.memory.panels import panel_width
from hloc.ops.folding import LONG_SUM
from hloc.shapes import ArrayShape, Layout

KERNEL_BYTES = 1 << 14
"""Most bytes of the kernel for features that go through a line together: half of a first-level
cache.

Time relative to all features at a time, AVX2: 0.82 for windows of 5x5 over 8x28x28x120, 0.77 over
8x7x7x960.
"""

MAX_RESIDUES = 64
"""Most residues of an input with holes, each of which is a call."""


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


def few_features_form(
    convolution: Instruction, lhs: ArrayShape, rhs: ArrayShape, target: Target
) -> FeatureSums | FilterRows | None:
    """Return the form of a routine for few output features, None if none supports it on `target`.

    They need loads of some lanes of a vector.
    """
    a, dtype = convolution.attributes, convolution.array.dtype
    labels, window = a.dim_labels, _window(convolution)
    outputs = convolution.array.dims[labels.output_feature]
    holes = prod(d.base_dilation for d in window)
    if outputs > FEW_FEATURES or a.batch_group_count > 1:
        return None
    if {lhs.dtype, rhs.dtype} != {dtype} or dtype not in (F32, F64) or is_long_sum(convolution):
        return None
    if len(window) > SPATIAL_DIMS or holes > MAX_RESIDUES or not skips_holes(window):
        return None
    if lhs.dims[labels.input_feature] == outputs == 1:
        has_rows = target.has("avx2") and _has_rows(convolution, lhs)
        width = window[-1].size if has_rows and window[-1].size in filter_rows.UNROLLED else 0
        return FilterRows(dtype, width) if has_rows else None
    step = layout_strides(lhs)[labels.input_feature]
    is_run = step == layout_strides(rhs)[labels.kernel_input_feature] == 1
    is_run = is_run and a.feature_group_count == 1
    return FeatureSums(dtype, outputs) if is_run and target.has("avx2") else None


def kernel_by_features(rhs: ArrayShape, labels: ConvolutionDimensions) -> ArrayShape:
    """Return the kernel's shape with contiguous input features, and lines of them."""
    inputs, outputs = labels.kernel_input_feature, labels.kernel_output_feature
    if layout_strides(rhs)[inputs] == 1:
        return rhs
    window = (d for d in rhs.minor_to_major if d not in (inputs, outputs))
    return ArrayShape(rhs.dtype, rhs.dims, Layout((inputs, *window, outputs)))


def copied_kernel(k: KernelContext, rhs: IrArray, shape: ArrayShape, offset: int) -> IrArray:
    """Copy the kernel into scratch memory, in the layout of `shape`."""
    pointer = k.b.offset_pointer(k.scratch, offset)
    copy = IrArray(pointer, rhs.dtype, shape.dims, layout_strides(shape))
    copy_lines(k, rhs, copy)
    return copy


def sum_few_features(
    k: KernelContext,
    shapes: tuple[ArrayShape, ArrayShape],
    operands: tuple[IrArray, IrArray],
    pieces: int,
    offset: int,
    room: int,
) -> bool:
    """Emit sums of features for a convolution planned as a gemm; False if that is better.

    Args:
        k: the kernel.
        shapes: of input and kernel.
        operands: these.
        pieces: of the plan, `k.begin` to `k.end` of which are to be computed.
        offset: bytes of scratch memory that are in use.
        room: bytes of it that are free.
    """
    labels, (lhs, rhs) = k.root.attributes.dim_labels, operands
    if panel_width(shapes[1]):
        return False
    kernel = kernel_by_features(shapes[1], labels)
    form = few_features_form(k.root, shapes[0], kernel, k.target)
    if not isinstance(form, FeatureSums) or kernel.size_bytes > room:
        return False
    if kernel != shapes[1]:
        rhs = copied_kernel(k, rhs, kernel, offset)
    outer = [d for d in loop_order(k.root.array) if d != labels.output_feature]
    shared = outer[0] if outer else labels.output_batch

    def place(piece: IndexValue) -> IndexValue:
        return k.math.div(k.math.mul(piece, k.root.array.dims[shared]), pieces)

    at = [
        residues_of(d, k.root.array.dims[out])[0]
        for d, out in zip(_window(k.root), labels.output_spatial, strict=True)
    ]
    bounds = place(k.begin), place(k.end)
    call_residue(k, form, k.root, (lhs, rhs), at, shared, bounds)
    return True


def _has_rows(convolution: Instruction, lhs: ArrayShape) -> bool:
    """True if windows of neighbouring results along the last dimension lie along a row."""
    window, labels = _window(convolution), convolution.attributes.dim_labels
    if not window or window[-1].stride != 1 or any(d.base_dilation > 1 for d in window):
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
        form: that of `group_form` or `few_features_form`.
        convolution: its instruction, in the kernel.
        operands: the input, and the kernel of the convolution.
        shared: the dimension of the result that threads share.
        epilogue: what follows the sums; without, they are the kernel's only result.
    """
    out, window = epilogue.sums if epilogue else k.output, _window(convolution)
    labels = convolution.attributes.dim_labels
    residues = (
        residues_of(d, out.dims[place])
        for d, place in zip(window, labels.output_spatial, strict=True)
    )
    for at in product(*residues):
        bounds = _bounds(k, labels, window, at, shared)
        call_residue(k, form, convolution, operands, at, shared, bounds, epilogue)


def call_residue(
    k: KernelContext,
    form: GroupForm | FeatureSums | FilterRows,
    convolution: Instruction,
    operands: tuple[IrArray, IrArray],
    at: Sequence[Residue],
    shared: int | None,
    bounds: tuple[IndexValue, IndexValue],
    epilogue: Epilogue | None = None,
) -> None:
    """Emit the call for the residues `at`, one of each spatial dimension.

    Of the dimension `shared`, if any, only the results within `bounds` are computed.
    """
    lhs, rhs = operands
    labels, window = convolution.attributes.dim_labels, _window(convolution)
    out, left, right = epilogue.sums if epilogue else k.output, 0, 0

    def outer_dim(place: int, step: int, size: int, holes: int = 1) -> OuterDim:
        part = (1, 0) if place == shared else (0, size)
        return OuterDim(size, *part, step, holes * out.strides[place])

    spatial: list[SpatialDim] = []
    for n, (d, residue) in enumerate(zip(window, at, strict=True)):
        place, step = labels.output_spatial[n], lhs.strides[labels.input_spatial[n]]
        along = rhs.strides[labels.kernel_spatial[n]]
        if d.reversal:
            right += (d.size - 1) * along
            along = -along
        right += residue.first * along
        left += residue.place * out.strides[place]
        held, holes = lhs.dims[labels.input_spatial[n]], d.base_dilation
        sizes = (held, residue.elements, d.stride, residue.before, d.window_dilation)
        outer = outer_dim(place, step, residue.results, holes)
        spatial.append(SpatialDim(outer, *sizes, holes * along))
    nothing = SpatialDim(OuterDim(1, 0, 1, 0, 0), 1, 1, 1, 0, 1, 0)
    spatial = [nothing] * (SPATIAL_DIMS - len(spatial)) + spatial
    batch_size = out.dims[labels.output_batch]
    batch = outer_dim(labels.output_batch, lhs.strides[labels.input_batch], batch_size)
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
    if isinstance(form, FeatureSums):
        numbers.append(rhs.strides[labels.kernel_output_feature])
        numbers.append(out.strides[labels.output_feature])
    k.use(routine)
    kernel = k.b.offset_pointer(rhs.pointer, right * form.dtype.storage_bytes)
    to = k.b.offset_pointer(out.pointer, left * form.dtype.storage_bytes)
    finish = (f"@{epilogue.function}", epilogue.context) if epilogue else ("null", "null")
    others = [f"ptr {x}" for x in (number_table(k, numbers), *finish)]
    k.b.call_routine(routine.name, (lhs.pointer, kernel, to), *bounds, *others)


def _bounds(
    k: KernelContext,
    labels: ConvolutionDimensions,
    window: Sequence[WindowDimension],
    at: Sequence[Residue],
    shared: int | None,
) -> tuple[IndexValue, IndexValue]:
    """Return a thread's part of the results of a residue along the shared dimension."""
    if shared not in labels.output_spatial:
        return k.begin, k.end
    n = labels.output_spatial.index(shared)
    holes, before = window[n].base_dilation, window[n].base_dilation - 1 - at[n].place

    def results(whole: IndexValue) -> IndexValue:
        return k.math.div(k.math.add(whole, before), holes)

    return results(k.begin), results(k.end)


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
