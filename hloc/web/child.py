"""The server's side of a child process: asks it, and ends it when it hangs, dies or grows."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any, Protocol

from hloc.errors import HloError
from hloc.framing import read_message, write_message
from hloc.lazy_dataclass import dataclass
from hloc.python_process import (
    end_with_children,
    ending_of,
    python_command,
    python_environment,
)
from hloc.web.limits import START_SECONDS


class Asked(Protocol):
    """What answers questions."""

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer to `question`; HloError if there is none within `seconds`."""
        ...

    def close(self) -> None:
        """Answer no more."""
        ...


@dataclass(slots=True, eq=False, weakref_slot=True)
class Child:
    """A process that answers one question at a time; started when it is first asked.

    One that does not answer in time, or dies, is ended with all that it has started, and the next
    question starts another: no module can take the server down.
    """

    command: Sequence[str] = field(default_factory=lambda: python_command("-m", "hloc.web.worker"))
    _process: subprocess.Popen[bytes] | None = None
    _finalizer: weakref.finalize[..., Child] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer to `question`.

        Raises:
            HloError: it was not answered within `seconds`, or the process died over it.
        """
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            with _killed_after(seconds, process) as is_late:
                try:
                    write_message(process.stdin, question)
                    answer: dict[str, Any] = read_message(process.stdout)[0]
                    return answer
                except _NO_ANSWER:
                    code = self._ended_with()
            why = f"the process that worked on it {ending_of(code)}"
            if is_late.is_set():
                why = f"stopped after {seconds:g} s"
            raise HloError(why, notes=(_MODULE_AT_FAULT,))

    def close(self) -> None:
        """End the process; a question that it works on gets no answer."""
        finalizer = self._finalizer
        if finalizer is not None:
            finalizer()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        folder = tempfile.TemporaryDirectory(prefix="hloc-web-")
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder.name,
            env=python_environment(OPENBLAS_NUM_THREADS="1"),
            start_new_session=True,  # Ctrl-C is for the server, which ends the child
        )
        self._finalizer = weakref.finalize(self, _end, self._process, folder)
        assert self._process.stdout is not None
        try:
            with _killed_after(START_SECONDS, self._process):
                read_message(self._process.stdout)
        except _NO_ANSWER:
            self._end()
            raise HloError("the process that works on modules did not start") from None
        return self._process

    def _ended_with(self) -> int:
        """End what is left of a process that answers no more; returns its exit code."""
        process = self._process
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        self._end()
        return process.returncode

    def _end(self) -> None:
        self.close()
        self._process = self._finalizer = None


_MODULE_AT_FAULT = "the server goes on; try a smaller module, or another state"
_NO_ANSWER = (EOFError, OSError, ValueError, MemoryError, OverflowError)


@contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """End a process, and all that it has started, unless the context is left within `seconds`.

    Whatever this side does with its pipes then fails: a question that the process does not take,
    an answer of which the end never comes. Yields what is set once the time is over.
    """
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        end_with_children(process)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]) -> None:
    """End a process with its children, close what leads to it, remove its folder."""
    end_with_children(process)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    folder.cleanup()
