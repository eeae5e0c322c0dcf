"""Shared by the callbacks of value rules: numbers, lists as text, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

_LARGEST = 2**63 - 1


class BadText(Exception):
    """A text that does not conform to its rule; becomes an `HloError` at `offset` of the text."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class BadValue(Exception):
    """A value that parses but is wrong; becomes an `HloError` at the place of the value."""


Callback: TypeAlias = Callable[[Any, list[Any]], Any]
"""A method that Lark calls with the values of the parts of a rule."""


def constant(value: Any) -> Callback:
    """Return a callback that returns `value`."""
    return lambda _self, _children: value


def of_first(convert: Callable[[Any], Any] = lambda value: value) -> Callback:
    """Return a callback that returns the first part, converted."""
    return lambda _self, children: convert(children[0])


def of_all(convert: Callable[[tuple[Any, ...]], Any] = tuple) -> Callback:
    """Return a callback that returns all parts as a tuple, converted."""
    return lambda _self, children: convert(tuple(children))


def of_pair(convert: Callable[[Any], Any] = str) -> Callback:
    """Return a callback that gives the first part, converted, and the second."""
    return lambda _self, children: (convert(children[0]), children[1])


def tagged(tag: str, value: Callback) -> Callback:
    """Return a callback that returns `(tag, value(...))`."""
    return lambda self, children: (tag, value(self, children))


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
