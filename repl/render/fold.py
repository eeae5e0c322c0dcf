"""Wraps lines wider than the terminal at words; see `hloc/report/folding.py`."""

from __future__ import annotations

from rich.text import Text

from hloc.report.folding import breaks


def folded_text(text: Text, width: int) -> list[Text]:
    """Return `text` as lines of at most `width` columns, its styles kept."""
    return [part for line in text.split(allow_blank=True) for part in _parts(line, width)]


def _parts(line: Text, width: int) -> list[Text]:
    if len(line.plain) <= width:
        return [line]
    parts, hang = breaks(line.plain, width)
    found: list[Text] = []
    for start, stop in parts:
        part = line[start:stop]
        part.rstrip()
        found.append(Text(" " * hang * bool(found)).append_text(part))
    return found
