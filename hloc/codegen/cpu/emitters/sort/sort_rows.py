"""Rows during a sort: two halves of scratch memory, between which elements move."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.ir_array import IrArray, dense_array
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext
from hloc.dtypes import S64, U8, DType
from hloc.memory.heap import aligned_bytes


def row_bytes(dtype: DType, size: int) -> int:
    """Return the bytes of a row in scratch memory."""
    return aligned_bytes(size * dtype.storage_bytes)


def rows_bytes(dtypes: Sequence[DType], size: int) -> int:
    """Return the bytes of both halves."""
    return 2 * sum(row_bytes(dtype, size) for dtype in dtypes)


class SortRows:
    """The arrays of one row, in one of the two halves at the start of the scratch memory.

    Attributes:
        size: most elements of a row.
        half_bytes: bytes of one half.
    """

    def __init__(self, k: KernelContext, dtypes: Sequence[DType], size: int) -> None:
        self.k, self.b, self.math, self.body, self.size = k, k.b, k.math, k.body, size
        self.dtypes = tuple(dtypes)
        self.half_bytes = sum(row_bytes(dtype, size) for dtype in dtypes)
        self._half = k.b.allocate(S64)

    @property
    def half(self) -> IndexValue:
        """The half that holds the row, 0 or 1."""
        return self.b.load(self._half, S64, 0)

    def set_half(self, half: IndexValue) -> None:
        """Record which half holds the row."""
        self.b.store(self._half, 0, self.math.value(half))

    def buffers(self, half: IndexValue) -> list[IrArray]:
        """Return the arrays in one half."""
        position = self.math.mul(half, self.half_bytes)
        arrays = []
        for dtype in self.dtypes:
            pointer = pointer_value(self.b.address(self.k.scratch, U8, position))
            arrays.append(dense_array(pointer, dtype, (self.size,)))
            position = self.math.add(position, row_bytes(dtype, self.size))
        return arrays

    def load(self, arrays: Sequence[IrArray], at: IndexValue) -> list[Value]:
        """Return element `at` of every array."""
        return [array.load(self.math, (at,)) for array in arrays]

    def store(self, arrays: Sequence[IrArray], at: IndexValue, values: Sequence[Value]) -> None:
        """Write element `at` of every array."""
        for array, value in zip(arrays, values, strict=True):
            array.store(self.math, (at,), value)
