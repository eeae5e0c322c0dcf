"""The program hlo-repl: reads commands from a terminal, a script or a pipe, and prints results.

On a terminal there are completion, history and a prompt that says where we are; everywhere else
commands are read line by line and the first fault ends the program with exit 1.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from hloc import __version__
from hloc.cli import ending
from hloc.cli.exits import Exit, OutputFault
from hloc.cli.guard import REPORT
from hloc.errors import HloError, InternalError, printable, reason_of
from hloc.runtime.interrupt import interruptible
from repl.commands import COMMANDS, Message, Quit, Results, execute, load_pasted
from repl.render import render, render_error
from repl.session import Session

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


def run_program(words: Sequence[str]) -> int:
    """Run hlo-repl with the arguments `words` and return the exit code."""
    arguments = _arguments(words)

    def run() -> int:
        program = Program(Session(), _console(arguments.color), keep_going=arguments.keep_going)
        return program.run(arguments)

    return ending("hlo-repl", run)


def _arguments(words: Sequence[str]) -> Namespace:
    parser = ArgumentParser(
        prog="hlo-repl",
        description="Look into HLO modules and passes, step by step.",
        epilog="Commands are listed by `help`. Without a terminal they are read from stdin.",
        allow_abbrev=False,
    )
    parser.add_argument("file", nargs="?", help="module to load")
    parser.add_argument("-x", "--script", metavar="FILE.hlor", help="run the commands in a file")
    parser.add_argument("-v", "--verbose", action="store_true", help="echo commands of a script")
    parser.add_argument("--keep-going", action="store_true", help="go on after a fault")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    parser.add_argument("--version", action="version", version=f"hlo-repl {__version__}")
    return parser.parse_args(list(words))


def _console(color: str) -> Console:
    if color == "auto":
        return Console(highlight=False, soft_wrap=True)
    always = color == "always"
    return Console(highlight=False, soft_wrap=True, no_color=not always, force_terminal=always)


class Program:
    """One run of hlo-repl: a session and where its results are printed."""

    def __init__(self, session: Session, console: Console, *, keep_going: bool = False) -> None:
        self.session = session
        self.console = console
        self.keep_going = keep_going
        self.faults = 0
        self.interrupted = False

    def run(self, arguments: Namespace) -> int:
        """Load the file, then read commands from the script, the terminal or stdin."""
        if arguments.file:
            self._carry_out(COMMANDS["load"].function(self.session, arguments.file))
        if self.faults:
            return self._code()
        if arguments.script:
            return self._run_script(arguments.script, arguments.verbose)
        if sys.stdin is None:
            return Exit.OK
        if sys.stdin.isatty() and sys.stdout.isatty():
            return self.run_terminal()
        return self.run_lines(sys.stdin, arguments.verbose)

    def _run_script(self, path: str, verbose: bool) -> int:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as fault:
            self._fault(HloError(f"cannot read {path}: {reason_of(fault)}"))
            return Exit.FAULT
        except UnicodeDecodeError:
            self._fault(HloError(f"cannot read {path}: it is no text, expected commands"))
            return Exit.FAULT
        return self.run_lines(text.splitlines(), verbose)

    def run_lines(self, lines: Iterable[str], verbose: bool = False) -> int:
        """Run one command per line; stop at the first fault, unless asked to go on."""
        for line in lines:
            if verbose and line.strip():
                self._print(Text(f"{self.where()}> {printable(line.strip())}"))
            if not self.run_line(line):
                break
            if self.faults and not self.keep_going:
                break
        return self._code()

    def _code(self) -> int:
        if self.interrupted:
            return Exit.INTERRUPTED
        return Exit.FAULT if self.faults else Exit.OK

    def run_line(self, line: str) -> bool:
        """Run one command and print its results; False if it was `quit`."""
        return self._carry_out(execute(self.session, line))

    def _carry_out(self, results: Results) -> bool:
        try:
            with interruptible():
                for result in results:
                    if isinstance(result, Quit):
                        return False
                    self._show(result)
        except HloError as fault:
            self._fault(fault)
        except KeyboardInterrupt:
            self._stopped()
        except (BrokenPipeError, OutputFault):
            raise
        except Exception as fault:
            self._internal(fault)
        return True

    def where(self) -> str:
        """Return the prompt: module and state, `jit_f s3`."""
        if not self.session.is_loaded:
            return "hloc"
        state = self.session.current
        return f"{state.module.name} {state.label}"

    # ---- printing

    def _show(self, result: object) -> None:
        for text in render(result):
            self._print(text)

    def _fault(self, fault: HloError) -> None:
        self.faults += 1
        for text in render_error(fault):
            self._print(text)

    def _print(self, text: Text) -> None:
        try:
            self.console.print(text)
        except BrokenPipeError:
            raise
        except OSError as fault:
            raise OutputFault(reason_of(fault)) from None

    def _stopped(self) -> None:
        """Ctrl-C ends the command, not the session; a script ends."""
        self._show(Message("interrupted; the state is as before"))
        self.faults += 1
        self.interrupted = True

    def _internal(self, fault: Exception) -> None:
        """A fault of hloc: the state is as before, since passes run on clones."""
        self.faults += 1
        kind = "" if isinstance(fault, InternalError) else f"{type(fault).__name__}: "
        self._show(Message(f"internal error: {kind}{fault}"))
        self._show(Message(f"the state is as before; {REPORT}"))
        if os.environ.get("HLOC_DEBUG") == "1":
            self.console.print_exception()

    # ---- terminal

    def run_terminal(self) -> int:
        """Read commands with completion and history until `quit` or the end of input."""
        prompt = self._prompt()
        if not self.session.is_loaded:
            self._show(Message("type: load FILE, or help"))
        while True:
            try:
                text = prompt.prompt(f"{self.where()}› ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return Exit.OK
            if not self.run_pasted(text):
                return Exit.OK

    def run_pasted(self, text: str) -> bool:
        """Run what was typed or pasted: a command, several lines of them, or a whole module."""
        if text.lstrip().startswith("HloModule") and "\n" in text.strip():
            return self._carry_out(load_pasted(self.session, text))
        return all(self.run_line(line) for line in text.splitlines())

    def _prompt(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
        from prompt_toolkit.completion import ThreadedCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory

        from repl.completion import HloCompleter

        path = history_file()
        return PromptSession(
            history=FileHistory(str(path)) if path else InMemoryHistory(),
            auto_suggest=AutoSuggestFromHistory(),
            completer=ThreadedCompleter(HloCompleter(self.session)),
            complete_while_typing=False,
            bottom_toolbar=self.toolbar,
            enable_history_search=True,
        )

    def toolbar(self) -> str:
        """Return the line at the bottom of the terminal."""
        if not self.session.is_loaded:
            return "no module"
        state = self.session.current
        change = state.instructions - self.session.states[0].instructions
        return f"{state.instructions:,} instructions ({change:+,} since s0) · Tab completes · help"


def history_file() -> Path | None:
    """Return where commands are remembered: ./.hloc_history if it is there, else the state folder.

    None if the folder cannot be made.
    """
    here = Path(".hloc_history")
    if here.is_file():
        return here
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    folder = Path(base) / "hloc"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    return folder / "history"
