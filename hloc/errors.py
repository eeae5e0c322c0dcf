"""User errors: diagnostics with place, line, caret and advice, collected in one exception.

An error of the compiler itself is an assertion or an `InternalError`, never an `HloError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hloc.lazy_dataclass import dataclass
from hloc.source import Span

_MAX_LINE = 160
_LONG_WORD = re.compile(r"\S{121,}")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error: a lower-case message without a final period, its place, and advice."""

    message: str
    span: Span | None = None
    notes: tuple[str, ...] = ()
    code: str = ""

    def render(self) -> str:
        """Return the text to show: place, message, the line, a caret, the notes."""
        label = f"error[{self.code}]" if self.code else "error"
        if self.span is None:
            head = f"{label}: {shortened(self.message)}"
            return printable_lines("\n".join([head, *(f"note: {note}" for note in self.notes)]))
        head = f"{self.span.place()}: {label}: {shortened(self.message)}"
        lines = [head, *self._excerpt(self.span)]
        lines += [f"note: {note}" for note in self.notes]
        return printable_lines("\n".join(lines))

    @staticmethod
    def _excerpt(span: Span) -> list[str]:
        line, column = span.source.line_column(min(span.start, len(span.source.text)))
        text = span.source.line_text(line)
        width = max(1, min(span.end - span.start, len(text) - column + 1))
        cut = max(0, column - _MAX_LINE // 2) if len(text) > _MAX_LINE else 0
        shown = text[cut : cut + _MAX_LINE]
        width = max(1, min(width, len(shown) - (column - 1 - cut)))
        number = f"{line:5d} | "
        blank = " " * (len(number) - 2) + "| "
        return [number + printable(shown), blank + " " * (column - 1 - cut) + "^" * width]


def printable(text: str) -> str:
    """Escape what a terminal would interpret; one character stays one column.

    These are control characters, escape sequences, line ends, and marks that change the writing
    direction (U+202E), with which a name can look like another.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in text)


def printable_lines(text: str) -> str:
    """Apply `printable` to each line; only a line feed ends one."""
    return "\n".join(map(printable, text.split("\n")))


def shortened(message: str) -> str:
    """Shorten quotations in a message: words of more than 120 characters keep both ends."""
    return _LONG_WORD.sub(lambda word: f"{word[0][:60]}...{word[0][-30:]}", message)


def reason_of(fault: OSError) -> str:
    """Return the reason of a system error, in message style: `no such file or directory`."""
    words = fault.strerror or str(fault)
    return words[:1].lower() + words[1:]


class HloError(Exception):
    """One or more errors in the input or in the call of hloc; `str()` shows them all."""

    def __init__(
        self,
        message: str | Iterable[Diagnostic],
        span: Span | None = None,
        notes: Iterable[str] = (),
        code: str = "",
    ) -> None:
        if isinstance(message, str):
            self.diagnostics: tuple[Diagnostic, ...] = (
                Diagnostic(message, span, tuple(notes), code),
            )
        else:
            self.diagnostics = tuple(message)
        super().__init__(self.diagnostics)

    @property
    def message(self) -> str:
        """The first message, without its place."""
        return self.diagnostics[0].message

    def __str__(self) -> str:
        return "\n".join(diagnostic.render() for diagnostic in self.diagnostics)


class UnsupportedError(HloError):
    """The module is valid, but this target cannot run it; the message says what and why."""


class OutOfMemoryError(HloError):
    """The module needs more memory than the limit allows or this machine has."""


class InternalError(Exception):
    """A bug in hloc; the message has the pass, the instruction and how to report it."""
