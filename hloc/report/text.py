"""Text for terminals: times, sizes, rates, colour, and text that is safe to print."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TextIO

from hloc.errors import printable
from hloc.lazy_dataclass import dataclass


def plural(number: int, word: str) -> str:
    """Return `1 pass`, `2 passes`, `2 copies`, `2 indexes`."""
    if number != 1 and word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{number:,} {word[:-1]}ies"
    ending = "" if number == 1 else "es" if word.endswith(("s", "x", "ch")) else "s"
    return f"{number:,} {word}{ending}"


def aligned(rows: Iterable[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Return a line per row with aligned columns; those in `right` are right-aligned."""
    found = list(rows)
    widths = [max(map(len, column)) for column in zip_longest(*found, fillvalue="")]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=False))
        ).rstrip()
        for row in found
    ]


def cut(text: str, most: int) -> str:
    """Return `text`, or its first characters and `…` if it has more than `most`."""
    return text if len(text) <= most else text[: most - 1] + "…"


def wants_color(when: str, stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Decide on colour: `--color`, then FORCE_COLOR and NO_COLOR, then whether it is a terminal."""
    if when != "auto":
        return when == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR") or environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"


_STYLES = {
    "bold": "1",
    "dim": "2",
    "diff.added": "32",
    "diff.removed": "31",
    "diff.changed": "33",
    "diff.rewired": "36",
    "diff.merged": "35",
    "diff.moved": "94",
    "diff.old": "9",
    "diff.new": "4",
    "diff.rule": "2",
    "diff.head": "2",
}
"""ANSI codes of the styles in lines of reports."""
_CODES = sorted({"0", "1", "2", "31", "32", "33", "36", *_STYLES.values()}, key=len, reverse=True)


_UNUSUAL = re.compile(r"[^\n\t -~]+")
_OWN_COLOUR = re.compile(rf"(\x1b\[(?:{'|'.join(_CODES)})(?:;(?:{'|'.join(_CODES)}))*m)")


def _harmless(found: re.Match[str]) -> str:
    return printable(found[0])


@dataclass(frozen=True, slots=True)
class Paint:
    """Wraps text in ANSI colours, or leaves it unchanged; colour is never the only signal."""

    enabled: bool

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled else text

    def good(self, text: str) -> str:
        return self._wrap("32", text)

    def bad(self, text: str) -> str:
        return self._wrap("1;31", text)

    def note(self, text: str) -> str:
        return self._wrap("36", text)

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def strong(self, text: str) -> str:
        return self._wrap("1", text)

    def styled(self, pieces: Iterable[tuple[str, str]]) -> str:
        """Colour pieces of a line by their styles, whose names are separated by blanks."""
        return "".join(
            self._wrap(";".join(_STYLES[name] for name in names.split()), text) if names else text
            for text, names in pieces
        )

    def safe(self, text: str) -> str:
        """Escape control characters except line ends, tabs and the colours of this class."""
        pieces = _OWN_COLOUR.split(text) if self.enabled else [text]
        pieces[::2] = [_UNUSUAL.sub(_harmless, piece) for piece in pieces[::2]]
        return "".join(pieces)

    def diff_line(self, line: str) -> str:
        """Colour a line of a diff by its first character."""
        match line[:1]:
            case "+":
                return self.good(line)
            case "-":
                return self._wrap("31", line)
            case "~":
                return self._wrap("33", line)
        return line
