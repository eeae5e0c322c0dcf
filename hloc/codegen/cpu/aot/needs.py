"""The undefined symbols of an object, read from its symbol table or imports."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hloc.codegen.llvm.object_file import undefined_symbols

_HEADER32 = struct.Struct("<16sHHIIIIIHHHHHH")
_SECTION32 = struct.Struct("<IIIIIIIIII")
_SYMBOL32 = struct.Struct("<IIIBBH")
_SYMBOL_TABLE = 2

_WASM_IMPORTS = 2
_LIMITS_WITH_MAXIMUM = 1
_FUNCTION, _TABLE, _MEMORY, _GLOBAL, _TAG = range(5)


def needed_symbols(data: bytes) -> tuple[str, ...]:
    """Return the undefined symbols of an object, sorted.

    Reads ELF of 32 and 64 bits and WebAssembly; returns () for other formats.
    """
    if data.startswith(b"\0asm"):
        return tuple(sorted(_imported_functions(data)))
    return _undefined32(data) if data[:5] == b"\x7fELF\x01" else undefined_symbols(data)


def _undefined32(data: bytes) -> tuple[str, ...]:
    header = _HEADER32.unpack_from(data)
    offset, size, count = header[6], header[11], header[12]
    sections = [_SECTION32.unpack_from(data, offset + i * size) for i in range(count)]
    result = set()
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL32.size):
            name, _value, _size, _info, _other, index = _SYMBOL32.unpack_from(data, at)
            if index == 0 and name:
                end = data.index(b"\0", names + name)
                result.add(data[names + name : end].decode("ascii", "replace"))
    return tuple(sorted(result))


class _Reader:
    """Reads the numbers and names of a WebAssembly module one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def number(self) -> int:
        """Read an unsigned LEB128 number."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def name(self) -> str:
        size = self.number()
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def skip_limits(self) -> None:
        flags = self.number()
        self.number()
        if flags & _LIMITS_WITH_MAXIMUM:
            self.number()


def _imported_functions(data: bytes) -> Iterator[str]:
    """Yield the functions in the import section of a WebAssembly object.

    Source: WebAssembly core specification, 5.5.5, "Import Section".
    """
    reader = _Reader(data, 8)
    while reader.at < len(data):
        section, size = reader.number(), reader.number()
        if section != _WASM_IMPORTS:
            reader.at += size
            continue
        for _ in range(reader.number()):
            reader.name()  # the module, `env`
            field, kind = reader.name(), reader.number()
            if kind == _FUNCTION:
                reader.number()
                yield field
            elif kind in (_TABLE, _MEMORY):
                if kind == _TABLE:
                    reader.number()
                reader.skip_limits()
            else:  # the type and whether it changes, of a global; attribute and type of a tag
                reader.number()
                reader.number()
        return
