"""Convolutions as packed gemms: packing gathers the elements under the windows (implicit im2col).

The input is first copied into zeroed memory if the window is padded or the input dilated. Then the
address of every element that the gemm reads is a sum of offsets, one per dimension of the result
and of the window, as for matrices. Groups of features lie apart in the copy: the gemm of a group
reads whole cache lines, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.cpu.cpu_plan import CpuPlan
from hloc.codegen.cpu.emitters.convolution.convolution_problem import Convolution, convolution_of
from hloc.codegen.cpu.emitters.convolution.copy_order import copied_kernel_shape, order_of_copy
from hloc.codegen.cpu.emitters.convolution.grouped_convolution import (
    copied_kernel,
    sum_few_features,
)
from hloc.codegen.cpu.emitters.convolution.padded_copy import further, padded_copy
from hloc.codegen.cpu.emitters.convolution.padded_input import Padded
from hloc.codegen.cpu.emitters.convolution.shared_lines import SharedLines, shared_lines
from hloc.codegen.cpu.emitters.gemm.micro_kernels.bf16_parts import PART_STEPS
from hloc.codegen.cpu.emitters.gemm.packed.gemm_schedule import schedules
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of, reads_parts
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import SPLIT_BYTES, PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import Epilogue, emit_packed
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_choice import (
    MIN_COLUMNS,
    MIN_ROWS,
    packed_gemm,
)
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.gemm_problem import (
    Axis,
    GemmProblem,
    column_axes,
    merged,
)
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes
from hloc.codegen.llvm.target import Target
from hloc.dtypes import BF16, F16, F32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes
from hloc.memory.panels import panel_strides
from hloc.shapes import ArrayShape, dense_strides

MAX_GROWTH = 6
"""Largest ratio of a padded copy to the input: the gradient of a convolution with stride 2 grows a
little more than fourfold, and takes 0.88 of the time of a gemm per row.
"""

MIN_GROUP_FEATURES = 8
"""Fewest output features of a group for which packing pays; fewer are faster in `grouped_routine`.

32 groups of 4 features each then take 1.9 ms instead of 6.0.
"""

MIN_USES = 2
"""Fewest times that an element is packed for which all are split, or widened, before.

Time over that of splitting as rows are packed: 0.92 for 3x3 windows over 28x28x128, 0.93 for
14x14x256. Over that of widening bf16 then, AVX2: 0.91 for 28x28x128, 0.78 for 56x56x64, 0.66 for
32x32x16, 0.70 for 7x7 windows with stride 2 over 224x224x3.
"""

_FEWEST_FEATURES = ((6, 1), (64, 3))
_FEWEST_OF_LONG_STRIPS = 6
"""Fewest output features for which packing pays, by the size of the fastest dimension if spatial.

The features are then the rows of the gemm, and the other kernel works on strips along the fastest
dimension, so that gemms of fewer rows pay than elsewhere: 8 features of 4x64x16x16 take 0.17 ms
instead of 1.26, the gradient of 11 kernels of 16x3x3 0.37 instead of 10; 4 features of 1x32x64x128
take 0.71 instead of 0.64. Long strips of a single dimension, and those that leave out the holes of
a dilated input, are no slower than one gemm (`dilated_gemm` has several).
"""

_TWO_COLUMNS_DEPTH = 64
"""Fewest steps of k for which two columns, which are usually output features, pay.

Time relative to strips of 2 features: 0.63 for windows of 3x3 over 64x64x8, 0.40 over 14x14x64, 1.2
over 28x28x3; 2.2 for a dilated input.
"""

_LEAST_WORK = 1 << 12
"""Fewest multiplications for which packing pays.

Time relative to strips and to vectors of features: 0.40 for windows of 3x3 over 5x5x5 and 5
features, 0.65 over 8x8x16 and 3, 0.9 to 1.2 for others of 2**12 to 2**15 multiplications, which
compile in 0.2 to 0.4 of the time.
"""

REMEMBERED = 256
"""Cache size of `windowed_gemm`: a program repeats convolutions, as do its fusions."""


@dataclass(frozen=True, slots=True)
class WindowedGemm:
    """A convolution as a gemm, and the copy of its input if it needs one.

    `in_parts` is the copy where matrix registers multiply parts of elements, `widened` the one in
    f32 of narrower elements where vectors multiply those. A thread copies only its `shared` lines,
    if that is not None. The copy of the kernel has the layout of `kernel`, None if there is none.
    """

    product: PackedGemm
    padded: Padded | None
    padded_bytes: int
    offset: int
    in_parts: Padded | None = None
    widened: Padded | None = None
    shared: SharedLines | None = None
    kernel: ArrayShape | None = None

    @property
    def kernel_bytes(self) -> int:
        """Bytes of the copy of the kernel."""
        return aligned_bytes(self.kernel.size_bytes) if self.kernel else 0

    def widens(self, target: Target) -> bool:
        """True if the machine multiplies f32 instead of narrower elements, which are copied."""
        return self.widened is not None and arithmetic_of(self.product, target).operand is F32

    def product_on(self, target: Target) -> PackedGemm:
        """Return the gemm, which reads the copy, with the types of elements that it reads."""
        return self._of_wide() if self.widens(target) else self.product

    def _of_wide(self) -> PackedGemm:
        return replace(self.product, sources=(F32, self.product.sources[1]))

    @property
    def scratch_bytes(self) -> int:
        """Bytes for the copy and the gemm, on every machine."""
        gemms = (self.product, self._of_wide()) if self.widened else (self.product,)
        return self.padded_bytes + self.kernel_bytes + max(gemm.scratch_bytes for gemm in gemms)

    def plan(self, emit: Callable[[KernelContext], None], computed_bytes: int = 0) -> CpuPlan:
        """Return the plan of a kernel around the gemm, with scratch memory for operands."""
        copied = self.shared.repeated(self.padded_bytes) if self.shared else self.padded_bytes
        return CpuPlan(
            emit,
            extent=self.product.pieces,
            scratch_bytes=computed_bytes + self.scratch_bytes,
            repeated_bytes=computed_bytes
            + copied
            + self.kernel_bytes
            + self.product.repeated_bytes,
            choices=lambda target: schedules(self.product_on(target), target),
        )


def windowed_gemm(inst: Instruction) -> WindowedGemm | None:
    """Return the packed gemm for the root of `inst`; None if that is not supported."""
    c = convolution_of(inst)
    return None if c is None else _windowed_gemm(c)


@lru_cache(REMEMBERED)
def _windowed_gemm(c: Convolution) -> WindowedGemm | None:
    """Return the gemm of a convolution, None if it is too small, or its padded copy too large.

    With negative padding (a cropped input) there is none either: the copy only adds zeros.
    """
    groups = c.groups * c.batch_groups
    features = c.result.dims[c.dims.output_feature] // groups
    if groups > 1 and features < MIN_GROUP_FEATURES:
        return None
    padded = _padding(c)
    size = 0
    if padded:
        size = padded.elements * c.lhs.dtype.storage_bytes
        if min(padded.low) < 0 or size > MAX_GROWTH * c.lhs.size_bytes + (1 << 16):
            return None
    kernel = copied_kernel_shape(c, padded)
    product, offset = _product(replace(c, rhs=kernel or c.rhs), padded)
    sources = (c.lhs.dtype, c.rhs.dtype)
    is_dilated = any(d.base_dilation > 1 for d in c.window)
    fewest = MIN_ROWS if is_dilated else fewest_features(c)
    depth = prod(axis.size for axis in product.contracted)
    columns = 2 if depth >= _TWO_COLUMNS_DEPTH and not is_dilated else MIN_COLUMNS
    found = packed_gemm(
        product,
        sources,
        c.result.dtype,
        fewest_rows=fewest,
        fewest_columns=columns,
        least_work=_LEAST_WORK,
    )
    if found is None:
        return None
    in_parts = _copy_in_parts(c, found, padded)
    if in_parts:
        found = replace(found, rows_in_parts=True)
        size = max(size, in_parts.elements * SPLIT_BYTES)
    widened = _copy_widened(c, found, padded)
    if widened:
        size = max(size, widened.elements * F32.storage_bytes)
    copy = padded or in_parts or widened
    shared = shared_lines(c, found, copy) if copy else None
    return WindowedGemm(
        found, padded, aligned_bytes(size), offset, in_parts, widened, shared, kernel
    )


def _copy_in_parts(c: Convolution, product: PackedGemm, padded: Padded | None) -> Padded | None:
    """Return the copy of the input in parts, None if splitting elements as rows are packed is best.

    Elements of a line of parts must stay together.
    """
    inner = product.depth[-1]
    steps = [axis.lhs for axis in (*product.outer, *product.rows, *product.depth[:-1])]
    are_lines = c.lhs.minor_to_major[0] == c.dims.input_feature and inner.lhs == 1
    are_lines = are_lines and all(x % PART_STEPS == 0 for x in (inner.size, *steps))
    return _repaid_copy(c, product, padded) if product.splits and are_lines else None


def _copy_widened(c: Convolution, product: PackedGemm, padded: Padded | None) -> Padded | None:
    """Return the copy of the input in f32, None if widening elements as rows are packed is best."""
    is_narrow = c.lhs.dtype in (BF16, F16) and product.depth[-1].lhs == 1
    return _repaid_copy(c, product, padded) if is_narrow else None


def _repaid_copy(c: Convolution, product: PackedGemm, padded: Padded | None) -> Padded | None:
    """Return the copy of the input, padded or not; None if elements are packed only once."""
    dims, (rows, _, depth) = c.lhs.dims, product.sizes
    layout = dense_strides(dims, c.lhs.minor_to_major)
    whole = Padded(dims, layout, (0,) * len(dims), (1,) * len(dims))
    is_again = rows * depth >= MIN_USES * prod(dims)
    return padded or whole if is_again and not product.exchanged else None


def fewest_features(c: Convolution) -> int:
    """Return the fewest rows of a gemm that pay, which may be output features."""
    fastest = c.result.minor_to_major[0]
    if fastest not in c.dims.output_spatial or len(c.window) == 1:
        return MIN_ROWS
    strip = c.result.dims[fastest]
    return next((n for size, n in _FEWEST_FEATURES if strip < size), _FEWEST_OF_LONG_STRIPS)


def _padding(c: Convolution) -> Padded | None:
    """Return the copy of the input, None if none is needed."""
    dims, rank = list(c.lhs.dims), c.lhs.rank
    low, steps = [0] * rank, [1] * rank
    order = order_of_copy(c)
    needed = order != c.lhs.minor_to_major and prod(d.size for d in c.window) > 1
    for d, place, out in zip(c.window, c.dims.input_spatial, c.dims.output_spatial, strict=True):
        reach = (c.result.dims[out] - 1) * d.stride + (d.size - 1) * d.window_dilation + 1
        held = (c.lhs.dims[place] - 1) * d.base_dilation + 1
        if d.pad_low == 0 and d.base_dilation == 1 and reach <= c.lhs.dims[place]:
            continue
        needed = True
        dims[place] = max(reach, d.pad_low + held)
        low[place], steps[place] = d.pad_low, d.base_dilation
    if not needed:
        return None
    groups, feature = 1, c.dims.input_feature
    if order[0] == feature:
        groups = c.groups
        dims[feature] //= groups
    strides = dense_strides(dims, order)
    return Padded(tuple(dims), strides, tuple(low), tuple(steps), groups, feature)


def _product(c: Convolution, padded: Padded | None) -> tuple[GemmProblem, int]:
    labels, result, dims = c.dims, layout_strides(c.result), c.result.dims
    batch = labels.output_batch
    left = padded.strides if padded else layout_strides(c.lhs)
    rows = [Axis(dims[batch], left[labels.input_batch], 0, result[batch])]
    sizes = zip(labels.output_spatial, c.window, strict=True)
    spans = [(dims[out], d.size, 1) for out, d in sizes]
    apart = prod(padded.dims) if padded and padded.groups > 1 else None
    return gemm_of(c, left, result, spans, rows, apart)


def gemm_of(
    c: Convolution,
    left: Sequence[int],
    result: Sequence[int],
    spans: Sequence[tuple[int, int, int]],
    rows: list[Axis],
    apart: int | None = None,
) -> tuple[GemmProblem, int]:
    """Return the loops, and where in the input (or its copy) they begin.

    Args:
        c: the convolution.
        left: strides of the input.
        result: strides of the result.
        spans: results, elements of the kernel and the step between those, by spatial dimension.
        rows: loops outside those over spatial dimensions.
        apart: elements of the input from group to group; None where they are side by side.
    """
    labels, dims = c.dims, c.result.dims
    right = panel_strides(c.rhs, layout_strides(c.rhs))
    groups = c.groups * c.batch_groups
    columns = dims[labels.output_feature] // groups
    inputs = c.rhs.dims[labels.kernel_input_feature]
    per_group = inputs * left[labels.input_feature] if apart is None else apart
    if c.batch_groups > 1:
        per_group = dims[labels.output_batch] * left[labels.input_batch]
    feature, kernel_feature = result[labels.output_feature], right[labels.kernel_output_feature]
    batch = [Axis(groups, per_group, columns * kernel_feature, columns * feature)]
    depth = [Axis(inputs, left[labels.input_feature], right[labels.kernel_input_feature], 0)]
    offset = 0
    for n, (d, (results, elements, each)) in enumerate(zip(c.window, spans, strict=True)):
        step = left[labels.input_spatial[n]]
        rows.append(Axis(results, d.stride * step, 0, result[labels.output_spatial[n]]))
        along = d.window_dilation * step
        if d.reversal:
            offset += (elements - 1) * along
            along = -along
        depth.append(Axis(elements, along, each * right[labels.kernel_spatial[n]], 0))
    product = GemmProblem(
        merged(batch),
        merged(rows),
        merged(column_axes(Axis(columns, 0, kernel_feature, feature), c.rhs)),
        merged(depth),
    )
    return product, offset


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a convolution for which a packed gemm pays; threads share it in pieces."""
    found = windowed_gemm(inst)
    if found is None:
        return None
    computed = operand_bytes(inst)
    return found.plan(partial(_emit, found, computed), computed)


def _emit(found: WindowedGemm, offset: int, k: KernelContext) -> None:
    """Emit the copy of the input and the gemm."""
    if offset == 0:
        k.level = 0  # almost all time is spent in the routines
    lhs, rhs = operand_arrays(k)
    operands, c = (lhs, rhs), convolution_of(k.inst)
    assert c is not None
    product, room = found.product, found.scratch_bytes
    is_plain = all(d.base_dilation == 1 for d in c.window)
    if not is_plain or not sum_few_features(
        k, (c.lhs, c.rhs), operands, product.pieces, offset, room
    ):
        write(k, found, operands, offset)


def write(
    k: KernelContext,
    found: WindowedGemm,
    operands: tuple[IrArray, IrArray],
    offset: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Emit the copy of the input and the gemm; scratch memory is free from `offset` on."""
    lhs, rhs = operands
    if found.in_parts and reads_parts(found.product, arithmetic_of(found.product, k.target)):
        lhs = padded_copy(k, lhs, found.in_parts, offset, splits=True, shared=found.shared)
        moved = found.offset * SPLIT_BYTES // lhs.dtype.storage_bytes
    else:
        dtype = F32 if found.widens(k.target) else lhs.dtype
        copy = found.widened if found.widens(k.target) else found.padded
        if copy:
            lhs = padded_copy(k, lhs, copy, offset, dtype, shared=found.shared)
        moved = found.offset
    if moved:
        lhs = further(k, lhs, moved)
    offset += found.padded_bytes
    if found.kernel:
        rhs = copied_kernel(k, rhs, found.kernel, offset)
    offset += found.kernel_bytes
    emit_packed(k, found.product_on(k.target), lhs, rhs, offset, epilogue)


EMITTER = Emitter("windowed-convolution", plan, roots=("convolution",))
