"""An array in memory: pointer, element type, sizes and strides."""

from __future__ import annotations

from hloc.codegen.builder.index import Index, IndexMath, layout_strides, row_major_strides
from hloc.codegen.builder.values import Value
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class IrArray:
    """A dense array that generated code reads or writes.

    Attributes:
        strides: in elements, by dimension.
    """

    pointer: Value
    dtype: DType
    dims: tuple[int, ...]
    strides: tuple[int, ...]

    def load(self, math: IndexMath, index: Index) -> Value:
        """Return the element at `index`."""
        return math.body.b.load(self.pointer, self.dtype, math.linear(index, self.strides))

    def store(self, math: IndexMath, index: Index, value: Value) -> None:
        """Write the element at `index`."""
        math.body.b.store(self.pointer, math.linear(index, self.strides), value)

    def flat(self, elements: int) -> IrArray:
        """Return the same memory as one dimension."""
        return IrArray(self.pointer, self.dtype, (elements,), (1,))


def array_in_memory(pointer: Value, shape: ArrayShape) -> IrArray:
    """Return the array of `shape`, in its layout, at `pointer`."""
    return IrArray(pointer, shape.dtype, shape.dims, layout_strides(shape))


def dense_array(pointer: Value, dtype: DType, dims: tuple[int, ...]) -> IrArray:
    """Return a row-major array at `pointer`."""
    return IrArray(pointer, dtype, dims, tuple(row_major_strides(dims)))
