"""Conversion of `LiteralProto` to literals and back, bit for bit.

Elements are stored in the order of the literal's layout. Types below a byte take one byte each, of
which the low bits are used.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from hloc.dtypes import DType
from hloc.errors import HloError
from hloc.formats.faults import BadMessage
from hloc.formats.proto_shapes import fill_shape, shape_of
from hloc.literal import Literal
from hloc.shapes import ArrayShape, Shape, TupleShape

_AS_NUMBERS = {
    "pred": "preds", "s32": "s32s", "s64": "s64s", "u32": "u32s", "u64": "u64s",
}  # fmt: skip
_IN_PIECES = ("f32", "f64", "c64", "c128")


def literal_of_proto(proto: Any) -> Literal:
    """Return the literal that a `LiteralProto` describes.

    Raises:
        BadMessage: it has no shape, or its data do not fit the shape.
    """
    return _literal(proto, shape_of(proto.shape))


def _literal(proto: Any, shape: Shape) -> Literal:
    """Return a literal; memory is in the order of the layout, elements in row-major order."""
    if isinstance(shape, TupleShape):
        if len(shape.elements) != len(proto.tuple_literals):
            raise BadMessage(
                f"a literal of shape {shape} has {len(proto.tuple_literals)} elements, not "
                f"{len(shape.elements)}"
            )
        parts = zip(proto.tuple_literals, shape.elements, strict=True)
        return Literal(shape, tuple(_literal(part, element) for part, element in parts))
    if not isinstance(shape, ArrayShape) or shape.dtype.is_special:
        raise BadMessage(f"a literal of shape {shape} is not possible")
    flat = _elements(proto, shape)
    order = shape.minor_to_major[::-1]
    try:
        array = flat.reshape([shape.dims[dim] for dim in order]).transpose(np.argsort(order))
        array = np.ascontiguousarray(array).reshape(shape.dims)
    except ValueError as fault:  # more dimensions than NumPy has, or larger ones next to a 0
        raise BadMessage(f"a literal of shape {shape}: {fault}") from None
    array.flags.writeable = False
    return Literal(shape, array)


def _elements(proto: Any, shape: ArrayShape) -> np.ndarray[Any, Any]:
    """Return the elements in the order of the layout; raises `BadMessage` if some are missing."""
    dtype = shape.dtype
    count = prod(shape.dims)
    if dtype.name in _AS_NUMBERS:
        numbers = getattr(proto, _AS_NUMBERS[dtype.name])
        if len(numbers) != count:
            raise _wrong_count(shape, len(numbers))
        return np.fromiter(numbers, dtype.numpy, count)
    field = getattr(proto, dtype.name + "s")
    data = b"".join(field) if dtype.name in _IN_PIECES else field
    size = dtype.storage_bytes
    if len(data) != count * size:
        raise _wrong_count(shape, len(data) / size)
    flat = np.frombuffer(data, dtype.numpy.newbyteorder("<") if _has_order(dtype) else np.uint8)
    if _has_order(dtype):
        return flat.astype(dtype.numpy, copy=True)
    return _of_bytes(flat, dtype)


def _has_order(dtype: DType) -> bool:
    return dtype.numpy.isbuiltin == 1 and dtype.storage_bytes > 1


def _of_bytes(data: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return bytes as elements of `dtype`; narrow types use the low bits."""
    if dtype.storage_bytes == 2:  # bf16
        return data.view("<u2").astype(np.uint16).view(dtype.numpy)
    if dtype.is_integer and dtype.bits < 8:
        low = data & ((1 << dtype.bits) - 1)
        if dtype.is_signed:
            half = 1 << (dtype.bits - 1)
            return (low ^ half).astype(np.int8).__sub__(half).astype(dtype.numpy)
        return low.astype(dtype.numpy)
    if dtype.bits < 8:
        data = data & ((1 << dtype.bits) - 1)
    return data.copy().view(dtype.numpy)


def _wrong_count(shape: ArrayShape, found: float) -> BadMessage:
    return BadMessage(f"a literal of shape {shape} has {found:g} elements, not {shape.elements}")


def fill_literal(proto: Any, literal: Literal) -> None:
    """Fill an empty `LiteralProto` with `literal`.

    Raises:
        HloError: the text of the module elided its values.
    """
    fill_shape(proto.shape, _without_element_size(literal.shape))
    _fill(proto, literal)


def _without_element_size(shape: Shape) -> Shape:
    """Return the shape that XLA gives a literal, whose elements are never packed."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_without_element_size(element) for element in shape.elements))
    if not isinstance(shape, ArrayShape) or shape.layout is None:
        return shape
    return shape.with_layout(replace(shape.layout, element_bits=0))


def _fill(proto: Any, literal: Literal) -> None:
    """Write a literal, its elements in the order of its layout, in the field of its type."""
    if isinstance(literal.value, tuple):
        for part in literal.value:
            fill_literal(proto.tuple_literals.add(), part)
        return
    if literal.value is None:
        raise HloError(
            f"a constant of shape {literal.shape} has no values: the text it came from leaves "
            "them out"
        )
    shape = literal.shape
    assert isinstance(shape, ArrayShape)
    flat = np.ascontiguousarray(literal.array.transpose(shape.minor_to_major[::-1])).reshape(-1)
    dtype = shape.dtype
    if dtype.name in _AS_NUMBERS:
        getattr(proto, _AS_NUMBERS[dtype.name]).extend(flat.tolist())
        return
    data = _to_bytes(flat, dtype)
    if dtype.name in _IN_PIECES:
        if data:
            getattr(proto, dtype.name + "s").append(data)
    else:
        setattr(proto, dtype.name + "s", data)


def _to_bytes(flat: np.ndarray[Any, Any], dtype: DType) -> bytes:
    if _has_order(dtype):
        return flat.astype(dtype.numpy.newbyteorder("<")).tobytes()
    if dtype.storage_bytes == 2:
        return flat.view(np.uint16).astype("<u2").tobytes()
    if dtype.is_integer and dtype.bits < 8:
        return (flat.astype(np.int8).view(np.uint8) & ((1 << dtype.bits) - 1)).tobytes()
    return flat.tobytes()
