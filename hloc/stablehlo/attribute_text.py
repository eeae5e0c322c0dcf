"""MLIR text of attribute values, for the generic form of an operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.dtypes import DType
from hloc.literal import Literal
from hloc.shapes import ArrayShape
from hloc.stablehlo.tree import Record
from hloc.stablehlo.types import type_text

_ENUMS = {
    "comparison_direction": "comparison_direction",
    "compare_type": "comparison_type",
    "fft_type": "fft_type",
    "rng_algorithm": "rng_algorithm",
    "rng_distribution": "rng_distribution",
    "transpose_a": "transpose",
}
_RECORDS = {
    "dimension_numbers": "gather",
    "scatter_dimension_numbers": "scatter",
    "dot_dimension_numbers": "dot",
    "channel_handle": "channel_handle",
}
_PLAIN = set(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 !#$%&'()*+,-./:;<=>?@[]^_`{|}~"
)


def string_text(text: str) -> str:
    """Return `text` in quotes; characters that MLIR escapes become two hexadecimal digits."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        out.append(chr(byte) if chr(byte) in _PLAIN else f"\\{byte:02X}")
    return '"' + "".join(out) + '"'


def attribute_text(name: str, value: Any) -> str:
    """Return the value of attribute `name`: `array<i64: 1, 0>`, `#stablehlo.gather<...>`."""
    if name in _ENUMS:
        return f"#stablehlo<{_ENUMS[name]} {value}>"
    if name == "precision_config":
        return "[" + ", ".join(f"#stablehlo<precision {word}>" for word in value) + "]"
    if name == "dimension_numbers" and isinstance(value, str):
        return f"#stablehlo.conv<{value}>"
    if isinstance(value, Record):
        return f"#stablehlo.{_RECORDS[name]}<{record_text(value)}>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{_float_text(value, 32)} : f32"
    if isinstance(value, np.ndarray):
        sizes = "x".join(map(str, value.shape))
        return f"dense<{_nested(value.tolist())}> : tensor<{sizes}xi64>"
    if isinstance(value, tuple):
        kind = "i1" if value and isinstance(value[0], bool) else "i64"
        texts = ", ".join(str(v).lower() for v in value)
        return f"array<{kind}: {texts}>" if value else f"array<{kind}>"
    return string_text(str(value))


def record_text(record: Record) -> str:
    """Return `offset_dims = [1], index_vector_dim = 1`; empty lists are left out."""
    parts = []
    for name, value in record.items():
        if isinstance(value, tuple):
            if value:
                parts.append(f"{name} = {list(value)}")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            parts.append(f"{name} = {text}")
    return ", ".join(parts)


def dictionary_text(attributes: dict[str, Any]) -> str:
    """Return `a = 1 : i64, b = true`, in alphabetical order as MLIR prints it."""
    return ", ".join(f"{n} = {attribute_text(n, v)}" for n, v in sorted(attributes.items()))


def _nested(values: Any) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(map(_nested, values)) + "]"
    return str(values)


# ---------------------------------------------------------------- constants


def dense_text(literal: Literal) -> str:
    """Return `dense<[1, 2]> : tensor<2xi32>`; equal elements are written once."""
    assert isinstance(literal.shape, ArrayShape)
    dtype = literal.shape.dtype
    array = literal.array
    if array.size == 0:
        text = ""
    elif literal.uniform is not None:
        text = _element_text(literal.uniform, dtype)
    elif array.size > 64 and not dtype.is_pred and dtype.bits >= 8:
        text = f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'
    else:
        text = _elements_text(array, dtype)
    return f"dense<{text}> : {type_text(literal.shape.with_layout(None))}"


def _elements_text(array: np.ndarray[Any, Any], dtype: DType) -> str:
    if array.ndim == 0:
        return _element_text(array[()], dtype)
    return "[" + ", ".join(_elements_text(part, dtype) for part in array) + "]"


def _element_text(value: Any, dtype: DType) -> str:
    if dtype.is_pred:
        return "true" if value else "false"
    if dtype.is_complex:
        half = dtype.bits // 2
        return f"({_float_text(float(value.real), half)}, {_float_text(float(value.imag), half)})"
    if dtype.is_integer:
        return str(int(value))
    number = float(value)
    if dtype.bits in (32, 64):
        return _float_text(number, dtype.bits)
    if not np.isfinite(number):
        raw = int.from_bytes(np.asarray(value).tobytes(), "little")
        return f"0x{raw:0{dtype.bits // 4}X}"
    return _with_point(repr(number))


def _float_text(number: float, bits: int) -> str:
    """Return the shortest decimal that parses to the same value, the bits if there is none."""
    kind = np.float32 if bits == 32 else np.float64
    value = kind(number)
    if not np.isfinite(value):
        raw = int.from_bytes(value.tobytes(), "little")
        return f"0x{raw:0{bits // 4}X}"
    return _with_point(np.format_float_scientific(value, unique=True, trim="0"))


def _with_point(text: str) -> str:
    """Return a float's text with a decimal point, which MLIR requires: `1e-05` is `1.0e-05`."""
    mantissa, mark, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + mark + exponent
