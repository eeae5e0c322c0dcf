"""Convolutions of a dilated input, without multiplications by the holes.

In a window with stride 1 over an input with `n - 1` holes between its elements, every n-th element
meets an input element; which ones depends on the output position modulo `n`. So each of the `n`
residues is a packed gemm with a part of the kernel. Its results are dense in scratch memory and are
copied to every n-th position of the result. Threads share groups of batch elements and residues.
Where features are few, `feature_sums` writes the results in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import product
from math import prod

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.convolution.convolution_problem import Convolution, convolution_of
from hloc.codegen.cpu.emitters.convolution.grouped_convolution import (
    call_residue,
    copied_kernel,
    few_features_form,
    kernel_by_features,
)
from hloc.codegen.cpu.emitters.convolution.padded_copy import further, padded_copy
from hloc.codegen.cpu.emitters.convolution.padded_input import Padded
from hloc.codegen.cpu.emitters.convolution.padding_routine import copy_lines
from hloc.codegen.cpu.emitters.convolution.residues import Residue, residues_of, skips_holes
from hloc.codegen.cpu.emitters.convolution.windowed_gemm import REMEMBERED, gemm_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import emit_packed
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_choice import packed_gemm
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.gemm_problem import Axis
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes
from hloc.shapes import dense_strides

MAX_PARTS = 9
"""Most residues, each of which is a gemm."""

_LEAST_WORK, _LEAST_PART_WORK = 1 << 12, 1 << 10
"""Fewest multiplications of a group, and of one of its gemms, for which gemms pay.

The alternative is a loop that tests for holes, which LLVM does not vectorise if lines are short:
8x16x8x8 with 8 windows of 3x3 and stride 2 takes 0.04 ms instead of 0.40, one of 1x8x4x4 with 8
windows 0.006 instead of 0.02.
"""

ENOUGH_ROWS = 256
"""Rows of a gemm for which packing its part of the kernel costs little.

Batch elements of smaller images share a gemm: eight of 4x4x256, with 128 windows of 4x4 and stride
2, take 1.15 ms instead of 1.84, sixteen of 4x4x512 with 256 windows 7.9 instead of 19.
"""

_FEWEST_FEATURES = 3
"""Fewest output features that pay.

Three of 2x64x32x32 in bf16, with a window of 4x4 and stride 2, take 0.50 ms instead of 2.3; in f32
three of 16x8x28x28 take 0.36 instead of 0.96, but of 4x64x32x32 1.3 instead of 1.1.
"""

_FEWEST_NEIGHBOURS = 2
"""The same for features that are neighbours in memory.

Two of 8x16x16x64 in f32, with a window of 4x4 and stride 2, take 0.77 ms instead of 2.4.
"""


@dataclass(frozen=True, slots=True)
class _Part:
    """The gemm of one residue in all dimensions.

    Attributes:
        lhs, rhs: offsets in the input (or its copy) and the kernel, in elements.
        dims: sizes of the results of one group of batch elements.
        out: their offset in the result.
    """

    product: PackedGemm
    lhs: int
    rhs: int
    dims: tuple[int, ...]
    out: int


@dataclass(frozen=True, slots=True)
class DilatedGemm:
    """A convolution as gemms per group of batch elements.

    Attributes:
        together: batch elements of a group.
        residues, parts: those of the spatial dimensions, and the gemm of each.
        apart: strides of the results of the gemms.
    """

    together: int
    residues: tuple[tuple[Residue, ...], ...]
    parts: tuple[_Part, ...]
    padded: Padded | None
    padded_bytes: int
    apart: tuple[int, ...]
    result_bytes: int

    @property
    def scratch_bytes(self) -> int:
        """Bytes for the copy of the input, for results and for packed panels."""
        packed = max(part.product.scratch_bytes for part in self.parts)
        return self.padded_bytes + self.result_bytes + packed


@lru_cache(REMEMBERED)
def dilated_gemm(c: Convolution) -> DilatedGemm | None:
    """Return `c` as gemms; None if its input has no holes, or gemms do not pay."""
    holes = [d.base_dilation for d in c.window]
    if not 1 < prod(holes) <= MAX_PARTS or not skips_holes(c.window) or c.batch_groups > 1:
        return None
    places = [
        residues_of(d, c.result.dims[out])
        for d, out in zip(c.window, c.dims.output_spatial, strict=True)
    ]
    if any(p.elements < 1 or p.results < 1 for p in (p for found in places for p in found)):
        return None
    together = _together(c, places)
    padded = _padding(c, places, together)
    residues = tuple(product(*places))
    parts = [_part(c, padded, at, together) for at in residues]
    found = tuple(part for part in parts if part is not None)
    work = sum(prod(part.product.sizes) for part in found)
    if len(found) < len(parts) or work < _LEAST_WORK:
        return None
    lhs_bytes = prod(padded.dims) * c.lhs.dtype.storage_bytes if padded else 0
    largest = max(prod(part.dims) for part in found) * c.result.dtype.storage_bytes
    apart = list(layout_strides(c.result))
    for d, out in zip(c.window, c.dims.output_spatial, strict=True):
        apart[out] *= d.base_dilation
    room = aligned_bytes(lhs_bytes), tuple(apart), aligned_bytes(largest)
    return DilatedGemm(together, residues, found, padded, *room)


def _together(c: Convolution, places: Sequence[Sequence[Residue]]) -> int:
    """Return how many batch elements share a gemm: a divisor of their number.

    Where results are contiguous along an image, each batch element is a gemm anyway.
    """
    if c.result.minor_to_major[0] in c.dims.output_spatial:
        return 1
    batch = c.result.dims[c.dims.output_batch]
    rows = prod(min(p.results for p in found) for found in places)
    return next(
        n for n in range(1, batch + 1) if batch % n == 0 and (n * rows >= ENOUGH_ROWS or n == batch)
    )


def _padding(c: Convolution, places: Sequence[Sequence[Residue]], together: int) -> Padded | None:
    """Return the padded copy of the input of a group; None if none is needed."""
    dims, low = list(c.lhs.dims), [0] * c.lhs.rank
    dims[c.dims.input_batch] = together
    needed = False
    for d, found, at in zip(c.window, places, c.dims.input_spatial, strict=True):
        low[at] = max(max(p.before for p in found), 0)
        ends = (
            (p.results - 1) * d.stride + (p.elements - 1) * d.window_dilation + 1 - p.before
            for p in found
        )
        dims[at] = low[at] + max(dims[at], *ends)
        needed = needed or dims[at] > c.lhs.dims[at]
    if not needed:
        return None
    return Padded(
        tuple(dims), dense_strides(dims, c.lhs.minor_to_major), tuple(low), (1,) * c.lhs.rank
    )


def _part(
    c: Convolution, padded: Padded | None, at: Sequence[Residue], together: int
) -> _Part | None:
    """Return the product of one place; None if there is none."""
    labels, rhs, out = c.dims, 0, 0
    left = padded.strides if padded else layout_strides(c.lhs)
    right, whole = layout_strides(c.rhs), layout_strides(c.result)
    dims = list(c.result.dims)
    dims[labels.output_batch] = together
    for p, place in zip(at, labels.output_spatial, strict=True):
        dims[place] = p.results
    spans = [(p.results, p.elements, d.base_dilation) for p, d in zip(at, c.window, strict=True)]
    result = dense_strides(dims, c.result.minor_to_major)
    rows = [Axis(together, left[labels.input_batch], 0, result[labels.output_batch])]
    wanted, lhs = gemm_of(c, left, result, spans, rows)
    for n, (d, p) in enumerate(zip(c.window, at, strict=True)):
        low = padded.low[labels.input_spatial[n]] if padded else 0
        lhs += (low - p.before) * left[labels.input_spatial[n]]
        out += p.place * whole[labels.output_spatial[n]]
        last = d.base_dilation * (p.elements - 1)
        first = d.size - 1 - p.first - last if d.reversal else p.first
        rhs += first * right[labels.kernel_spatial[n]]
    sources = (c.lhs.dtype, c.rhs.dtype)
    found = packed_gemm(
        wanted,
        sources,
        c.result.dtype,
        fewest_rows=_FEWEST_FEATURES,
        fewest_columns=_FEWEST_NEIGHBOURS,
        least_work=_LEAST_PART_WORK,
    )
    return _Part(found, lhs, rhs, tuple(dims), out) if found else None


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a convolution with holes for which gemms, which threads share, pay."""
    c = convolution_of(inst)
    found = None if c is None else dilated_gemm(c)
    if c is None or found is None:
        return None
    computed = operand_bytes(inst)
    return KernelPlan(
        partial(_emit, c, found, computed),
        extent=c.result.dims[c.dims.output_batch] // found.together * len(found.parts),
        scratch_bytes=computed + max(found.scratch_bytes, c.rhs.size_bytes),
        repeated_bytes=computed,
    )


def _emit(c: Convolution, found: DilatedGemm, offset: int, k: KernelContext) -> None:
    """Emit the loop over groups and residues: a gemm, and the copy of its results."""
    math = k.math
    if offset == 0:
        k.level = 0  # almost all time is spent in the routines
    lhs, rhs = operand_arrays(k)
    out, batch = k.output, c.dims.output_batch
    results_at = offset + found.padded_bytes
    kernel = kernel_by_features(c.rhs, c.dims)
    form = few_features_form(k.root, c.lhs, kernel, k.target)
    if form and kernel != c.rhs:
        rhs = copied_kernel(k, rhs, kernel, offset)
    with k.body.loop(k.begin, k.end) as number:
        n, place = math.div(number, len(found.parts)), math.rem(number, len(found.parts))
        first = math.mul(n, found.together)
        if form:
            bounds = first, math.add(first, found.together)
            for i, at in enumerate(found.residues):
                with k.body.when(math.compare("EQ", place, i)):
                    call_residue(k, form, k.root, (lhs, rhs), at, batch, bounds)
            return
        source = _group(k, lhs, c.dims.input_batch, first, found.together)
        target = _group(k, out, batch, first, found.together)
        if found.padded:
            is_new = k.b.or_(math.compare("EQ", place, 0), math.compare("EQ", number, k.begin))
            with k.body.when(is_new):
                padded_copy(k, source, found.padded, offset)
            source = IrArray(
                k.b.offset_pointer(k.scratch, offset), lhs.dtype, found.padded.dims,
                found.padded.strides,
            )  # fmt: skip
        for i, part in enumerate(found.parts):
            with k.body.when(math.compare("EQ", place, i)):
                pointer = k.b.offset_pointer(k.scratch, results_at)
                dense = dense_strides(part.dims, c.result.minor_to_major)
                whole = IrArray(pointer, out.dtype, part.dims, dense)
                operands = further(k, source, part.lhs), further(k, rhs, part.rhs)
                packed_at = results_at + found.result_bytes
                emit_packed(k, part.product, *operands, packed_at, whole=whole)
                apart = IrArray(target.pointer, out.dtype, out.dims, found.apart)
                copy_lines(k, whole, further(k, apart, part.out))


def _group(k: KernelContext, array: IrArray, batch: int, first: IndexValue, size: int) -> IrArray:
    """Return `size` elements of an array along its dimension `batch`, from `first` on."""
    place = k.math.mul(first, array.strides[batch])
    pointer = k.b.address(array.pointer, array.dtype, k.math.value(place))
    dims = tuple(size if d == batch else whole for d, whole in enumerate(array.dims))
    return IrArray(pointer_value(pointer), array.dtype, dims, array.strides)


EMITTER = Emitter("dilated-convolution", plan, roots=("convolution",))
