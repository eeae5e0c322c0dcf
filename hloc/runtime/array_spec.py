"""Arrays at the boundary of a program: expected types and layouts, and conversion of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.dtypes import Array, dtype_of_numpy
from hloc.errors import HloError, UnsupportedError
from hloc.lazy_dataclass import dataclass
from hloc.shapes import MAX_HOST_RANK, ArrayShape


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array at the boundary.

    Attributes:
        name: its name in messages.
        shape: HLO shape.
        order: dimensions from major to minor, None if row-major.
        exports_bytes: NumPy exports its buffer, so that the address is available the faster way.
    """

    name: str
    shape: ArrayShape
    numpy: np.dtype[Any]
    dims: tuple[int, ...]
    order: tuple[int, ...] | None
    exports_bytes: bool

    def in_memory(self, argument: Any) -> Array:
        """Return `argument` in the memory layout that the code expects, copied only if necessary.

        Raises:
            HloError: it is not an array, or has another type or shape.
        """
        array = _as_array(self, argument)
        if array.dtype != self.numpy or array.shape != self.dims:
            raise HloError(
                f"{self.name} must be {self.shape.text_without_layout}, "
                f"but the argument is {_describe(array)}"
            )
        if self.order is not None:
            array = array.transpose(self.order)
        if array.flags.c_contiguous and array.flags.aligned:  # `np.require` takes 2 us for this
            return array
        return np.require(array, requirements=("C", "A"))

    @property
    def physical_dims(self) -> tuple[int, ...]:
        """The sizes of the dimensions in memory order, from major to minor."""
        return self.dims if self.order is None else tuple(self.dims[dim] for dim in self.order)

    def over(self, array: Array, other: ArraySpec) -> Array:
        """Return the memory of `array`, which is one of `other`, as an array of this spec."""
        if (self.numpy, self.dims, self.order) == (other.numpy, other.dims, other.order):
            return array
        memory = array if other.order is None else array.transpose(other.order)
        memory = memory.reshape(-1).view(self.numpy).reshape(self.physical_dims)
        return memory if self.axes is None else memory.transpose(self.axes)

    @property
    def axes(self) -> tuple[int, ...] | None:
        """The transposition from memory order to logical order; None if they agree."""
        order = self.order
        return order and tuple(order.index(dim) for dim in range(len(order)))


def _as_array(spec: ArraySpec, argument: Any) -> Array:
    if isinstance(argument, np.ndarray):
        return argument
    if isinstance(argument, (bool, int, float, complex)):
        return np.asarray(argument, spec.numpy)
    if hasattr(argument, "__array__"):
        return np.asarray(argument)
    if hasattr(argument, "__dlpack__"):
        return np.from_dlpack(argument)
    raise HloError(
        f"{spec.name} must be an array {spec.shape.text_without_layout}, "
        f"but the argument is a {type(argument).__name__}"
    )


def _describe(array: Array) -> str:
    dtype = dtype_of_numpy(array.dtype)
    return f"{dtype or array.dtype}[{','.join(map(str, array.shape))}]"


def spec_of(name: str, shape: ArrayShape) -> ArraySpec:
    """Return the spec of an array of `shape`."""
    order = tuple(reversed(shape.minor_to_major))
    row_major = order == tuple(range(shape.rank))
    exports_bytes = row_major and shape.size_bytes > 0 and shape.dtype.numpy.isbuiltin == 1
    numpy = shape.dtype.numpy
    return ArraySpec(name, shape, numpy, shape.dims, None if row_major else order, exports_bytes)


def check_ranks(shapes: Sequence[ArrayShape]) -> None:
    """Raise UnsupportedError if an argument or result has more dimensions than NumPy's arrays."""
    for shape in shapes:
        if shape.rank > MAX_HOST_RANK:
            raise UnsupportedError(
                f"an argument or result has {shape.rank} dimensions, "
                f"but NumPy arrays have at most {MAX_HOST_RANK}"
            )
