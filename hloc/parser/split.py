"""Several modules in one file, divided by lines `// -----`."""

from __future__ import annotations

import re

from hloc.parser.scanner import after_blanks
from hloc.source import SourceFile

SEPARATOR = "// -----"
_SEPARATOR_LINE = re.compile(r"^// -----[ \t\r]*$", re.MULTILINE)


def split_modules(text: str | SourceFile) -> tuple[SourceFile, ...]:
    """Return the modules between the lines `// -----`, each with its position in the file.

    Pieces of only blanks and comments are omitted, unless there is no other. Diagnostics of
    a piece have the line numbers of the whole file.
    """
    pieces = pieces_of(SourceFile(text) if isinstance(text, str) else text)
    return tuple(piece for piece in pieces if not is_blank(piece.text)) or pieces[:1]


def is_blank(text: str) -> bool:
    """Tell whether `text` contains only blanks and comments."""
    return after_blanks(text, 0, len(text)) == len(text)


def pieces_of(source: SourceFile) -> tuple[SourceFile, ...]:
    """Return everything between the lines `// -----`, empty pieces too."""
    pieces: list[SourceFile] = []
    start, line = 0, source.first_line
    for found in _SEPARATOR_LINE.finditer(source.text):
        pieces.append(SourceFile(source.text[start : found.start()], source.name, line))
        line += source.text.count("\n", start, found.end())
        start = found.end()
    if not pieces:
        return (source,)
    return (*pieces, SourceFile(source.text[start:], source.name, line))
