"""Writes copies of a convolution's input into scratch memory, with zeros around its elements."""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.convolution.padded_input import Padded
from hloc.codegen.cpu.emitters.convolution.padding_routine import copy_lines
from hloc.codegen.cpu.emitters.convolution.shared_lines import SharedLines
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import SPLIT_BYTES
from hloc.codegen.kernels.context import KernelContext
from hloc.dtypes import U8, DType


def further(k: KernelContext, array: IrArray, elements: IndexValue) -> IrArray:
    """Return the array that begins `elements` further on."""
    return _moved(k, array, k.math.mul(elements, array.dtype.storage_bytes))


def _moved(k: KernelContext, array: IrArray, size_bytes: IndexValue) -> IrArray:
    if isinstance(size_bytes, int):
        pointer = k.b.offset_pointer(array.pointer, size_bytes)
    else:
        pointer = pointer_value(k.b.address(array.pointer, U8, size_bytes))
    return IrArray(pointer, array.dtype, array.dims, array.strides)


def padded_copy(
    k: KernelContext,
    lhs: IrArray,
    p: Padded,
    offset: int,
    dtype: DType | None = None,
    *,
    splits: bool = False,
    shared: SharedLines | None = None,
) -> IrArray:
    """Copy the input into scratch memory, as elements of `dtype`, with zeros around them.

    They are in parts if it `splits`. Of `shared` lines only the kernel's are written.
    """
    dtype = dtype or lhs.dtype
    element_bytes = SPLIT_BYTES if splits else dtype.storage_bytes
    target = IrArray(k.b.offset_pointer(k.scratch, offset), dtype, p.dims, p.strides)
    apart = tuple(x * step for x, step in zip(p.strides, p.steps, strict=True))
    place: IndexValue = sum(low * stride for low, stride in zip(p.low, p.strides, strict=True))
    start: IndexValue = 0
    outer: IndexValue | None = None
    cleared, size = target, k.math.value(p.elements * element_bytes)
    if shared:
        d, math = shared.dimension, k.math
        begin, end = shared.bounds(k)
        line_bytes = p.strides[d] * element_bytes
        cleared = _moved(k, target, math.mul(begin, line_bytes))
        size = math.value(math.mul(math.sub(end, begin), line_bytes))
        first, last = (_held(k, p, lhs, d, line) for line in (begin, end))
        outer = math.sub(last, first)
        start = math.mul(first, lhs.strides[d])
        place = math.add(math.mul(first, apart[d]), place)
    by_group = list(lhs.dims)
    by_group[p.feature] //= p.groups
    if tuple(by_group) != p.dims:
        k.b.clear(cleared.pointer, size.text)
    group_step = by_group[p.feature] * lhs.strides[p.feature]
    source = IrArray(lhs.pointer, lhs.dtype, (p.groups, *by_group), (group_step, *lhs.strides))
    whole = IrArray(target.pointer, dtype, (p.groups, *p.dims), (prod(p.dims), *apart))
    to = _moved(k, whole, k.math.mul(place, element_bytes))
    copy_lines(k, further(k, source, start), to, outer=outer, splits=splits)
    return target


def _held(k: KernelContext, p: Padded, lhs: IrArray, d: int, line: IndexValue) -> IndexValue:
    """Return how many lines of the input lie before a line of the copy."""
    inside = k.math.maximum(k.math.sub(line, p.low[d]), 0)
    return k.math.minimum(k.math.ceiling_div(inside, p.steps[d]), lhs.dims[d])
