"""Conversion of offsets in a text to the lines and columns of the protocol, and back.

A line ends with a line feed, a carriage return, or both. A column counts the units of the encoding
that client and server agreed on: bytes of UTF-8, units of UTF-16, or characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n?|\n")
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Position(NamedTuple):
    """A position in a text; both count from 0."""

    line: int
    column: int


class Change(NamedTuple):
    """Replaces the text between two positions by `text`; without positions, the whole text."""

    text: str
    start: Position | None = None
    end: Position | None = None


class Positions:
    """The lines of one text."""

    def __init__(self, text: str, encoding: Encoding = "utf-16") -> None:
        self._text = text
        self._units = None if text.isascii() else _UNITS[encoding]
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def position(self, offset: int) -> Position:
        """Return the position of `offset`; offsets after the end count as the end."""
        offset = min(max(offset, 0), len(self._text))
        line = bisect_right(self._starts, offset) - 1
        before = self._text[self._starts[line] : offset]
        return Position(line, len(before) if self._units is None else self._units(before))

    def offset(self, position: Position) -> int:
        """Return the offset of `position`; columns after the end of a line count as its end."""
        if position.line >= len(self._starts):
            return len(self._text)
        start = self._starts[position.line]
        found = _LINE.match(self._text, start)
        line = found.group() if found else ""
        return start + _index(line, position.column, self._units)


def changed(text: str, changes: Iterable[Change], encoding: Encoding = "utf-16") -> str:
    """Return `text` after `changes`, each applied to the result of the one before.

    An editor that replaces a name everywhere sends a change per place, so lines are replaced, and
    joined once.
    """
    units = _UNITS[encoding]
    lines = _lines(text)
    for change in changes:
        if change.start is None or change.end is None:
            lines = _lines(change.text)
            continue
        first, last = change.start.line, max(change.end.line, change.start.line)
        head = lines[first] if first < len(lines) else ""
        tail = lines[last] if last < len(lines) else ""
        new = head[: _index(head, change.start.column, units)] + change.text
        new += tail[_index(tail, change.end.column, units) :]
        if not new.endswith("\n"):
            last += 1  # the next line is joined, or completes `\r`
            new += lines[last] if last < len(lines) else ""
        lines[first : last + 1] = _lines(new)
    return "".join(lines)


def without_surrogates(text: str) -> str:
    """Return `text` with a replacement character for each unpaired surrogate."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _lines(text: str) -> list[str]:
    return _LINE.findall(text)[:-1]  # without the empty match at the end


def _index(line: str, column: int, units: Callable[[str], int] | None) -> int:
    """Return the index in `line` of a column; at most that of the end of the line."""
    end = len(line.rstrip("\r\n"))
    if units is None or line.isascii():
        return min(column, end)
    index = passed = 0
    while index < end and passed < column:
        passed += units(line[index])
        index += 1
    return index


def _utf_8(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _utf_16(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


_UNITS: dict[Encoding, Callable[[str], int]] = {"utf-8": _utf_8, "utf-16": _utf_16, "utf-32": len}
