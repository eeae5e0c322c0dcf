"""Classes of element types, with their names in messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hloc.dtypes import DType
from hloc.errors import HloError
from hloc.shapes import ArrayShape

TypeTest: TypeAlias = Callable[[DType], bool]


def is_float(dtype: DType) -> bool:
    return dtype.is_float


def is_float_or_complex(dtype: DType) -> bool:
    return dtype.is_float or dtype.is_complex


def is_integer(dtype: DType) -> bool:
    return dtype.is_integer


def is_pred_or_integer(dtype: DType) -> bool:
    return dtype.is_pred or dtype.is_integer


def is_numeric(dtype: DType) -> bool:
    """Integer, float or complex; not pred."""
    return dtype.is_integer or dtype.is_float or dtype.is_complex


def is_signed_numeric(dtype: DType) -> bool:
    """Signed integer, float or complex."""
    return dtype.is_signed or dtype.is_float or dtype.is_complex


def is_real(dtype: DType) -> bool:
    """Pred, integer or float: types with an order."""
    return not dtype.is_special and not dtype.is_complex


def is_real_number(dtype: DType) -> bool:
    """Integer or float."""
    return dtype.is_integer or dtype.is_float


def is_array_type(dtype: DType) -> bool:
    """Anything but token and opaque."""
    return not dtype.is_special


TYPE_CLASSES: dict[TypeTest, str] = {
    is_float: "a float",
    is_float_or_complex: "a float or complex",
    is_integer: "an integer",
    is_pred_or_integer: "pred or an integer",
    is_numeric: "an integer, float or complex",
    is_signed_numeric: "a signed integer, float or complex",
    is_real: "a pred, integer or float",
    is_real_number: "an integer or float",
    is_array_type: "an array",
}
"""How messages name each class."""


def check_type(shape: ArrayShape, allowed: TypeTest, what: str) -> None:
    """Raise HloError unless the element type of `shape` passes `allowed`."""
    if not allowed(shape.dtype):
        raise HloError(
            f"{what} has shape {shape.text_without_layout}, "
            f"but its element type must be {TYPE_CLASSES[allowed]} type"
        )
