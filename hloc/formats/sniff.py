"""Detect the format of a file from its first 4 KB."""

from __future__ import annotations

import re

from hloc.formats.wire import WireFault, fields

TEXT, GZIP, BYTECODE, STABLEHLO = "text", "gzip", "StableHLO bytecode", "StableHLO text"
MODULE, HLO, SNAPSHOT = "HloModuleProto", "HloProto", "HloSnapshot"
PROTOS = (MODULE, HLO, SNAPSHOT)

FORMATS = ("hlo", "pb", "module-pb", "stablehlo")
"""Formats that can be written: HLO text, `HloProto`, `HloModuleProto`, StableHLO text."""

_SAMPLE = 4096
_CONTROL = bytes(b for b in range(32) if b not in b"\t\n\v\f\r\x1b") + b"\x7f"
_OPCODE = re.compile(rb"[a-z][a-z0-9-]{0,60}")

# First bytes of other formats, and their names in messages.
_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "an ELF object or program"),
    (b"PK\x03\x04", "a zip archive (.npz, .whl, .docx)"),
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O object or program"),
    (b"MZ", "a Windows program"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
# MLIR text starts with a module, location aliases or a function; HLO text never does.
_MLIR = re.compile(
    rb"(?:\s|//[^\n]*\n)*+(?:module\s+@|module\s+attributes\s*\{|#\w+\s*=|\"?builtin\.module\"?"
    rb"|func\.func\s|module\s*\{\s*(?:func\.func|\"?(?:stablehlo|mhlo)\.)|#loc)"
)


def kind_of(data: bytes) -> str:
    """Return `TEXT`, `GZIP`, `BYTECODE`, `STABLEHLO`, one of `PROTOS`, or a description."""
    head = data[:_SAMPLE]
    if head.startswith(b"\x1f\x8b"):
        return GZIP
    if head.startswith(b"ML\xefR"):
        return BYTECODE
    controls = len(head) - len(head.translate(None, _CONTROL))
    if controls == 0 and not head.startswith((b"\xff\xfe", b"\xfe\xff", b"%PDF-")):
        return STABLEHLO if _MLIR.match(head) else TEXT
    for magic, name in _OTHERS:
        if head.startswith(magic):
            return name
    found = _proto_kind(data)
    if found:
        return found
    # The parser reports a few stray bytes in a text, since it knows the place.
    return "a binary file" if controls * 10 > len(head) else TEXT


def _proto_kind(data: bytes) -> str:
    """Return the message type that `data` resembles, "" if none."""
    if _is_module(data, 0, len(data)):
        return MODULE
    found = _first(data, 0, len(data), 1)
    if found is None:
        return ""
    if _is_module(data, *found):
        return HLO
    inner = _first(data, *found, 1)
    return SNAPSHOT if inner is not None and _is_module(data, *inner) else ""


def _is_module(data: bytes, start: int, end: int) -> bool:
    """True if field 3, computations, has field 2, instructions, with an opcode in field 2."""
    computation = _first(data, start, end, 3)
    instruction = computation and _first(data, *computation, 2)
    opcode = instruction and _first(data, *instruction, 2)
    return bool(opcode and _OPCODE.fullmatch(data, *opcode))


def _first(data: bytes, start: int, end: int, wanted: int) -> tuple[int, int] | None:
    """Return start and end of the first field `wanted` of a message, None without one."""
    try:
        for number, wire, at, stop in fields(data, start, end, cut=True):
            if number == wanted and wire == 2:
                return at, stop
    except WireFault:
        pass
    return None
