"""The program hlo-repl: reads commands from a terminal, a script or a pipe, and prints results.

A terminal has completion, history and a prompt with the current state; otherwise commands are read
line by line, and the first error ends the program with exit 1.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from hloc import __version__
from hloc.errors import HloError, printable
from hloc.learn.export import write_document
from hloc.limits import process_limits, read_limits
from hloc.near_names import did_you_mean
from hloc.report.exits import Exit, ending
from hloc.report.interrupts import forget_interrupts
from repl.commands.files import load_pasted
from repl.passes import Applied
from repl.program import Program, record
from repl.render.themes import is_terminal, make_console
from repl.results import Message
from repl.running import RunResult
from repl.scripts import autosave_path, command_lines, read_script, recovered_path
from repl.session import Session
from repl.verifying import Verified

if TYPE_CHECKING:
    from repl.prompt.terminal import Terminal


def run_program(words: Sequence[str]) -> int:
    """Run hlo-repl with the arguments `words` and return the exit code."""
    arguments = _arguments(words)

    def run() -> int:
        try:
            changes = read_limits(arguments.limit)
        except ValueError as fault:
            sys.stderr.write(f"hlo-repl: error: --limit: {fault}\n")
            return Exit.USAGE
        with process_limits(changes):
            return _run_session(arguments)

    return ending("hlo-repl", run)


def _run_session(arguments: Namespace) -> int:
    session = Session()
    app = App(
        session,
        make_console(arguments.color),
        keep_going=arguments.keep_going,
        color=arguments.color,
    )
    try:
        return app.run(arguments)
    finally:
        session.close()


def _arguments(words: Sequence[str]) -> Namespace:
    """Return the arguments of the command line; a wrong one ends the program with a suggestion."""
    parser = ArgumentParser(
        prog="hlo-repl",
        description="Look into HLO modules and passes, step by step.",
        epilog="Commands are listed by `help`. Without a terminal they are read from stdin.",
        allow_abbrev=False,
    )
    parser.add_argument("file", nargs="?", help="module to load")
    parser.add_argument("-x", "--script", metavar="FILE.hlor", help="run the commands in a file")
    parser.add_argument(
        "--export", metavar="PAGE", help="with -x: write commands and output as .md, .html, .ipynb"
    )
    parser.add_argument(
        "--recover", action="store_true", help="repeat the commands of the last session"
    )
    parser.add_argument(
        "--jax",
        nargs=REMAINDER,
        metavar="SCRIPT.py",
        help="run a script with its arguments, and stop at each of JAX's compilations",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="echo commands of a script")
    parser.add_argument("--keep-going", action="store_true", help="go on after a fault")
    parser.add_argument(
        "--limit",
        default="",
        metavar="NAME=N[,NAME=N]",
        help="change limits, as of hloc: input-bytes=4G,compile-seconds=60",
    )
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours; auto: on a terminal that has them, without NO_COLOR",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"hlo-repl {__version__}",
        help="show the version and exit",
    )
    arguments, unknown = parser.parse_known_args(list(words))
    if unknown:
        hint = did_you_mean(unknown[0], re.findall(r"--[a-z]+[a-z-]*", parser.format_help()))
        parser.error(f"unknown argument {printable(unknown[0])}{hint}")
    return arguments


class App(Program):
    """One run of hlo-repl: commands come from a file, a pipe or a terminal.

    Attributes:
        keep_going: an error does not end a script.
        terminal: where commands are typed, None for a script.
    """

    def __init__(
        self, session: Session, console: Console, *, keep_going: bool = False, color: str = "auto"
    ) -> None:
        super().__init__(session, console, color=color)
        self.keep_going = keep_going
        if is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb":
            session.progress.stream = sys.stderr
        self.terminal: Terminal | None = None

    def run(self, arguments: Namespace) -> int:
        """Load the file, then read commands from the script, the terminal or stdin."""
        if arguments.file:
            self.run_line(f"load {arguments.file}")
        elif arguments.recover:
            try:
                self.run_line(f"open-session {recovered_path()}")
            except HloError as fault:
                self._fault(fault)
        if self.faults:
            return self._code()
        if arguments.jax is not None:
            return self._run_jax(arguments)
        if arguments.export:
            return self._export(arguments.script, arguments.export)
        return self._read_commands(arguments)

    def _export(self, script: str | None, path: str) -> int:
        """Run a script and write commands, output and prose to a file."""
        try:
            if script is None:
                raise HloError("export what?", notes=("use: hlo-repl -x FILE.hlor --export PAGE",))
            cells, faults = record(read_script(script))
            write_document(cells, path)
            self.faults += faults
        except HloError as fault:
            self._fault(fault)
        return self._code()

    def _read_commands(self, arguments: Namespace) -> int:
        if arguments.script:
            return self._run_script(arguments.script, arguments.verbose)
        if is_terminal(sys.stdin) and is_terminal(sys.stdout):
            return self.run_terminal()
        return Exit.OK if sys.stdin is None else self.run_lines(sys.stdin, arguments.verbose)

    def _run_jax(self, arguments: Namespace) -> int:
        """Run a script that uses JAX, with commands at each of its compilations."""
        from repl.jax_script import HELP, JaxStops, run_script

        read: Callable[[], str | None] = self._read_line
        try:
            if not arguments.jax:
                usage = "use: hlo-repl --jax SCRIPT.py [ARGUMENTS]"
                raise HloError("which script?", notes=(usage,))
            if arguments.script or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
                text = read_script(arguments.script) if arguments.script else sys.stdin
                lines = command_lines(text or ())
                read = partial(self._next_line, lines, arguments.verbose)
            else:
                self.show(Message(HELP, "dim"))
            return run_script(JaxStops(self, read), arguments.jax[0], arguments.jax[1:])
        except HloError as fault:
            self._fault(fault)
            return Exit.FAULT

    def _open_terminal(self) -> Terminal:
        from repl.prompt.terminal import Terminal

        forget_interrupts()
        self.terminal = self.terminal or Terminal(self.session, plain=self.console.no_color)
        return self.terminal

    def _read_line(self) -> str | None:
        """Return what was typed; None at the end of input."""
        terminal = self._open_terminal()
        while True:
            try:
                return terminal.read()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    def _next_line(self, lines: Iterator[str], verbose: bool) -> str | None:
        line = next(lines, None)
        if line is not None and verbose and line.strip():
            self._print(Text(f"{self.where()}> {printable(line.strip())}"))
        return line

    @property
    def stops_at_faults(self) -> bool:
        return self.terminal is None and not self.keep_going

    def _run_script(self, path: str, verbose: bool) -> int:
        try:
            text = read_script(path)
        except HloError as fault:
            self._fault(fault)
            return Exit.FAULT
        return self.run_lines(text, verbose)

    def run_lines(self, lines: Iterable[str], verbose: bool = False) -> int:
        """Run one command per line; stop at the first error, unless `keep_going` is set."""
        commands = command_lines(lines)
        while (line := self._next_line(commands, verbose)) is not None and self.run_line(line):
            if self.faults and not self.keep_going:
                break
        return self._code()

    def _code(self) -> int:
        if self.interrupted:
            return Exit.INTERRUPTED
        return Exit.FAULT if self.faults else Exit.OK

    # ---- printing

    def show(self, result: object) -> None:
        self._note_verdict(result)
        super().show(result)

    def _note_verdict(self, result: object) -> None:
        """Record for the badge whether a state agrees with an earlier one.

        One run that agrees proves less than `verify`; one that differs is enough.
        """
        if self.terminal is None:
            return
        badges = self.terminal.status.verified
        verified = result.verified if isinstance(result, Applied) else result
        if isinstance(verified, Verified):
            badges[verified.after] = verified.ok
        elif isinstance(result, RunResult) and result.comparison and not result.comparison.ok:
            badges[result.state] = False

    def _show_lines(self, lines: Sequence[Text], rows: bool) -> None:
        if self._wants_pager(lines):
            self._page(lines)
        else:
            super()._show_lines(lines, rows)

    def _wants_pager(self, lines: Sequence[Text]) -> bool:
        settings = self.session.settings
        if self.terminal is None or not settings.is_on("pager") or settings.is_on("a11y"):
            return False
        if os.environ.get("TERM") == "dumb" or not self.console.is_terminal:
            return False
        width = max(self.console.width, 1)
        rows = sum(len(text.plain) // width + text.plain.count("\n") + 1 for text in lines)
        return rows >= self.console.height and _pager() is not None

    def _page(self, lines: Sequence[Text]) -> None:
        """Show long output in a pager that leaves it on the screen."""
        with self.console.capture() as captured:
            for text in lines:
                self.console.print(text)
        pager = _pager()
        assert pager is not None
        environment = {"LESS": "-RFX", "LESSCHARSET": "utf-8", **os.environ}
        data = captured.get().encode("utf-8", "surrogateescape")
        try:
            subprocess.run(pager, input=data, env=environment, check=False)
        except OSError:
            for text in lines:
                self._print(text)

    # ---- terminal

    def run_terminal(self) -> int:
        """Read commands with completion and history until `quit` or the end of input."""
        self._open_terminal()
        self.session.autosave_path = str(autosave_path())
        if not self.session.is_loaded:
            self.show(Message("type: load FILE, or help"))
        else:
            self.show(Message("type help for the commands, quit to leave", "dim"))
        while (text := self._read_line()) is not None and self.run_pasted(text):
            pass
        return Exit.OK

    def run_pasted(self, text: str) -> bool:
        """Run what was typed or pasted: a command, several lines of them, or a whole module."""
        from repl.prompt.terminal import is_module

        if is_module(text):
            return self._carry_out(load_pasted(self.session, text))
        return all(self.run_line(line) for line in command_lines(text))


def _pager() -> list[str] | None:
    """Return the command of the pager, None if there is none."""
    chosen = os.environ.get("PAGER", "less")
    try:
        words = shlex.split(chosen)
    except ValueError:
        return None
    return words if words and shutil.which(words[0]) else None
