"""Literals as XLA prints them (format reference, 9.1).

One difference: negative zero is `-0.0`. XLA writes `-0`, which its own parser reads as the integer
0, so the sign would be lost.
"""

from __future__ import annotations

from math import isnan, prod
from typing import Any

import numpy as np

from hloc.dtypes import DType, component_of
from hloc.errors import HloError
from hloc.literal import Literal, WrittenScalar
from hloc.shapes import ArrayShape, TupleShape

_DIGITS = {
    "f16": 5, "bf16": 4, "f8e5m2": 2, "f8e5m2fnuz": 2, "f8e8m0fnu": 2, "f8e4m3": 3, "f8e4m3fn": 3,
    "f8e4m3b11fnuz": 3, "f8e4m3fnuz": 3, "f8e3m4": 3, "f6e2m3fn": 3, "f4e2m1fn": 3, "f6e3m2fn": 2,
}  # fmt: skip
_PAYLOADS = frozenset({"f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e3m4"})
LARGE = 10
"""Constants with more elements are elided unless large constants are requested."""
MAX_PRINTED = 2**28
"""Constants with more elements are never printed in full."""
_CHUNK = 2**16


def literal_text(literal: Literal, large_constants: bool = True) -> str:
    """Return the one-line form: `{ { 1, 2 }, { 3, 4 } }`, `1.5`, `( 1, {1, 2} )`, `{...}`.

    Raises:
        HloError: all elements are wanted of a constant that has more than `MAX_PRINTED`.
    """
    if isinstance(literal, WrittenScalar):
        return literal.text
    shape = literal.shape
    if isinstance(shape, TupleShape):
        return _tuple_text(literal) if large_constants else "{...}"
    if literal.value is None or (shape.elements > LARGE and not large_constants):
        return "{...}"
    if shape.rank == 0:
        if shape.dtype.is_pred:
            return "true" if literal.array[()] else "false"
        return _element_texts(literal.array.reshape(1), shape.dtype)[0]
    return _array_text(literal, shape)


def _tuple_text(literal: Literal) -> str:
    assert isinstance(literal.value, tuple)
    if not literal.value:
        return "()"
    return "( " + ", ".join(literal_text(part) for part in literal.value) + " )"


def _array_text(literal: Literal, shape: ArrayShape) -> str:
    array, dims = literal.array, shape.dims
    if shape.elements > MAX_PRINTED:
        raise HloError(
            f"a constant of shape {shape.text_without_layout} is too large to print in full; "
            "leave out large constants"
        )
    if shape.elements > LARGE and _is_uniform(array):
        text = _element_texts(array.reshape(-1)[:1], shape.dtype)[0]
        return _uniform_text(text, dims)
    if len(dims) == 1:
        return "{" + ", ".join(_element_texts(array, shape.dtype)) + "}"
    rows = _row_texts(array, shape)
    for level in range(len(dims) - 2, -1, -1):
        rows = _grouped(rows, dims, level)
    return rows[0] if rows else "{  }"


def _is_uniform(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether all elements have the same bits; a broadcast value is not materialised."""
    if not any(array.strides):
        return True
    word = min(array.dtype.itemsize, 8)  # c128 has two
    flat = np.ascontiguousarray(array.reshape(-1)).view(f"u{word}").reshape(array.size, -1)
    return bool((flat[:1000] == flat[0]).all() and (flat == flat[0]).all())


def _bits(flat: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a view as unsigned integers, or `flat` if there are none of that size (c128)."""
    size = flat.dtype.itemsize
    return flat if size > 8 else np.ascontiguousarray(flat).view(f"u{size}")


def _uniform_text(text: str, dims: tuple[int, ...]) -> str:
    """Return the text of an array whose elements all have the same text."""
    if len(dims) == 1:
        return "{" + ", ".join([text] * dims[0]) + "}"
    opening, closing = _braces(dims[-1])
    parts = [opening + ", ".join([text] * dims[-1]) + closing] * dims[-2]
    for level in range(len(dims) - 2, -1, -1):
        inside = ", ".join(parts)
        marks = dims[level - 1] if level else 1
        parts = [_group(inside, dims, level, i) for i in range(marks)]
    return parts[0]


def _row_texts(array: np.ndarray[Any, Any], shape: ArrayShape) -> list[str]:
    """Return the text of each innermost row, in chunks, to limit memory."""
    size = shape.dims[-1]
    opening, closing = _braces(size)
    if not shape.elements:
        return [opening + closing] * prod(shape.dims[:-1])
    flat = array.reshape(-1)
    step = max(_CHUNK // size, 1) * size
    rows = []
    for start in range(0, flat.size, step):
        texts = _element_texts(flat[start : start + step], shape.dtype)
        for i in range(0, len(texts), size):
            rows.append(opening + ", ".join(texts[i : i + size]) + closing)
    return rows


def _braces(size: int) -> tuple[str, str]:
    """Return the braces of an innermost row: a blank inside, but not around one element or none."""
    return ("{ ", " }") if size > 1 else ("{", "}")


def _grouped(rows: list[str], dims: tuple[int, ...], level: int) -> list[str]:
    """Put braces around each run of `dims[level]` groups; `level` 0 is the outermost."""
    size = dims[level]
    return [
        _group(", ".join(rows[i * size : (i + 1) * size]), dims, level, i)
        for i in range(prod(dims[:level]))
    ]


def _group(inside: str, dims: tuple[int, ...], level: int, number: int) -> str:
    """Return group `number` of `level` in braces, with XLA's `/*i0=1*/` from four dimensions on."""
    if len(dims) < 4 or level == 0:
        return "{ " + inside + " }"
    mark = f" /*i{level - 1}={number % dims[level - 1]}*/"
    return "{" + mark + (" " + inside if inside else "") + " }"


def _element_texts(flat: np.ndarray[Any, Any], dtype: DType) -> list[str]:
    """Return the text of each element; equal floats of large arrays are formatted once."""
    if dtype.is_pred:
        return ["1" if value else "0" for value in flat.tolist()]
    if dtype.is_integer:
        return list(map(str, flat.astype(np.uint64 if dtype.name == "u64" else np.int64).tolist()))
    if dtype.is_complex:
        part = component_of(dtype)
        real, imag = (_float_texts(x, part) for x in (flat.real.copy(), flat.imag.copy()))
        return [f"({a}, {b})" for a, b in zip(real, imag, strict=True)]
    if flat.size < _CHUNK // 8:
        return _float_texts(flat, dtype)
    # Weights and masks repeat values: format each distinct one once.
    bits, places = np.unique(_bits(flat), return_inverse=True)
    if 2 * bits.size > flat.size:
        return _float_texts(flat, dtype)
    distinct = np.array(_float_texts(bits.view(flat.dtype), dtype), object)
    found: list[str] = distinct[places].tolist()
    return found


def _float_texts(flat: np.ndarray[Any, Any], dtype: DType) -> list[str]:
    """Return `%g` with the digits XLA uses for the type."""
    if dtype.name == "f64":
        texts = [_shortest(value, 15, 17) for value in flat.tolist()]
    elif dtype.name == "f32":
        texts = _f32_texts(flat)
    else:
        digits = _DIGITS[dtype.name]
        with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
            texts = [f"{value:.{digits}g}" for value in flat.astype(np.float64).tolist()]
    for i, text in enumerate(texts):
        if text == "-0":
            texts[i] = "-0.0"
        elif text == "nan":
            texts[i] = _nan_text(flat, i, dtype)
    return texts


def _shortest(value: float, few: int, many: int) -> str:
    text = f"{value:.{few}g}"
    return text if isnan(value) or float(text) == value else f"{value:.{many}g}"


def _f32_texts(flat: np.ndarray[Any, Any]) -> list[str]:
    values = flat.tolist()
    texts = [f"{value:.6g}" for value in values]
    with np.errstate(over="ignore"):
        again = np.array(list(map(float, texts)), np.float64).astype(np.float32)
    for i in np.flatnonzero((again != flat) & ~np.isnan(flat)).tolist():
        texts[i] = f"{values[i]:.9g}"
    return texts


def _nan_text(flat: np.ndarray[Any, Any], index: int, dtype: DType) -> str:
    """Return `nan`, `-nan` or `nan(0x1)`: payload and sign from the bits."""
    storage = np.ascontiguousarray(flat).view(f"u{dtype.storage_bytes}")
    bits = int(storage[index])
    sign = "-" if bits >> (dtype.bits - 1) and dtype.name != "f8e8m0fnu" else ""
    payload = bits & ((1 << dtype.mantissa_bits) - 1)
    quiet = 1 << (dtype.mantissa_bits - 1) if dtype.mantissa_bits else 0
    if dtype.name not in _PAYLOADS or payload == quiet:
        return f"{sign}nan"
    return f"{sign}nan(0x{payload:x})"
