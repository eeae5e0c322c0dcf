"""Element types by their numbers in the C API and in XLA's protos."""

from __future__ import annotations

from functools import cache

from hloc.dtypes import DTYPES, DType
from hloc.formats.enums import ELEMENT_TYPES
from hloc.pjrt.abi import enum

TOKEN = 23
"""The number of tokens in the C API."""


@cache
def dtypes() -> dict[int, DType]:
    """Return the element types of hloc, by number in the C API."""
    return {
        number: DTYPES[name.lower()]
        for name, number in enum("PJRT_Buffer_Type").items()
        if name.lower() in DTYPES and not DTYPES[name.lower()].is_special
    }


@cache
def numbers() -> dict[str, int]:
    """Return the numbers in the C API, by HLO's name of the type."""
    return {name.lower(): number for name, number in enum("PJRT_Buffer_Type").items()}


@cache
def number_of_primitive(primitive: int) -> int:
    """Return the number in the C API of a `PrimitiveType` of XLA's protos, 0 if none."""
    names = {number: name for name, number in ELEMENT_TYPES.items()}
    return numbers().get(names.get(primitive, ""), 0)
