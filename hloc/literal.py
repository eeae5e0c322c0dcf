"""Literals: the values of constants, over NumPy arrays."""

from __future__ import annotations

import re
import struct
from math import inf, prod
from typing import Any

import numpy as np

from hloc.dtypes import DType, dtype_of_numpy
from hloc.lazy_dataclass import dataclass, lazy_property
from hloc.shapes import ArrayShape, TupleShape

_FIRST_LOOK = 64
"""Elements that are compared before all of a literal is read."""


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant value, compared bitwise: NaN payloads and the sign of zero count.

    Attributes:
        shape: array or tuple shape.
        value: read-only array in logical (row-major) order, a tuple of literals for a tuple, or
            None for data that a dump elided: `constant({...})`.
    """

    shape: ArrayShape | TupleShape
    value: np.ndarray[Any, Any] | tuple[Literal, ...] | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return self is other or (
            self._digest == other._digest and self.shape == other.shape and self._same_value(other)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self._digest))

    def __repr__(self) -> str:
        return f"Literal({self.shape})"

    @lazy_property
    def _digest(self) -> bytes | tuple[Literal, ...] | None:
        """A digest that differs for most different values; the whole value if it is small."""
        if not isinstance(self.value, np.ndarray):
            return self.value
        return self.value.reshape(-1)[:16].tobytes()

    def _same_value(self, other: Literal) -> bool:
        if self.is_scalar:
            return True  # the digest is the value
        if not isinstance(self.value, np.ndarray) or not isinstance(other.value, np.ndarray):
            return self.value == other.value
        if not any(self.value.strides) and not any(other.value.strides):
            return True  # one number stands for all elements, and the digest has it
        return self.value.tobytes() == other.value.tobytes()

    @property
    def is_elided(self) -> bool:
        """True if the text elides the values, in whole or in part."""
        if isinstance(self.value, tuple):
            return any(part.is_elided for part in self.value)
        return self.value is None

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The values; only for an array that was not elided."""
        assert isinstance(self.value, np.ndarray)
        return self.value

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.shape, ArrayShape) and self.shape.is_scalar

    @lazy_property
    def uniform(self) -> np.generic | None:
        """The common value of all elements (equal bitwise), or None."""
        if not isinstance(self.value, np.ndarray) or self.value.size == 0:
            return None
        flat = self.value.reshape(-1)
        first: np.generic = flat[0]
        if any(flat.strides):  # else one number stands for all elements, perhaps for terabytes
            width = self.value.dtype.itemsize
            for part in (flat[:_FIRST_LOOK], flat):  # weights differ in the first elements
                data = np.ascontiguousarray(part).view(np.uint8).reshape(-1, width)
                if (data != data[0]).any():
                    return None
        return first


class WrittenScalar(Literal):
    """A scalar in the form of its text: small modules are parsed and printed without NumPy.

    Attributes:
        text: the printed form.
        number: its value.
    """

    shape: ArrayShape
    text: str
    number: float

    def __init__(self, shape: ArrayShape, text: str, number: float) -> None:
        vars(self).update(shape=shape, text=text, number=number)

    @lazy_property
    def value(self) -> np.ndarray[Any, Any]:
        array = np.array(self.number, self.shape.dtype.numpy)
        array.flags.writeable = False
        return array

    @lazy_property
    def _digest(self) -> bytes:
        return struct.pack(_FORMATS[self.shape.dtype.name], self.number)


_FORMATS = {
    "pred": "?", "s8": "b", "s16": "<h", "s32": "<i", "s64": "<q",
    "u8": "B", "u16": "<H", "u32": "<I", "u64": "<Q", "f32": "<f", "f64": "<d",
}  # fmt: skip
_PLAIN_FLOAT = re.compile(r"-?(?:[0-9][0-9.]{0,20}(?:e[-+][0-9]{2,3})?|inf)")
_PLAIN_INTEGER = re.compile(r"-?[0-9]{1,20}")
_DIGITS = {"f32": 6, "f64": 15}
"""Number of digits that survive parsing and printing (`FLT_DIG` of C)."""


def written_scalar(shape: ArrayShape, text: str) -> WrittenScalar | None:
    """Return the scalar that prints as `text`, None if NumPy is needed to decide."""
    dtype = shape.dtype
    number: float
    if dtype.name not in _FORMATS:
        return None
    if text in ("true", "false"):
        return WrittenScalar(shape, text, text == "true") if dtype.is_pred else None
    if dtype.is_pred:
        return None
    if dtype.is_float:
        if text.count(".") > 1 or text == "-0" or not _PLAIN_FLOAT.fullmatch(text):
            return None
        number = float(text)
        is_plain = number in (0.0, inf, -inf) or 1e-30 < abs(number) < 1e30
        is_printed = f"{number:.{_DIGITS[dtype.name]}g}" == text
        return WrittenScalar(shape, text, number) if is_plain and is_printed else None
    if not _PLAIN_INTEGER.fullmatch(text):
        return None
    number = int(text)
    low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
    is_plain = low <= number < low + (1 << dtype.bits) and str(number) == text
    return WrittenScalar(shape, text, number) if is_plain else None


MAX_EMPTY_GROUPS = 1024
"""Maximum number of brace pairs in the text of an empty constant that passes create."""


def empty_groups(dims: tuple[int, ...]) -> int:
    """Return the number of brace pairs in the text of an empty constant: `[3,0]` -> 3.

    0 for arrays with elements.
    """
    return prod(dims[: dims.index(0)]) if 0 in dims else 0


def literal_of(array: np.ndarray[Any, Any], dtype: DType | None = None) -> Literal:
    """Return a literal with a read-only view of `array` (`f32[2,3]` from float32 2x3)."""
    found = dtype or dtype_of_numpy(array.dtype)
    assert found is not None, f"no HLO type for NumPy type {array.dtype}"
    value = np.asarray(array, dtype=found.numpy).view()
    value.flags.writeable = False
    return Literal(ArrayShape(found, value.shape), value)
