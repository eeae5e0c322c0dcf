"""C structures of the plug-in: offsets for machine code, ctypes classes for Python.

`abi_table.py` holds those of the PJRT C API, `objects.py` those behind its handles. Both write
them as `struct Name: type field, type field`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from hloc.pjrt.abi_from_header import HEAD_FIELDS
from hloc.pjrt.abi_table import TABLE
from hloc.pjrt.objects import OBJECTS

MAJOR_VERSION, MINOR_VERSION = 0, 90
"""The version of the C API that the plug-in says it speaks.

jaxlib calls no function of a later version then, and reads the structures of errors and memories
through functions, not directly (which 0.105 and 0.107 brought).
"""

LAST_FUNCTION = "PJRT_Event_Set"
"""The last function of `PJRT_Api` in that version."""

SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "uint8_t": ctypes.c_uint8,
    "int": ctypes.c_int32,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "float": ctypes.c_float,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "intptr_t": ctypes.c_int64,
    "uintptr_t": ctypes.c_uint64,
    "double": ctypes.c_double,
}

_BYTES = {"bool": 1, "char": 1, "uint8_t": 1, "int": 4, "int32_t": 4, "uint32_t": 4, "float": 4}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a structure; `type` ends with `*` for pointers."""

    type: str
    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the fields of a structure lie, by the rules of C on 64-bit machines."""

    fields: dict[str, Field]
    size: int
    alignment: int


@cache
def _declarations() -> tuple[dict[str, tuple[tuple[str, str], ...]], dict[str, dict[str, int]]]:
    structs: dict[str, tuple[tuple[str, str], ...]] = {}
    enums: dict[str, dict[str, int]] = {}
    rows = f"{TABLE}{OBJECTS}".replace("\n  ", " ").strip().split("\n")
    for row in rows:
        head, _, body = row.partition(": ")
        kind, _, name = head.partition(" ")
        items = body.replace("...", ", ".join(HEAD_FIELDS)).split(", ") if body else []
        if kind == "enum":
            pairs = (item.partition("=") for item in items)
            enums[name] = {key: int(value) for key, _, value in pairs}
        else:
            fields = (item.rpartition(" ") for item in items)
            structs[name] = tuple((type_, field) for type_, _, field in fields)
    structs["PJRT_LoadedExecutable"] = structs["PJRT_Executable"]
    return structs, enums


def enum(name: str) -> dict[str, int]:
    """Return the members of an enum by name."""
    return _declarations()[1][name]


def has_struct(name: str) -> bool:
    """True if there is a structure of that name."""
    return name in _declarations()[0]


@cache
def layout(name: str) -> Layout:
    """Return where the fields of structure `name` lie."""
    fields: dict[str, Field] = {}
    at, alignment = 0, 1
    for type_, field in _declarations()[0][name]:
        size, align = _size_and_alignment(type_)
        at = -(-at // align) * align
        fields[field] = Field(type_, field, at)
        at, alignment = at + size, max(alignment, align)
    return Layout(fields, -(-at // alignment) * alignment, alignment)


def _size_and_alignment(type_: str) -> tuple[int, int]:
    if type_.endswith("*"):
        return 8, 8
    if type_ in SCALARS:
        size = _BYTES.get(type_, 8)
        return size, size
    inner = layout(type_)
    return inner.size, inner.alignment


@cache
def structure(name: str) -> Any:
    """Return the ctypes class of structure `name`."""
    fields = [(field, _ctype(type_)) for type_, field in _declarations()[0][name]]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _ctype(type_: str) -> Any:
    if type_.endswith("*"):
        return ctypes.c_void_p
    return SCALARS.get(type_) or structure(type_)
