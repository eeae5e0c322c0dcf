"""A child process of hloc that answers messages (`hloc/framing.py`), one after the other.

LLVM runs in a child where its crashes must not end this process, or its memory must be freed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from hloc.framing import Block, read_message, write_message
from hloc.python_process import ending_of, python_command, python_environment

Answer: TypeAlias = tuple[Any, Sequence[Block]]


class Child:
    """The parent's side: starts the process when it is asked, and again after it has died."""

    def __init__(
        self, module: str, most_answers: int = 0, *, arguments: str = "", **environment: str
    ) -> None:
        """Run the function `serve` of `module`, which calls `answer_messages`.

        Args:
            module: by its name.
            most_answers: after so many, if any, another process takes the place of the first.
            arguments: of `serve`, as Python text.
            environment: what the process finds in its environment besides that of this one.
        """
        self._call = f"from {module} import serve; serve({arguments})"
        self._environment = environment
        self._most_answers = most_answers
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._is_ended = False
        self._answers = 0

    def ask(self, value: object, blocks: Sequence[Block] = ()) -> tuple[Any, list[bytearray]]:
        """Send a message and return the answer.

        Raises:
            EOFError: the process has died, as the message says, or was ended.
            OSError, ValueError: it cannot be started, or its answer is none.
        """
        if self._owner != os.getpid():  # forks share no child, and none of the parent's threads
            self._process, self._lock, self._owner = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._most_answers and self._answers == self._most_answers:
                self._stop()
            process = self.start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                write_message(process.stdin, value, blocks)
                answer = read_message(process.stdout)
            except (EOFError, BrokenPipeError):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                self._stop()
                raise EOFError(ending_of(process.returncode)) from None
            except BaseException:
                self._stop()  # its late answer must not be taken for that of a later message
                raise
            self._answers += 1
            return answer

    def start(self) -> subprocess.Popen[bytes]:
        """Return the process, started unless it runs; raises as `ask` does."""
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                python_command("-c", self._call),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=python_environment(**self._environment),
            )
        if self._is_ended:
            self._stop()
            raise EOFError("the process was ended")
        return self._process

    def _stop(self) -> None:
        process, self._process, self._answers = self._process, None, 0
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        process.wait()

    def end(self) -> None:
        """End the process for good, while another thread waits for its answer as well."""
        self._is_ended = True
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()
            with self._lock:
                self._stop()


def answer_messages(answer: Callable[[Any, list[bytearray]], Answer]) -> None:
    """Answer messages until the parent is gone; the child's side."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep LLVM's output out of the answers
    with suppress(EOFError, BrokenPipeError):
        while True:
            write_message(answers, *answer(*read_message(sys.stdin.buffer)))
    os._exit(0)  # without another attempt to flush stdout
