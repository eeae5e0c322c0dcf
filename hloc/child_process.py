"""Child processes of hloc that answer messages (`hloc/framing.py`) over two pipes, one at a time.

LLVM, compiled code and what users type run in a child where a crash must not end this process, or
where memory must be freed. `PipedProcess` is one such process; `Child` keeps one running.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, TypeAlias

from hloc.framing import Block, read_message, write_message
from hloc.python_process import (
    end_with_children,
    ending_of,
    python_command,
    python_environment,
)

Answer: TypeAlias = tuple[Any, Sequence[Block]]

_POLL_SECONDS = 0.1
_END_SECONDS = 5.0
"""How long a process that has closed its pipes may take to end, with a core dump."""


class PipedProcess:
    """A process with a pipe to its standard input and one from its standard output.

    Attributes:
        questions: what it reads.
        answers: what it writes.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        *,
        folder: str | None = None,
        leads_group: bool = False,
    ) -> None:
        """Start it.

        Args:
            command: `python_command(...)`.
            environment: `python_environment(...)`.
            folder: its working directory, that of this process by default.
            leads_group: it and its children form a process group: Ctrl-C in the terminal does not
                reach them, and they end together.

        Raises:
            OSError: it cannot be started.
        """
        self._leads_group = leads_group
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            start_new_session=leads_group,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.questions: IO[bytes] = self._process.stdin
        self.answers: IO[bytes] = self._process.stdout

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def wait_for_answer(self, seconds: float) -> None:
        """Return once `answers` has bytes or its end; raises TimeoutError after `seconds`."""
        end = time.monotonic() + seconds
        while not select.select([self.answers], [], [], _POLL_SECONDS)[0]:
            if time.monotonic() > end:
                raise TimeoutError

    @contextmanager
    def killed_after(self, seconds: float) -> Iterator[threading.Event]:
        """Kill it, with the group that it leads, unless the context is left within `seconds`.

        Whatever this side does with its pipes then fails: a question that it does not take, an
        answer of which the end never comes. Yields what is set once the time is over.
        """
        is_late = threading.Event()

        def kill() -> None:
            is_late.set()
            self._kill_group()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield is_late
        finally:
            timer.cancel()

    def ending(self) -> str:
        """Return how it ended, once it answers no more: `crashed: aborted (SIGABRT)`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self.kill()
        return ending_of(self._process.wait())

    def kill(self) -> None:
        """Kill it, and leave the pipes open for a thread that reads from them."""
        self._process.kill()

    def end(self) -> None:
        """Kill it, with the group that it leads, and close the pipes."""
        self._kill_group()
        for pipe in (self.questions, self.answers):
            with suppress(OSError):
                pipe.close()

    def _kill_group(self) -> None:
        if self._leads_group:
            end_with_children(self._process)
        else:
            self._process.kill()
            self._process.wait()


class Child:
    """The parent's side: starts the process on demand, and again after it has died."""

    def __init__(
        self, module: str, most_answers: int = 0, *, arguments: str = "", **environment: str
    ) -> None:
        """Run the function `serve` of `module`, which calls `answer_messages`.

        Args:
            module: its name.
            most_answers: number of answers after which the process is replaced; 0 for no limit.
            arguments: of `serve`, as Python text.
            environment: variables of its environment besides those of this process.
        """
        self._call = f"from {module} import serve; serve({arguments})"
        self._environment = environment
        self._most_answers = most_answers
        self._process: PipedProcess | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._is_ended = False
        self._answers = 0

    def ask(self, value: object, blocks: Sequence[Block] = ()) -> tuple[Any, list[bytearray]]:
        """Send a message and return the answer.

        Raises:
            EOFError: the process has died or was ended; the message says how.
            OSError, ValueError: it cannot be started, or its answer is not a message.
        """
        if self._owner != os.getpid():  # a fork must not share the child or its lock
            self._process, self._lock, self._owner = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._most_answers and self._answers == self._most_answers:
                self._stop()
            process = self.start()
            try:
                write_message(process.questions, value, blocks)
                answer = read_message(process.answers)
            except (EOFError, BrokenPipeError):
                ending = process.ending()
                self._stop()
                raise EOFError(ending) from None
            except BaseException:
                self._stop()  # its late answer must not be taken for the answer to a later message
                raise
            self._answers += 1
            return answer

    def start(self) -> PipedProcess:
        """Return the process, started unless it runs; raises as `ask` does."""
        if self._process is None or not self._process.is_running():
            self._stop()
            environment = python_environment(**self._environment)
            self._process = PipedProcess(python_command("-c", self._call), environment)
        if self._is_ended:
            self._stop()
            raise EOFError("the process was ended")
        return self._process

    def _stop(self) -> None:
        process, self._process, self._answers = self._process, None, 0
        if process is not None and self._owner == os.getpid():
            process.end()

    def end(self) -> None:
        """End the process for good, even while another thread waits for its answer."""
        self._is_ended = True
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()
            with self._lock:
                self._stop()


def answer_messages(answer: Callable[[Any, list[bytearray]], Answer]) -> None:
    """Answer messages until the parent is gone; the child's side."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    answers = answer_stream()
    with suppress(EOFError, BrokenPipeError):
        while True:
            write_message(answers, *answer(*read_message(sys.stdin.buffer)))
    os._exit(0)  # without another attempt to flush stdout


def answer_stream() -> IO[bytes]:
    """Return the stream of answers; what libraries print goes to standard error from now on."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
