"""A session and its output: executes commands and reports their errors."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from hloc.errors import HloError, InternalError, reason_of
from hloc.learn.document import REPL, Cell, Commands, prose_cells
from hloc.learn.export import write_document
from hloc.output_file import write_form
from hloc.report.exits import REPORT, OutputFault
from hloc.report.folding import folded
from repl.commands import execute
from repl.commands.row import Results
from repl.kernels.view import KernelView
from repl.passes import Applied
from repl.render import render, render_error
from repl.render.fold import folded_text
from repl.render.themes import in_words, make_console
from repl.results import Edited, Export, Message, ModuleText, Quit, Report
from repl.scripts import command_lines
from repl.session import Session
from repl.state_diff import ShownDiff
from repl.stepping import Stepped
from repl.verifying import Verified

WIDTH = 100
_WITH_ROWS = (Applied, Edited, ShownDiff, Stepped, Verified)
"""Results that contain rows of a diff."""

_WHOLE = (KernelView, ModuleText)
"""Results that are text to copy, whose lines are not wrapped."""


class Program:
    """A session and the console that shows its results.

    Attributes:
        faults: commands that failed so far.
        interrupted: Ctrl-C ended a command.
    """

    def __init__(self, session: Session, console: Console, *, color: str = "auto") -> None:
        self.session = session
        self.console = console
        self.faults = 0
        self.interrupted = False
        self._color = color
        self._theme = session.settings.text("theme")

    def run_line(self, line: str) -> bool:
        """Run one command and print its results; False if it was `quit`."""
        return self._carry_out(execute(self.session, line))

    def _carry_out(self, results: Results) -> bool:
        """Show the results of one command as they come; return False if the program ends.

        Faults are shown, so that a session survives them; only an output that is gone ends it.
        """
        self.session.progress.hidden = self.session.settings.is_on("a11y")
        try:
            for result in results:
                if isinstance(result, Quit):
                    return False
                if isinstance(result, Export):
                    result = _carry_out_export(result)
                self.show(result)
        except HloError as fault:
            self._fault(fault)
        except KeyboardInterrupt:
            self._stopped()
        except (BrokenPipeError, OutputFault):
            raise
        except Exception as fault:
            self._internal(fault)
        return True

    @property
    def stops_at_faults(self) -> bool:
        """True if a command that fails ends everything, as in a script."""
        return False

    def where(self) -> str:
        """Return module and state, `jit_f s3`."""
        if not self.session.is_loaded:
            return "hloc"
        state = self.session.current
        return f"{state.module.name} {state.label}{'' if state.is_valid else '✗'}"

    # ---- printing

    def show(self, result: object) -> None:
        self._adopt_theme()
        if isinstance(result, ShownDiff) and self.session.settings.is_on("a11y"):
            result = replace(result, mode=result.mode.replace("side", "unified"))
        width = self.console.width
        fits = not self.console.is_terminal or isinstance(result, _WHOLE)
        if isinstance(result, Report) and not fits:
            result = Report(folded(result.text, width, prose=result.prose))
        lines = list(render(result, width))
        if not fits:
            lines = [part for line in lines for part in folded_text(line, width)]
        with self.session.progress.aside():
            self._show_lines(lines, isinstance(result, _WITH_ROWS))

    def _show_lines(self, lines: Sequence[Text], rows: bool) -> None:
        for text in lines:
            self._print(text, rows)

    def _adopt_theme(self) -> None:
        theme = self.session.settings.text("theme")
        if theme != self._theme:
            self._theme = theme
            self.console = make_console(self._color, theme)

    def _fault(self, fault: HloError) -> None:
        self.faults += 1
        with self.session.progress.aside():
            for text in render_error(fault):
                self._print(text)

    def _print(self, text: Text, rows: bool = False) -> None:
        shown = in_words(text, rows=rows) if self.session.settings.is_on("a11y") else text
        try:
            self.console.print(shown)
        except BrokenPipeError:
            raise
        except OSError as fault:
            raise OutputFault(reason_of(fault)) from None

    def _stopped(self) -> None:
        """Handle Ctrl-C: it ends the command or the script, not an interactive session."""
        self.show(Message("interrupted; the state is unchanged"))
        self.faults += 1
        self.interrupted = True

    def _internal(self, fault: Exception) -> None:
        """Report an internal error; the state is unchanged, since passes run on clones."""
        self.faults += 1
        kind = "" if isinstance(fault, InternalError) else f"{type(fault).__name__}: "
        self.show(Message(f"internal error: {kind}{fault}"))
        self.show(Message(f"the state is unchanged; {REPORT}"))
        if os.environ.get("HLOC_DEBUG") == "1":
            self.console.print_exception()


# ---------------------------------------------------------------- kept as text


class Recorder:
    """A session whose output is text; used by exports and by notebooks."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        console = Console(
            file=self._stream, width=WIDTH, highlight=False, soft_wrap=True, no_color=True,
            force_terminal=False, force_jupyter=False,  # plain text in a notebook too
        )  # fmt: skip
        self._session = Session()
        self._program = Program(self._session, console)

    @property
    def faults(self) -> int:
        """How many commands have failed so far."""
        return self._program.faults

    def run(self, line: str) -> str:
        """Run one command and return its output."""
        self._program.run_line(line)
        text = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return "\n".join(part.rstrip() for part in text.rstrip("\n").splitlines())

    def close(self) -> None:
        """End the processes of the session."""
        self._session.close()

    def show(self, line: str) -> None:
        """Run one command and print its output."""
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
            cells += prose_cells(prose)
            prose = []
            steps.append((text, recorder.run(text)))
    return [*cells, *prose_cells(prose)]


def _commands(steps: Sequence[tuple[str, str]]) -> list[Cell]:
    return [Commands(REPL, tuple(steps))] if steps else []


def _carry_out_export(export: Export) -> Message:
    """Run the commands again and write them with their output; return the message."""
    cells, faults = record(export.script)
    if export.path.endswith(".txt"):
        steps = [step for cell in cells if isinstance(cell, Commands) for step in cell.steps]
        write_form(export.path, "\n".join(f"> {command}\n{output}" for command, output in steps))
    else:
        write_document(cells, export.path)
    failed = f", {faults} of which failed" if faults else ""
    return Message(f"{export.commands}{failed} and what they print written to {export.path}")
