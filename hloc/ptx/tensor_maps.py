"""Tensor maps: descriptors of arrays in global memory for copies of tiles.

NVIDIA does not document the 128 bytes of a tensor map. The interpreter has its own encoding of the
same data; the rules are those of `cuTensorMapEncodeTiled` without interleaving and element strides.
Source: CUDA driver API, "Tensor Map Object Management"; PTX ISA, "Tensors".
"""

from __future__ import annotations

import struct

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.faults import PtxFault
from hloc.ptx.value_types import Array

MAP_BYTES = 128
MAP_ALIGNMENT = 64
PIECE_BYTES = 16

_MARK = b"hloc map"
_LAYOUT = struct.Struct("<8sQBBBB4x5Q4Q5H22x")
_MOST_DIMS = 5
_MOST_IN_BOX = 256
_SWIZZLES = (0, 32, 64, 128)
_ELEMENT_BYTES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An array in global memory and the size of the tiles that are copied from it.

    Attributes:
        address: of its first element.
        element_bytes: 1, 2, 4 or 8.
        dims: sizes, fastest first.
        strides: in bytes, of all dimensions but the first.
        box: sizes of a tile.
        swizzle_bytes: 0, or the width in which pieces of 16 bytes are swizzled.
        to_tf32: elements are f32, which copies round to TF32.

    Raises:
        PtxFault: the driver would reject it.
    """

    address: int
    element_bytes: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int = 0
    to_tf32: bool = False

    def __post_init__(self) -> None:
        """Raise `PtxFault` for a map that the hardware would refuse.

        Source: CUDA driver API, `cuTensorMapEncodeTiled`.
        """
        rank = len(self.dims)
        inner = self.box[0] * self.element_bytes if self.box else 0
        rules = {
            f"{rank} dimensions": 1 <= rank <= _MOST_DIMS,
            f"{len(self.strides)} strides": len(self.strides) == rank - 1,
            f"a box of {len(self.box)} dimensions": len(self.box) == rank,
            f"elements of {self.element_bytes} bytes": self.element_bytes in _ELEMENT_BYTES,
            f"address {self.address:#x}": self.address % PIECE_BYTES == 0,
            f"dimensions {self.dims}": all(0 < size <= 1 << 32 for size in self.dims),
            f"strides {self.strides}": all(
                s % PIECE_BYTES == 0 and 0 <= s < 1 << 40 for s in self.strides
            ),
            f"box {self.box}": all(0 < size <= _MOST_IN_BOX for size in self.box)
            and inner % PIECE_BYTES == 0,
            f"a swizzle of {self.swizzle_bytes} bytes": self.swizzle_bytes in _SWIZZLES
            and (not self.swizzle_bytes or inner <= self.swizzle_bytes),
            "TF32 of another size than 4 bytes": not self.to_tf32 or self.element_bytes == 4,
        }
        for what, holds in rules.items():
            if not holds:
                raise PtxFault(f"a tensor map cannot have {what}")

    def encoded(self) -> bytes:
        """Return the 128 bytes that are passed to a kernel."""
        rank = len(self.dims)
        return _LAYOUT.pack(
            _MARK,
            self.address,
            rank,
            self.element_bytes,
            self.swizzle_bytes,
            self.to_tf32,
            *self.dims,
            *[1] * (_MOST_DIMS - rank),
            *self.strides,
            *[0] * (_MOST_DIMS - rank),
            *self.box,
            *[1] * (_MOST_DIMS - rank),
        )

    @classmethod
    def decoded(cls, data: bytes) -> TensorMap:
        """Return the map that is encoded in 128 bytes.

        Raises:
            PtxFault: they are not a tensor map.
        """
        mark, address, rank, element_bytes, swizzle_bytes, to_tf32, *sizes = _LAYOUT.unpack(data)
        if mark != _MARK:
            raise PtxFault("there is no tensor map at the address of this copy")
        dims, strides, box = sizes[:5], sizes[5:9], sizes[9:]
        return cls(
            address,
            element_bytes,
            tuple(dims[:rank]),
            tuple(strides[: rank - 1]),
            tuple(box[:rank]),
            swizzle_bytes,
            bool(to_tf32),
        )

    @property
    def box_bytes(self) -> int:
        """Bytes of a tile, including elements outside the array."""
        return int(np.prod(self.box)) * self.element_bytes

    def elements(self, first: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the addresses of a tile's elements, in order, and which of them exist."""
        address, exists = np.array([self.address]), np.array([True])
        steps = (self.element_bytes, *self.strides)
        for size, count, start, step in zip(self.dims, self.box, first, steps, strict=True):
            index = start + np.arange(count)
            address = (address + (index * step)[:, None]).reshape(-1)
            exists = (exists & ((index >= 0) & (index < size))[:, None]).reshape(-1)
        return address, exists

    def targets(self, start: int) -> Array:
        """Return the shared addresses of the 16-byte pieces of a tile, in order."""
        address = start + np.arange(0, self.box_bytes, PIECE_BYTES)
        return swizzled(address, self.swizzle_bytes).astype(np.uint64)


def swizzled(address: Array, width: int) -> Array:
    """Return the addresses of 16-byte pieces of shared memory with a swizzle of `width` bytes.

    Bits 7 to 9 of the address, or fewer of them, are xored into bits 4 to 6.
    """
    mask = max(width, PIECE_BYTES) // PIECE_BYTES - 1
    return np.asarray(address ^ (address >> 7 & mask) << 4)
