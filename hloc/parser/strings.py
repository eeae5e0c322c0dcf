"""Strings of the text format: C escapes decoded (format reference, section 2)."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))"
)
_SINGLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_SINGLE |= {c: c for c in "\\\"'?"}


def unquote(text: str) -> str:
    """Return the value of `text`, a string with its quotes.

    Octal and hexadecimal escapes name bytes; those that are UTF-8 become characters, others
    stay as lone surrogates, which `quoted` turns back into the same bytes.

    Raises:
        ValueError: an escape that C does not know.
    """
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    out = bytearray()
    at = 0
    for found in _ESCAPE.finditer(inner):
        out += inner[at : found.start()].encode("utf-8", "surrogateescape")
        out += _escaped(found)
        at = found.end()
    out += inner[at:].encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")


def _escaped(found: re.Match[str]) -> bytes:
    octal, hexadecimal, short, long, single = found.groups()
    if octal is not None:
        if int(octal, 8) > 255:
            raise ValueError(f"escape {found.group()} is beyond one byte")
        return bytes([int(octal, 8)])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    if short is not None or long is not None:
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError(f"escape {found.group()} names no character")
        return chr(code).encode()
    if single not in _SINGLE:
        raise ValueError(f"unknown escape {found.group()}")
    return _SINGLE[single].encode()
