"""The fundamental types of PTX and their representation in NumPy.

Source: PTX ISA, "Fundamental Types" and "Packed Data Types".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hloc.lazy_dataclass import dataclass

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class PtxType:
    """One type; `columns` is 2 for packed pairs, whose rows have shape [threads, 2].

    `kind` is one of "signed", "unsigned" (which includes untyped bits), "float" and "predicate".
    bf16, which NumPy lacks, is represented by its 16 bits.
    """

    name: str
    kind: str
    size: int  # bytes of the whole value
    dtype: np.dtype[Any]
    columns: int = 1

    @property
    def bits(self) -> int:
        """Width in bits."""
        return 8 * self.size

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on it is floating point."""
        return self.kind == "float"


def _table() -> dict[str, PtxType]:
    """Return the types by name; vectors of two (`x2`) are one register."""
    types = [PtxType("pred", "predicate", 1, np.dtype(np.bool_))]
    for size in (1, 2, 4, 8):
        for letter, kind, code in (
            ("b", "unsigned", "u"),
            ("u", "unsigned", "u"),
            ("s", "signed", "i"),
        ):
            types.append(PtxType(f"{letter}{8 * size}", kind, size, np.dtype(f"{code}{size}")))
    types += [
        PtxType("f16", "float", 2, np.dtype(np.float16)),
        PtxType("bf16", "float", 2, np.dtype(np.uint16)),
        PtxType("f32", "float", 4, np.dtype(np.float32)),
        PtxType("tf32", "float", 4, np.dtype(np.float32)),
        PtxType("f64", "float", 8, np.dtype(np.float64)),
        PtxType("f16x2", "float", 4, np.dtype(np.float16), 2),
        PtxType("bf16x2", "float", 4, np.dtype(np.uint16), 2),
        PtxType("f32x2", "float", 8, np.dtype(np.float32), 2),
        PtxType("u16x2", "unsigned", 4, np.dtype(np.uint16), 2),
        PtxType("s16x2", "signed", 4, np.dtype(np.int16), 2),
        PtxType("e4m3x2", "float", 2, np.dtype(np.uint8), 2),
        PtxType("e5m2x2", "float", 2, np.dtype(np.uint8), 2),
        PtxType("b128", "unsigned", 16, np.dtype(np.uint64), 2),
    ]
    return {t.name: t for t in types}


TYPES = _table()


def some(mask: Array) -> bool:
    """Whether any element of a mask holds; several times faster than `mask.any()`."""
    return bool(np.count_nonzero(mask))


def every(mask: Array) -> bool:
    """Whether all elements of a mask hold; several times faster than `mask.all()`."""
    return bool(np.count_nonzero(mask) == mask.size)


def unsigned(size: int) -> PtxType:
    """Return the type of plain bits of `size` bytes."""
    return TYPES[f"b{8 * size}"]


def signed(size: int) -> PtxType:
    """Return the signed integer type of `size` bytes."""
    return TYPES[f"s{8 * size}"]
