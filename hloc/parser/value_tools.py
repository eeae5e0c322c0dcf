"""Shared by the callbacks of value rules: numbers, lists as text, and their errors."""

from __future__ import annotations

from typing import Any

_LARGEST = 2**63 - 1


class BadText(Exception):
    """A text that does not fit its rule; becomes an `HloError` at `offset` of the text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class BadValue(Exception):
    """A value that parses but is wrong; becomes an `HloError` at the place of the value."""


def int_of(token: str) -> int:
    """Return `token` as a signed 64-bit integer; 2^63 and above wrap; BadValue beyond 64 bits."""
    value = int(token) if len(token) <= 21 else 2**64
    if value > 2**64 - 1 or value < -(2**63):
        raise BadValue(f"{token[:40]} does not fit in 64 bits")
    return value - 2**64 if value > _LARGEST else value


def once(pairs: list[Any]) -> list[Any]:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise BadValue(f"{key} is given twice")
        seen.add(key)
    return pairs


def commas(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def index_text(index: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, index)) + "}"
