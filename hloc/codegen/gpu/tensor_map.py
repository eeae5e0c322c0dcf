"""Arrays that a kernel copies by tiles: the data for their tensor maps.

Before the launch, the runtime encodes a tensor map from this and the array's address, and passes it
to the kernel after its pointers.
"""

from __future__ import annotations

from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

MOST_DIMS = 5
STEP_BYTES = 16
"""Strides, addresses and the rows of a tile are multiples of this."""


@dataclass(frozen=True, slots=True)
class TensorMapArgument:
    """The tensor map of the array behind one of a function's pointers.

    Dimensions are those of memory, the fastest first; elements outside are read as zero.

    Attributes:
        argument: number of the pointer.
        dims: elements along each dimension.
        strides: in bytes, of each dimension but the first.
        box: elements of a tile along each dimension.
        swizzle_bytes: in shared memory, 16-byte pieces within rows of this many bytes are swizzled
            by the number of the row; 0 for no swizzle.
        to_tf32: copies round elements of f32 to TF32.
    """

    argument: int
    dtype: DType
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int = 0
    to_tf32: bool = False
