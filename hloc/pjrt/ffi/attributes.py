"""Attributes of a call: from the text of an MLIR dictionary to structures of C.

Source: XLA's `ffi/attribute_map.cc`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.pjrt.ffi.abi import ATTRIBUTE, data_type, new
from hloc.pjrt.native import PjrtError, words

_SHORT = {"i": "s", "u": "u", "f": "f", "b": "pred"}
_FLOAT_BITS, _INTEGER_BITS = (32, 64), (8, 16, 32, 64)


@dataclass(slots=True)
class Attributes:
    """An `XLA_FFI_Attrs`, and the memory that it refers to."""

    native: Any
    kept: list[Any] = field(default_factory=list)


def attributes_of(text: str) -> Attributes:
    """Return the attributes of a backend configuration such as `{a = 1 : i32, b = "text"}`.

    Raises:
        PjrtError: it is not a dictionary, or the FFI does not support the type of an attribute.
    """
    from jaxlib.mlir import ir

    kept: list[Any] = []
    try:
        with ir.Context():
            parsed = ir.Attribute.parse(text or "{}")
            if not isinstance(parsed, ir.DictAttr):
                raise ValueError(text)
            return Attributes(_dictionary(ir.DictAttr(parsed), kept), kept)
    except (ir.MLIRError, ValueError):
        raise PjrtError(
            "INTERNAL",
            "Unsupported backend config. Expected a string parsable into dictionary attribute",
        ) from None


def _dictionary(attribute: Any, kept: list[Any]) -> Any:
    """Return an `XLA_FFI_Attrs`; names are in alphabetical order, as MLIR keeps them."""
    rows = [(item.name, *_value(item.name, item.attr, kept)) for item in _items(attribute)]
    kinds = (ctypes.c_int32 * max(len(rows), 1))(*(kind for _, kind, _ in rows))
    names = words(_address(_span(name.encode(), kept), kept) for name, _, _ in rows)
    values = words(_address(value, kept) for *_, value in rows)
    kept += [kinds, names, values]
    types, spans, attrs = (ctypes.addressof(array) for array in (kinds, names, values))
    return new("XLA_FFI_Attrs", size=len(rows), types=types, names=spans, attrs=attrs)


def _items(dictionary: Any) -> Iterator[Any]:
    return (dictionary[i] for i in range(len(dictionary)))


def _value(name: str, attribute: Any, kept: list[Any]) -> tuple[int, Any]:
    """Return the kind of an attribute and its structure.

    Raises:
        PjrtError: the FFI does not support its type.
    """
    from jaxlib.mlir import ir

    if isinstance(attribute, ir.BoolAttr):
        return _scalar("pred", np.bool_(ir.BoolAttr(attribute).value), kept)
    if isinstance(attribute, ir.IntegerAttr):
        bits, letter = _integer(name, attribute.type)
        value = np.array(ir.IntegerAttr(attribute).value % (1 << bits), f"uint{bits}")
        return _scalar(f"{letter}{bits}", value, kept)
    if isinstance(attribute, ir.FloatAttr):
        bits = {"f32": 32, "f64": 64}.get(str(attribute.type), 0)
        if not bits:
            raise _unsupported("Unsupported float attribute bit width", name)
        value = np.array(ir.FloatAttr(attribute).value, f"float{bits}")
        return _scalar(f"f{bits}", value, kept)
    if isinstance(attribute, ir.StringAttr):
        return ATTRIBUTE["STRING"], _span(ir.StringAttr(attribute).value_bytes, kept)
    if isinstance(attribute, ir.DictAttr):
        return ATTRIBUTE["DICTIONARY"], _dictionary(ir.DictAttr(attribute), kept)
    array = _array(attribute)
    if array is None:
        raise _unsupported("Unsupported attribute type", name)
    short = f"{_SHORT[array.dtype.kind]}{array.itemsize * 8}"
    known = _FLOAT_BITS if array.dtype.kind == "f" else _INTEGER_BITS
    if array.dtype.kind == "b" or array.itemsize * 8 not in known:
        raise _unsupported("Unsupported array element type", name)
    kept.append(array)
    native = new("XLA_FFI_Array", dtype=data_type(short), size=array.size, data=array.ctypes.data)
    return ATTRIBUTE["ARRAY"], native


def _integer(name: str, type_: Any) -> tuple[int, str]:
    from jaxlib.mlir import ir

    if not isinstance(type_, ir.IntegerType) or ir.IntegerType(type_).width not in _INTEGER_BITS:
        raise _unsupported("Unsupported integer attribute bit width", name)
    found = ir.IntegerType(type_)
    return found.width, "u" if found.is_unsigned else "s"


def _array(attribute: Any) -> np.ndarray[Any, Any] | None:
    """Return the elements of an array attribute, None for other attributes."""
    from jaxlib.mlir import ir

    dense = {
        "i8": ir.DenseI8ArrayAttr, "i16": ir.DenseI16ArrayAttr, "i32": ir.DenseI32ArrayAttr,
        "i64": ir.DenseI64ArrayAttr, "f32": ir.DenseF32ArrayAttr, "f64": ir.DenseF64ArrayAttr,
    }  # fmt: skip
    for name, kind in dense.items():
        if isinstance(attribute, kind):
            bits = int(name[1:])
            return np.array(list(kind(attribute)), f"{'float' if name[0] == 'f' else 'int'}{bits}")
    for elements in (ir.DenseIntElementsAttr, ir.DenseFPElementsAttr):
        if isinstance(attribute, elements):
            return np.array(elements(attribute)).ravel()
    return None


def _scalar(short: str, value: Any, kept: list[Any]) -> tuple[int, Any]:
    array = np.array(value)
    kept.append(array)
    native = new("XLA_FFI_Scalar", dtype=data_type(short), value=array.ctypes.data)
    return ATTRIBUTE["SCALAR"], native


def _span(data: bytes, kept: list[Any]) -> Any:
    storage = ctypes.create_string_buffer(data, len(data) + 1)
    kept.append(storage)
    return new("XLA_FFI_ByteSpan", ptr=ctypes.addressof(storage), len=len(data))


def _address(native: Any, kept: list[Any]) -> int:
    kept.append(native)
    return ctypes.addressof(native)


def _unsupported(what: str, name: str) -> PjrtError:
    return PjrtError("INVALID_ARGUMENT", f"{what} for attribute: {name}")
