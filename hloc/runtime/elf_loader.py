"""Places ELF objects for x86-64 in memory, in a fraction of the time that LLVM's linker takes.

It knows what LLVM writes for hloc's code: sections that are only read, references relative to their
place, and tables of addresses. Objects with anything else are left to LLVM's linker.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from hloc.codegen.llvm.object_file import ELF64_HEADER, SECTION_HEADER, SYMBOL

_RELOCATION = struct.Struct("<QQq")

_IDENT = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _GROUP = 1, 2, 4, 17
_WRITE, _ALLOC, _TLS = 1, 2, 0x400
_LOCAL, _GLOBAL = 0, 1
_UNDEFINED, _FIRST_RESERVED = 0, 0xFF00
_R_64 = 1
_RELATIVE = frozenset((2, 4))  # PC32, PLT32
_BY_TABLE = frozenset((9, 41, 42))  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
_WORD = 8
_LINE_BYTES = 64
_JUMP = b"\xff\x25\x00\x00\x00\x00"  # jmp *0(%rip), before the address
_JUMP_BYTES = 16
_MOST_DISTANCE = (1 << 31) - 1


class _Unknown(Exception):
    """The objects have something that LLVM's linker has to place."""


class Image:
    """Objects that are placed relative to each other.

    Attributes:
        data: the bytes, but for addresses.
        symbols: offsets of the global symbols.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.symbols: dict[str, int] = {}
        self._relocations: list[tuple[int, int, int | str, int]] = []
        self._table: dict[int | str, int] = {}
        self._jumps: dict[str, int] = {}
        self._addresses: list[tuple[int, int | str, int]] = []
        self._outside: dict[str, int] = {}

    def add(self, data: bytes) -> None:
        """Place the sections of an object, and note its symbols and references."""
        header = ELF64_HEADER.unpack_from(data)
        if header[0][:6] != _IDENT or header[1:3] != (_RELOCATABLE, _X86_64):
            raise _Unknown
        start, count = header[6], header[12]
        sections = [*SECTION_HEADER.iter_unpack(data[start : start + count * SECTION_HEADER.size])]
        places: list[int | None] = []
        names: list[int | str] = []
        references: list[tuple[int, ...]] = []
        for section in sections:
            places.append(self._placed(data, section) if section[2] & _ALLOC else None)
            if section[1] == _RELA:
                references.append(section)
            elif section[1] == _GROUP:
                raise _Unknown
        for section in sections:
            if section[1] == _SYMTAB:
                names = self._named(data, section, sections[section[6]], places)
        for section in references:
            place = places[section[7]]
            table = data[section[4] : section[4] + section[5]]
            if place is not None:
                for at, info, addend in _RELOCATION.iter_unpack(table):
                    entry = (info & 0xFFFFFFFF, place + at, names[info >> 32], addend)
                    self._relocations.append(entry)

    def _placed(self, data: bytes, section: tuple[int, ...]) -> int:
        """Append a section that belongs in memory; return its place."""
        _, kind, flags, _, offset, size, _, _, alignment, _ = section
        if kind != _PROGBITS or flags & (_WRITE | _TLS) or offset + size > len(data):
            raise _Unknown
        self._align(max(alignment, _LINE_BYTES))  # loops lie alike whatever is before them
        place = len(self.data)
        self.data += data[offset : offset + size]
        return place

    def _align(self, alignment: int) -> None:
        self.data += bytes(-len(self.data) % max(alignment, 1))

    def _named(
        self,
        data: bytes,
        section: tuple[int, ...],
        strings: tuple[int, ...],
        places: Sequence[int | None],
    ) -> list[int | str]:
        """Return the place of each symbol, or its name where it is defined elsewhere."""
        result: list[int | str] = []
        table = data[section[4] : section[4] + section[5]]
        for name, info, _, index, value, _ in SYMBOL.iter_unpack(table):
            binding = info >> 4
            text = ""
            if binding != _LOCAL:
                at = strings[4] + name
                text = data[at : data.index(b"\0", at)].decode()
            if index == _UNDEFINED:
                result.append(text)
                continue
            place = places[index] if index < _FIRST_RESERVED else None
            if place is None:  # the name of a file, or of a section that is not in memory
                result.append("")
                continue
            result.append(place + value)
            if binding != _LOCAL:
                if binding != _GLOBAL or text in self.symbols:
                    raise _Unknown
                self.symbols[text] = place + value
        return result

    def resolve(self, external: Callable[[str], int]) -> None:
        """Fill in what is relative; `external` gives addresses of functions outside."""
        for kind, at, symbol, addend in self._relocations:
            target = self.symbols.get(symbol, symbol) if isinstance(symbol, str) else symbol
            if target == "":
                raise _Unknown
            if kind in _BY_TABLE:
                target = self._entry(target)
            elif kind == _R_64:
                self._addresses.append((at, target, addend))
                continue
            elif kind not in _RELATIVE:
                raise _Unknown
            elif isinstance(target, str):
                target = self._jump(target)
            distance = target + addend - at
            if abs(distance) > _MOST_DISTANCE:
                raise _Unknown
            struct.pack_into("<i", self.data, at, distance)
        self._outside = {
            name: external(name) for _, name, _ in self._addresses if isinstance(name, str)
        }

    def _entry(self, target: int | str) -> int:
        """Return the place of a word with the address of `target`."""
        place = self._table.get(target)
        if place is None:
            self._align(_WORD)
            place = self._table[target] = len(self.data)
            self.data += bytes(_WORD)
            self._addresses.append((place, target, 0))
        return place

    def _jump(self, name: str) -> int:
        """Return the place of a jump to a function outside, which may be far away."""
        place = self._jumps.get(name)
        if place is None:
            self._align(_JUMP_BYTES)
            place = self._jumps[name] = len(self.data)
            self.data += _JUMP.ljust(_JUMP_BYTES, b"\0")
            self._addresses.append((place + len(_JUMP), name, 0))
        return place

    def loaded(self) -> tuple[mmap.mmap, int]:
        """Return executable memory with the code, and its address."""
        memory = mmap.mmap(
            -1,
            len(self.data),
            mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            mmap.PROT_READ | mmap.PROT_WRITE,
        )
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for at, target, addend in self._addresses:
            value = self._outside[target] if isinstance(target, str) else address + target
            struct.pack_into("<Q", self.data, at, value + addend)
        memory[:] = bytes(self.data)
        if _protect()(address, len(self.data), mmap.PROT_READ | mmap.PROT_EXEC):
            raise _Unknown
        return memory, address


def load_elf(
    objects: Iterable[bytes], functions: Sequence[str], external: Callable[[str], int | None]
) -> tuple[tuple[int, ...], mmap.mmap] | None:
    """Place objects in memory, where they may be executed but not changed.

    Args:
        objects: they refer to each other.
        functions: what to find in them.
        external: returns the address of a function outside, None if code may not call it.

    Returns:
        The addresses of `functions` and the memory, which is freed with it; None if LLVM's linker
        has to load the objects, or to say what is wrong.
    """

    def known(name: str) -> int:
        address = external(name)
        if address is None:
            raise _Unknown
        return address

    image = Image()
    try:
        for data in objects:
            image.add(data)
        image.resolve(known)
        places = [image.symbols[name] for name in functions]
        memory, address = image.loaded()
    except (_Unknown, KeyError, IndexError, ValueError, struct.error, OSError):
        return None
    return tuple(address + place for place in places), memory


@cache
def _protect() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
