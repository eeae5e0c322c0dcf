"""`hlo-repl --jax script.py`: stops at each of JAX's compilations, and compiles the edited module.

The script runs in the main thread. XLA calls the hook on another thread while
the script waits; commands are read there.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hloc.errors import HloError, printable
from hloc.ir.clone import clone_module
from hloc.ir.events import Event
from hloc.ir.module import Module
from hloc.jax.hook import CompilationHook
from hloc.report.exits import Exit
from repl.results import Message, Moved

if TYPE_CHECKING:
    from repl.program import Program

_ABORTED = "aborted in hlo-repl"
_EVERY = ""
_NONE = None

HELP = "continue | continue all | continue NAME (up to the next module with NAME in it) | abort"


class JaxStops:
    """Stops at compilations and lets commands change the module.

    Attributes:
        program: runs the commands.
        count: compilations so far.
    """

    def __init__(self, program: Program, read: Callable[[], str | None]) -> None:
        """Prepare.

        Args:
            program: runs the commands and shows their results.
            read: returns the next command, None after the last.
        """
        self.program = program
        self.count = 0
        self._read = read
        self._wanted: str | None = _EVERY  # stop at names that contain this; None: at none
        self._aborted = False

    def stop(self, module: Module) -> tuple[Module, Sequence[Event]] | None:
        """Let commands change a copy of `module`; return None if it is unchanged.

        Raises:
            HloError: the user aborts the compilation, or a command of a script has failed.
        """
        self.count += 1
        if self._aborted:
            raise HloError(_ABORTED)
        if self._wanted is _NONE or self._wanted not in module.name:
            return None
        session = self.program.session
        state = session.load_module(module)
        self.program.show(Message(f"compilation {self.count} of JAX"))
        self.program.show(Moved(state, "load"))
        self._run_commands()
        if session.current is session.origin:
            return None
        events = [event for state in session.lineage() for event in state.events]
        return clone_module(session.current.module), events

    def _run_commands(self) -> None:
        """Run commands until one lets JAX continue."""
        session = self.program.session
        while (line := self._read()) is not None:
            name, _, rest = line.strip().partition(" ")
            if name in ("abort", "quit", "exit", "q"):
                self._abort()
            if name in ("continue", "c") and session.stepping is None:
                if session.current.is_valid:
                    self._wanted = _NONE if rest.strip() == "all" else rest.strip()
                    return
                fault = f"{session.current.label} is not valid, so XLA cannot compile it"
                self.program.show(Message(f"{fault}: undo, or abort"))
                continue
            if not self.program.run_line(line):
                self._abort()
            if self.program.stops_at_faults and self.program.faults:
                self._abort()
        self._wanted = _NONE  # no more commands: run the rest of the script without stops
        if not session.current.is_valid:
            self._abort()

    def _abort(self) -> None:
        self._aborted = True
        raise HloError(_ABORTED)


def run_script(stops: JaxStops, path: str, arguments: Sequence[str]) -> int:
    """Run a Python script that uses JAX, stopping at each compilation; return the exit code.

    Raises:
        HloError: the script cannot be read, or jax is not installed or too old.
    """
    if not os.path.isfile(path):
        raise HloError(f"cannot read {printable(path)}: no such file")
    hook = CompilationHook(stops.stop)
    before = sys.argv, sys.path
    sys.argv, sys.path = [path, *arguments], [os.path.dirname(os.path.abspath(path)), *sys.path]
    try:
        with hook:
            runpy.run_path(path, run_name="__main__")
    except HloError as fault:
        if _ABORTED not in fault.message:
            raise
        stops.program.show(Message(_ABORTED))
        return Exit.FAULT
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Exit.OK if end.code is None else 1
    except Exception as fault:
        stops.program.show(Message("".join(_of_script(fault, path)).rstrip()))
        return Exit.FAULT
    finally:
        sys.argv, sys.path = before
    stops.program.show(Message(f"the script has ended after {stops.count} compilations"))
    return Exit.FAULT if stops.program.faults else Exit.OK


def _of_script(fault: Exception, path: str) -> Iterator[str]:
    """Yield the lines of a traceback, from the first line of the script on."""
    frames = traceback.extract_tb(fault.__traceback__)
    first = next((at for at, frame in enumerate(frames) if frame.filename == path), 0)
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_list(frames[first:])
    yield from traceback.format_exception_only(fault)
