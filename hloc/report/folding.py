"""Wrapping of report lines that are wider than the terminal.

A terminal breaks a line in the middle of a word and continues at its left edge.
"""

from __future__ import annotations

import re
import shutil

_STYLE = re.compile("\x1b\\[[0-9;]*m")
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
_DEEPER = 4
_LEAST_ROOM = 20
_FULL = 0.6
"""Minimum fill of a line that is broken before a gap."""


def terminal_columns() -> int:
    """Return the columns of the terminal, or of COLUMNS if it is set; 100 without either."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 40), 400)


def folded(text: str, width: int, *, prose: bool = False) -> str:
    """Return `text` with lines of at most `width` columns; styles have no width.

    The rest of a line is indented to its last column, `name  words`, or by four more columns.

    Args:
        text: lines of a report.
        width: columns of the terminal.
        prose: refill paragraphs: adjacent lines of equal indentation and without columns.
    """
    lines = text.split("\n")
    if prose:
        lines = _paragraphs(lines, width)
    return "\n".join(part for line in lines for part in _fold(line, width, prose=prose))


def breaks(plain: str, width: int, *, prose: bool = False) -> tuple[list[tuple[int, int]], int]:
    """Return the start and end of the parts of a line, and the indentation of the later ones.

    A part ends before a wide gap if there is one near its end, else between two words.
    """
    hang = _hanging_indent(plain, width, prose=prose)
    parts, start, room = [], 0, width
    while len(plain) - start > room:
        words = _next_word(plain, start)
        stop = _end_of(plain, words, start + room)
        if stop < 0:
            break
        parts.append((start, stop))
        start, room = _next_word(plain, stop), width - hang
    return [*parts, (start, len(plain))], hang


def _end_of(plain: str, words: int, end: int) -> int:
    """Return where to break a line whose part begins at `words`, at `end` if possible."""
    gaps = [gap.start() for gap in _GAP.finditer(plain, words, end + 4) if gap.start() <= end]
    if gaps and gaps[-1] - words >= _FULL * (end - words):
        return gaps[-1]
    stop = plain.rfind(" ", words, end + 1)
    if stop <= words:
        stop = max(plain.rfind(mark, words, end) for mark in ",|") + 1
    return stop if stop > words else plain.find(" ", end)  # a path is not broken


def _next_word(plain: str, at: int) -> int:
    return at + len(plain[at:]) - len(plain[at:].lstrip(" "))


def _fold(line: str, width: int, *, prose: bool) -> list[str]:
    plain = _STYLE.sub("", line)
    if len(plain) <= width:
        return [line]
    parts, hang = breaks(plain, width, prose=prose)
    places = _places(line)
    found: list[str] = []
    last = 0
    for start, stop in parts:
        styles = "".join(_STYLE.findall(line[last : places[start]]))
        indent = " " * hang * bool(found)
        found.append(indent + styles + line[places[start] : places[stop]].rstrip(" "))
        last = places[stop]
    return found


def _hanging_indent(plain: str, width: int, *, prose: bool) -> int:
    """Return the indentation of the second line."""
    indent = len(plain) - len(plain.lstrip())
    if prose and not _GAP.search(plain):
        return indent
    columns = [gap.end() for gap in _GAP.finditer(plain) if gap.end() <= width // 2]
    hang = columns[-1] if columns else indent + _DEEPER
    return hang if width - hang >= _LEAST_ROOM else min(indent + _DEEPER, width - _LEAST_ROOM)


def _places(line: str) -> list[int]:
    """Return the position in `line` of each visible character, styles before it included."""
    places: list[int] = []
    at = 0
    for style in (*_STYLE.finditer(line), None):
        stop = style.start() if style else len(line)
        places += range(at, stop)
        at = style.end() if style else stop
    return [*places, len(line)]


def _paragraphs(lines: list[str], width: int) -> list[str]:
    """Return `lines` with those of a paragraph joined, if one of them is too wide."""
    found: list[list[str]] = []
    for line in lines:
        if found and _continues(found[-1][-1], line):
            found[-1].append(line)
        else:
            found.append([line])
    joined = []
    for group in found:
        if any(len(line) > width for line in group):
            group = [" ".join([group[0].rstrip(), *(line.strip() for line in group[1:])])]
        joined += group
    return joined


def _continues(before: str, line: str) -> bool:
    indents = [len(text) - len(text.lstrip()) for text in (before, line)]
    words = before.strip() and line.strip() and line.strip()[0].isalpha()
    return bool(words) and indents[0] == indents[1] and len(before) > 2 * _LEAST_ROOM
