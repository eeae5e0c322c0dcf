"""The server's side of a child process: sends questions, and ends a process that hangs or dies."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Protocol

from hloc.child_process import PipedProcess
from hloc.errors import HloError
from hloc.framing import read_message, write_message
from hloc.lazy_dataclass import dataclass
from hloc.python_process import python_command, python_environment
from hloc.web.limits import START_SECONDS


class Responder(Protocol):
    """Something that answers questions."""

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer to `question`; HloError if there is none within `seconds`."""
        ...

    def close(self) -> None:
        """Stop answering."""
        ...


@dataclass(slots=True, eq=False, weakref_slot=True)
class Child:
    """A process that answers one question at a time, started by the first one.

    A process that does not answer in time, or dies, is ended with its children, and the next
    question starts a new one: no module can take the server down.
    """

    command: Sequence[str] = field(default_factory=lambda: python_command("-m", "hloc.web.worker"))
    _process: PipedProcess | None = None
    _finalizer: weakref.finalize[..., Child] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer to `question`.

        Raises:
            HloError: there is no answer within `seconds`, or the process died.
        """
        with self._lock:
            process = self._started()
            with process.killed_after(seconds) as is_late:
                try:
                    write_message(process.questions, question)
                    return _answer_of(process)
                except _NO_ANSWER:
                    why = f"the process that worked on it {process.ending()}"
            self._end()
            if is_late.is_set():
                why = f"stopped after {seconds:g} s"
            raise HloError(why, notes=(_MODULE_AT_FAULT,))

    def close(self) -> None:
        """End the process; a question in progress gets no answer."""
        finalizer = self._finalizer
        if finalizer is not None:
            finalizer()

    def _started(self) -> PipedProcess:
        if self._process is not None and self._process.is_running():
            return self._process
        self._end()
        folder = tempfile.TemporaryDirectory(prefix="hloc-web-")
        environment = python_environment(OPENBLAS_NUM_THREADS="1")
        self._process = PipedProcess(
            self.command, environment, folder=folder.name, leads_group=True
        )
        self._finalizer = weakref.finalize(self, _end, self._process, folder)
        try:
            with self._process.killed_after(START_SECONDS):
                _answer_of(self._process)
        except _NO_ANSWER:
            self._end()
            raise HloError("the process that works on modules did not start") from None
        return self._process

    def _end(self) -> None:
        self.close()
        self._process = self._finalizer = None


_MODULE_AT_FAULT = "the server goes on; try a smaller module, or another state"
_NO_ANSWER = (EOFError, OSError, ValueError, MemoryError, OverflowError)


def _answer_of(process: PipedProcess) -> dict[str, Any]:
    answer: dict[str, Any] = read_message(process.answers)[0]
    return answer


def _end(process: PipedProcess, folder: tempfile.TemporaryDirectory[str]) -> None:
    """End a process with its children and remove its folder."""
    process.end()
    folder.cleanup()
