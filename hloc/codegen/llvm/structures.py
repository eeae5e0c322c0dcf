"""C structures and enums that machine code and Python share: offsets and ctypes classes.

They are written as lines `struct Name: type field, type field` and `enum Name: A=0, B=1`. A field
without a type is a pointer to a function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from hloc.lazy_dataclass import dataclass

SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "uint8_t": ctypes.c_uint8,
    "int8_t": ctypes.c_int8,
    "int16_t": ctypes.c_int16,
    "uint16_t": ctypes.c_uint16,
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


class Structures:
    """The declarations of one text; a line that begins with two spaces continues the last.

    Attributes:
        text: the declarations.
    """

    def __init__(self, text: str, others: Mapping[str, str] | None = None) -> None:
        """Read `text`; `others` gives structures a second name: new name -> declared name."""
        self.text = text
        self._structs: dict[str, tuple[tuple[str, str], ...]] = {}
        self._enums: dict[str, dict[str, int]] = {}
        self._layouts: dict[str, Layout] = {}
        self._classes: dict[str, Any] = {}
        for row in text.replace("\n  ", " ").strip().split("\n"):
            head, _, body = row.partition(": ")
            kind, _, name = head.partition(" ")
            items = body.split(", ") if body else []
            if kind == "enum":
                pairs = (item.partition("=") for item in items)
                self._enums[name] = {key: int(value) for key, _, value in pairs}
            else:
                fields = (item.rpartition(" ") for item in items)
                self._structs[name] = tuple((type_ or "void*", field) for type_, _, field in fields)
        for name, declared in (others or {}).items():
            self._structs[name] = self._structs[declared]

    @property
    def names(self) -> list[str]:
        """The names of all structures."""
        return list(self._structs)

    def enum(self, name: str) -> dict[str, int]:
        """Return the members of an enum by name."""
        return self._enums[name]

    def has_struct(self, name: str) -> bool:
        """True if there is a structure of that name."""
        return name in self._structs

    def layout(self, name: str) -> Layout:
        """Return where the fields of structure `name` lie."""
        found = self._layouts.get(name)
        if found is None:
            found = self._layouts[name] = self._laid_out(name)
        return found

    def structure(self, name: str) -> Any:
        """Return the ctypes class of structure `name`."""
        if name not in self._classes:
            fields = [(field, self._ctype(type_)) for type_, field in self._structs[name]]
            self._classes[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        return self._classes[name]

    def size(self, type_: str) -> int:
        """Return the bytes of a C type."""
        return self._size_and_alignment(type_)[0]

    def _laid_out(self, name: str) -> Layout:
        fields: dict[str, Field] = {}
        at, alignment = 0, 1
        for type_, field in self._structs[name]:
            size, align = self._size_and_alignment(type_)
            at = -(-at // align) * align
            fields[field] = Field(type_, field, at)
            at, alignment = at + size, max(alignment, align)
        return Layout(fields, -(-at // alignment) * alignment, alignment)

    def _size_and_alignment(self, type_: str) -> tuple[int, int]:
        if type_.endswith("*"):
            return 8, 8
        if type_ in SCALARS:
            size = ctypes.sizeof(SCALARS[type_])
            return size, size
        inner = self.layout(type_)
        return inner.size, inner.alignment

    def _ctype(self, type_: str) -> Any:
        if type_.endswith("*"):
            return ctypes.c_void_p
        return SCALARS.get(type_) or self.structure(type_)
