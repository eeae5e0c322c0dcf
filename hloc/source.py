"""Source text and places in it: a file, a span of offsets, line and column on demand."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import NamedTuple

from hloc.lazy_dataclass import dataclass

_BLOCK = 4096
"""Characters between two counts of line ends."""


@dataclass(frozen=True)
class SourceFile:
    """The text of one module and its name (`<stdin>`, `<string>` or a path).

    `first_line` is the number of its first line in a file of several modules.
    """

    text: str
    name: str = "<string>"
    first_line: int = 1

    @cached_property
    def _line_ends_before(self) -> list[int]:
        """Line ends before each block of text; a table of all lines can be larger than the text."""
        counts = [0]
        for at in range(0, len(self.text), _BLOCK):
            counts.append(counts[-1] + self.text.count("\n", at, at + _BLOCK))
        return counts

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return line and column of `offset`, both counted from 1 at the start of the file."""
        block = offset // _BLOCK
        line = self._line_ends_before[block] + self.text.count("\n", block * _BLOCK, offset)
        return line + self.first_line, offset - self.text.rfind("\n", 0, offset)

    def line_text(self, line: int) -> str:
        """Return the text of `line` (counted as in `line_column`) without its line end."""
        ends = line - self.first_line  # line ends before it
        block = max(bisect_left(self._line_ends_before, ends) - 1, 0)
        start = block * _BLOCK
        for _ in range(ends - self._line_ends_before[block]):
            start = self.text.index("\n", start) + 1
        if not ends:
            start = 0
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


class Span(NamedTuple):
    """The half-open range of offsets `start..end` in `source`.

    Every instruction of a text has one: 0.2 us as a named tuple, 0.4 as a frozen dataclass.
    """

    source: SourceFile
    start: int
    end: int

    @property
    def text(self) -> str:
        """The spanned text."""
        return self.source.text[self.start : self.end]

    def place(self) -> str:
        """Return `name:line:column` of the start."""
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"
