"""Copies of a convolution's input in scratch memory, with padding around and between elements."""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.cpu.emitters.convolution.padding_routine import copy_lines
from hloc.codegen.kernels.context import KernelContext
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Padded:
    """A copy of the input with padding around and between its elements.

    Attributes:
        dims, strides: of the copy of one group of features, by dimension of the input.
        low, steps: index of the first input element, and distance of consecutive ones.
        groups, feature: number of groups of features, which lie apart, and the dimension of these.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    steps: tuple[int, ...]
    groups: int = 1
    feature: int = 0

    @property
    def elements(self) -> int:
        """Elements of the whole copy."""
        return self.groups * prod(self.dims)


def further(k: KernelContext, array: IrArray, elements: int) -> IrArray:
    """Return the array that begins `elements` further on."""
    pointer = k.b.offset_pointer(array.pointer, elements * array.dtype.storage_bytes)
    return IrArray(pointer, array.dtype, array.dims, array.strides)


def padded_copy(
    k: KernelContext,
    lhs: IrArray,
    p: Padded,
    offset: int,
    size: int,
    dtype: DType | None = None,
    *,
    splits: bool = False,
) -> IrArray:
    """Copy the input into `size` bytes of zeros in scratch memory, as elements of `dtype`.

    They are in parts if it `splits`.
    """
    dtype = dtype or lhs.dtype
    target = k.b.offset_pointer(k.scratch, offset)
    apart = tuple(x * step for x, step in zip(p.strides, p.steps, strict=True))
    first = sum(low * stride for low, stride in zip(p.low, p.strides, strict=True))
    by_group = list(lhs.dims)
    by_group[p.feature] //= p.groups
    group_step = by_group[p.feature] * lhs.strides[p.feature]
    source = IrArray(lhs.pointer, lhs.dtype, (p.groups, *by_group), (group_step, *lhs.strides))
    whole = IrArray(target, dtype, (p.groups, *p.dims), (prod(p.dims), *apart))
    copy_lines(k, source, whole, first, size, splits=splits)
    return IrArray(target, dtype, p.dims, p.strides)
