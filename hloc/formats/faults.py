"""Invalid values in messages; the reader adds the path of the message."""

from __future__ import annotations

from hloc.formats.enums import ENUMS, enum_name


class BadMessage(Exception):
    """A well-formed message with an invalid value."""


def name_of(enum: str, number: int) -> str:
    """Return the name of an enum value; raises `BadMessage` for an unknown number."""
    found = enum_name(enum, number)
    if found is None:
        raise BadMessage(f"{enum} has no value {number}")
    return found


def number_of(enum: str, name: str) -> int:
    """Return the number of an enum value, which exists."""
    return ENUMS[enum][name]


def text_of(data: bytes) -> str:
    """Return the text in `data`; bytes that are not UTF-8 become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return the bytes that `text_of` decodes to `text`."""
    return text.encode("utf-8", "surrogateescape")
