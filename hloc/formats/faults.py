"""Invalid values in messages; the reader adds the path of the message."""

from __future__ import annotations

from hloc.formats.enums import ENUMS, enum_name


class BadMessage(Exception):
    """A well-formed message with an invalid value."""


def name_of(enum: str, number: int) -> str:
    """Return the name of an enum value; `BadMessage` for a number that is none."""
    found = enum_name(enum, number)
    if found is None:
        raise BadMessage(f"{enum} has no value {number}")
    return found


def number_of(enum: str, name: str) -> int:
    """Return the number of an enum value, which exists."""
    return ENUMS[enum][name]


def text_of(data: bytes) -> str:
    """Return the text in `data`; bytes that are no UTF-8 stay as lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return what `text_of` would read as `text`."""
    return text.encode("utf-8", "surrogateescape")
