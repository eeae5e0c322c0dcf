"""Arrays that a kernel copies by tiles: what a device must know before the launch.

The device makes its own descriptor from it and the array's address (NVIDIA: a tensor map), and
passes it to the kernel after its pointers.
"""

from __future__ import annotations

from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

MOST_DIMS = 5
STEP_BYTES = 16
"""Strides, addresses and the rows of a tile are multiples of this."""


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """How a function sees the array behind one of its pointers.

    Dimensions are those of memory, the fastest first; elements outside of them are read as zero.

    Attributes:
        argument: number of the pointer.
        dims: elements along each dimension.
        strides: bytes between neighbours along each dimension but the first.
        box: elements of a tile along each dimension.
        swizzle_bytes: in shared memory, 16-byte pieces within rows of this many bytes change
            places, by the number of the row; 0 for none.
    """

    argument: int
    dtype: DType
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int = 0
