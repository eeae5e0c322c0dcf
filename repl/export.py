"""Running a script of commands and keeping what was said, for exports, lessons and notebooks."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from rich.console import Console

from hloc.learn.document import REPL, Cell, Commands, Prose
from hloc.learn.export import write_document
from repl.app import Program
from repl.scripts import command_lines, read_script
from repl.session import Session

WIDTH = 100
_TIME = re.compile(r"\b\d+(?:\.\d+)? (?:us|ms|s)\b")


class Recorder:
    """A session whose output is text; used by exports and by notebooks."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        console = Console(
            file=self._stream, width=WIDTH, highlight=False, soft_wrap=True, no_color=True
        )
        self._session = Session()
        self._program = Program(self._session, console, keep_going=True)

    @property
    def faults(self) -> int:
        """How many commands have failed so far."""
        return self._program.faults

    def run(self, line: str) -> str:
        """Carry out one command and return what it prints."""
        self._program.run_line(line)
        text = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return "\n".join(part.rstrip() for part in text.rstrip("\n").splitlines())

    def close(self) -> None:
        """End what the session has started."""
        self._session.close()

    def show(self, line: str) -> None:
        """Carry out one command and print what it says."""
        print(self.run(line))


def record(script: str) -> tuple[list[Cell], int]:
    """Run the commands of `script` and return the cells, and how many commands failed.

    Lines that begin with `#` are prose: `# # Title` is a heading, since prose is Markdown.
    """
    recorder = Recorder()
    try:
        return _cells(script, recorder), recorder.faults
    finally:
        recorder.close()


def _cells(script: str, recorder: Recorder) -> list[Cell]:
    cells: list[Cell] = []
    prose: list[str] = []
    steps: list[tuple[str, str]] = []
    for line in [*command_lines(script), "#"]:
        text = line.strip()
        if text.startswith("#"):
            cells += _commands(steps)
            steps = []
            prose.append(text.removeprefix("#").removeprefix(" "))
        elif text:
            cells += _prose(prose)
            prose = []
            steps.append((text, recorder.run(text)))
    return [*cells, *_prose(prose)]


def _commands(steps: Sequence[tuple[str, str]]) -> list[Cell]:
    return [Commands(REPL, tuple(steps))] if steps else []


def _prose(lines: Sequence[str]) -> list[Cell]:
    text = "\n".join(lines).strip("\n")
    return [Prose(text)] if text else []


def without_times(text: str) -> str:
    """Return `text` with `... ms` in place of times, which differ from run to run."""
    return _TIME.sub(lambda found: "... " + found[0].split()[1], text)


def export_script(script_path: str, path: str) -> int:
    """Run the script and write what was said to `path`: .md, .html or .ipynb.

    Returns:
        How many commands failed; the file is written all the same.

    Raises:
        HloError: a file cannot be read or written, or `path` has another ending.
    """
    cells, faults = record(read_script(script_path))
    write_document(cells, path)
    return faults
