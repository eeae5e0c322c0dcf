"""The two streams of a command: stdout for the output, stderr for messages and errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from typing import TextIO

from hloc.errors import HloError, printable, reason_of
from hloc.lazy_dataclass import dataclass
from hloc.report.exits import OutputFault
from hloc.report.folding import folded, terminal_columns
from hloc.report.text import Paint, wants_color


@dataclass(slots=True)
class Talk:
    """Where a command writes.

    Attributes:
        quiet: only the output and errors.
        color: `auto`, `always` or `never`, for both streams.
        aside: hides the progress line while anything else is written.
        documents: the JSON data of each module so far, None to write text.
        data: collects reports by name for `--format=json`, None to write them as text.
    """

    quiet: bool = False
    color: str = "auto"
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    aside: Callable[[], AbstractContextManager[None]] = nullcontext
    data: dict[str, object] | None = None
    documents: list[dict[str, object]] | None = None

    @property
    def paint(self) -> Paint:
        """Colours for stderr."""
        return Paint(wants_color(self.color, self.err))

    @property
    def width(self) -> int:
        """Columns of the terminal that shows stderr, 100 if none does."""
        asked = os.environ.get("COLUMNS", "").isdigit()
        return terminal_columns() if asked or self.err.isatty() else 100

    @property
    def product_paint(self) -> Paint:
        """Colours for stdout."""
        return Paint(wants_color(self.color, self.out))

    def product(self, form: str | bytes) -> None:
        """Write an output to stdout; a text gets a final line end.

        Files and pipes get every byte; for a terminal, control characters are replaced.

        Raises:
            HloError: bytes on a terminal.
            OutputFault: stdout cannot be written.
        """
        if isinstance(form, bytes) and self.out.isatty():
            raise HloError("binary output is not written to a terminal", notes=("use -o FILE",))
        if isinstance(form, str) and self.out.isatty():
            form = self.product_paint.safe(form)
        try:
            with self.aside():
                if isinstance(form, bytes):
                    self.out.flush()
                    self.out.buffer.write(form)
                else:
                    self.out.write(form if form.endswith("\n") else form + "\n")
        except BrokenPipeError:
            raise
        except OSError as fault:
            raise OutputFault(reason_of(fault)) from None

    def page(self, text: str, *, prose: bool = False) -> None:
        """Write a report to stdout, wrapped if that is a terminal.

        Raises:
            OutputFault: stdout cannot be written.
        """
        self.product(_fitted(text, self.out, prose=prose))

    def say(self, text: str, *, is_failure: bool = False) -> None:
        """Write a message to stderr; `-q` does not silence a failure."""
        if is_failure or not self.quiet:
            self._write(_fitted(self.paint.safe(text), self.err) + "\n")

    def begin_data(self) -> None:
        """Start the reports of another module, if reports are collected as data."""
        if self.documents is not None:
            self.data = {}
            self.documents.append(self.data)

    def report(
        self, name: str, lines: Iterable[str], data: object, *, is_failure: bool = False
    ) -> None:
        """Write the lines of a report, or keep its data for `--format=json`."""
        if self.data is not None:
            self.data[name] = data
        else:
            self.say("\n".join(lines), is_failure=is_failure)

    def warn(self, text: str) -> None:
        """Write a warning to stderr."""
        self.say(f"hloc: {self.paint.note('warning')}: {text}")

    def fault(self, error: HloError) -> None:
        """Write all diagnostics of `error` to stderr, their number, and how to learn more."""
        paint, lines = self.paint, []
        for diagnostic in error.diagnostics:
            text = diagnostic.render()
            head, mark, rest = text.partition("error")
            head = head if diagnostic.span else "hloc: "
            text = f"{head}{paint.bad(mark)}{rest}"
            lines.append(text if diagnostic.span else _fitted(text, self.err))
        if len(error.diagnostics) > 1:
            lines.append(f"{len(error.diagnostics)} errors")
        self._write("\n".join(lines) + "\n")
        codes = [diagnostic.code for diagnostic in error.diagnostics if diagnostic.code]
        if codes:
            self.say(f"explain a code with: hloc explain {codes[-1]}")

    def complain(self, what: str, message: str, notes: Iterable[str] = ()) -> None:
        """Write an error that has no position in a file."""
        lines = [f"hloc: {self.paint.bad(what)}: {printable(message)}"]
        lines += [f"note: {printable(note)}" for note in notes]
        self._write(_fitted("\n".join(lines), self.err) + "\n")

    def _write(self, text: str) -> None:
        with self.aside():
            self.err.write(text)


def _fitted(text: str, stream: TextIO, *, prose: bool = False) -> str:
    """Return `text` wrapped to the terminal of `stream`; files and pipes get whole lines."""
    if not stream.isatty():
        return text
    return folded(text, terminal_columns(), prose=prose)
