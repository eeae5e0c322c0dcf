"""The layout of mma matrices in the registers of a warp (fragments).

Source: PTX ISA, "Matrix Fragments for mma.m16n8k16" and related sections: element i of a fragment
in lane l has (row, column) given by the group l / 4 and the position l % 4 in the group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.float8 import from_float8
from hloc.ptx.lanes import WARP
from hloc.ptx.program import Instruction
from hloc.ptx.rounding import f32_of_bf16
from hloc.ptx.value_types import TYPES, Array, PtxType

_GROUP, _PLACE = np.arange(WARP) // 4, np.arange(WARP) % 4


@dataclass(frozen=True, eq=False)
class Fragment:
    """One matrix: `row[i, lane]` and `column[i, lane]` of element i of each lane."""

    shape: tuple[int, int]
    element: str
    register: PtxType
    row: Array
    column: Array

    @property
    def per_register(self) -> int:
        """Elements that share a register."""
        return self.register.size // TYPES_OF_ELEMENTS[self.element].itemsize

    @property
    def count(self) -> int:
        """Registers per lane."""
        return len(self.row) // self.per_register

    def gather(self, registers: list[Array]) -> Array:
        """Return registers of [warps, 32] as matrices of f64 or i64."""
        warps = len(registers[0])
        stacked = np.ascontiguousarray(np.stack(registers, axis=1))  # [warps, registers, 32]
        split = stacked.view(TYPES_OF_ELEMENTS[self.element])
        split = split.reshape(warps, len(registers), WARP, self.per_register)
        elements = split.transpose(0, 1, 3, 2).reshape(warps, -1, WARP)
        wide = _WIDEN[self.element](elements)
        matrix = np.empty((warps, *self.shape), wide.dtype)
        matrix[:, self.row, self.column] = wide
        return matrix

    def scatter(self, matrix: Array) -> list[Array]:
        """Return the registers, [warps, 32] each, of matrices of f64 or i64."""
        elements = matrix[:, self.row, self.column]  # [warps, elements, 32]
        if self.element == "s32":
            elements = elements.astype(np.int64)  # from here on sums wrap
        narrow = elements.astype(TYPES_OF_ELEMENTS[self.element])
        warps = len(matrix)
        split = narrow.reshape(warps, -1, self.per_register, WARP).transpose(0, 1, 3, 2)
        packed = np.ascontiguousarray(split).view(self.register.dtype)
        return list(packed.reshape(warps, -1, WARP).transpose(1, 0, 2))


TYPES_OF_ELEMENTS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "tf32": np.dtype(np.uint32),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s32": np.dtype(np.int32),
    "e4m3": np.dtype(np.uint8),
    "e5m2": np.dtype(np.uint8),
}


def _tf32(bits: Array) -> Array:
    """Return TF32 as f64; the hardware ignores the low 13 bits."""
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


_WIDEN: dict[str, Callable[[Array], Array]] = {
    "f16": lambda x: x.astype(np.float64),
    "bf16": lambda x: f32_of_bf16(x).astype(np.float64),
    "tf32": _tf32,
    "f32": lambda x: x.astype(np.float64),
    "f64": lambda x: x,
    # Sums of products of bytes stay far below 2**53, and f64 gemms are fast.
    "s8": lambda x: x.astype(np.float64),
    "u8": lambda x: x.astype(np.float64),
    "s32": lambda x: x.astype(np.float64),
    "e4m3": lambda x: from_float8(x, "e4m3"),
    "e5m2": lambda x: from_float8(x, "e5m2"),
}


def widened(values: Array, element: str) -> Array:
    """Return elements as f64, given registers or words of memory that are full of them."""
    return _WIDEN[element](np.ascontiguousarray(values).view(TYPES_OF_ELEMENTS[element]))


def _left(rows: int, depth: int, element: str, per_register: int) -> Fragment:
    """A: registers advance by 8 rows first, then along columns."""
    registers = rows // 8 * (depth // (4 * per_register))
    i = np.arange(registers * per_register)[:, None]
    register, part = i // per_register, i % per_register
    down = rows // 8
    row = _GROUP + 8 * (register % down)
    column = _PLACE * per_register + part + 4 * per_register * (register // down)
    return Fragment((rows, depth), element, _register(element), row, column)


def _right(depth: int, columns: int, element: str, per_register: int) -> Fragment:
    """B: the depth is as the columns of A, the group is the column."""
    registers = depth // (4 * per_register)
    i = np.arange(registers * per_register)[:, None]
    register, part = i // per_register, i % per_register
    row = _PLACE * per_register + part + 4 * per_register * register
    column = np.broadcast_to(_GROUP, row.shape)
    return Fragment((depth, columns), element, _register(element), row, column)


def _accumulator(rows: int, columns: int, element: str) -> Fragment:
    """C and D: pairs of adjacent elements of a row, then 8 rows further."""
    i = np.arange(rows // 8 * 2)[:, None]
    row = _GROUP + 8 * (i // 2)
    column = _PLACE * 2 + i % 2
    return Fragment((rows, columns), element, _register(element), row, column)


def _register(element: str) -> PtxType:
    return TYPES["f64"] if element == "f64" else TYPES["b32"]


_SHAPES = {  # shape -> rows, columns, depth, bytes of an element of A and B
    ("m16n8k16", 2): (16, 8, 16),
    ("m16n8k8", 2): (16, 8, 8),
    ("m16n8k8", 4): (16, 8, 8),
    ("m16n8k4", 4): (16, 8, 4),
    ("m16n8k32", 1): (16, 8, 32),
    ("m16n8k16", 1): (16, 8, 16),
    ("m8n8k4", 8): (8, 8, 4),
    ("m8n8k16", 1): (8, 8, 16),
    ("m16n8k4", 8): (16, 8, 4),
    ("m16n8k8", 8): (16, 8, 8),
    ("m16n8k16", 8): (16, 8, 16),
}


def fragments_of(instruction: Instruction) -> tuple[Fragment, Fragment, Fragment, Fragment] | None:
    """Return the fragments of D, A, B and C; None for an unsupported shape or type."""
    shape = next((p for p in instruction.parts if p.startswith("m") and p[1:2].isdigit()), "")
    types = instruction.parts[-4:]
    if not instruction.has("row") or any(t not in TYPES_OF_ELEMENTS for t in types):
        return None
    return _fragments(shape, types)


@lru_cache
def _fragments(
    shape: str, types: tuple[str, ...]
) -> tuple[Fragment, Fragment, Fragment, Fragment] | None:
    d, a, b, c = types
    size = TYPES_OF_ELEMENTS[a].itemsize
    if (shape, size) not in _SHAPES or TYPES_OF_ELEMENTS[b].itemsize != size:
        return None
    rows, columns, depth = _SHAPES[shape, size]
    per_register = max(1, 4 // size)
    return (
        _accumulator(rows, columns, d),
        _left(rows, depth, a, per_register),
        _right(depth, columns, b, per_register),
        _accumulator(rows, columns, c),
    )
