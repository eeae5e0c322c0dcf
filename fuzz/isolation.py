"""Work in a child process with limits: a crash, a hang or a blow-up of memory becomes a word.

The child is forked, so it has everything imported; the parent never compiles, so it has no threads
that a fork could lose.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import select
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Send = Callable[[Any], None]
"""Hands a value to the parent, which gets all values sent before the child died."""

SILENCE_SECONDS = 240.0
"""A child that sends nothing and uses no processor time for so long waits for itself."""


@dataclass(frozen=True)
class Limits:
    """What one piece of work may use: seconds of processor time between two values, and bytes."""

    seconds: float = 60.0
    memory_bytes: int = 6 << 30


@dataclass(frozen=True)
class Outcome:
    """What a child sent, and how it ended: "" for well, `signal SIGSEGV`, `too slow`, `waits`."""

    sent: list[Any]
    ending: str


def isolated(work: Callable[[Send], None], limits: Limits) -> Outcome:
    """Run `work` in a child process; what it prints is lost."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work_and_exit(work, limits, writing)
    os.close(writing)
    sent, silent = _received(reading)
    os.close(reading)
    if silent:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return Outcome(sent, "waits" if silent else _ending(status))


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "too slow" if number == signal.SIGPROF else f"signal {signal.Signals(number).name}"
    code = os.WEXITSTATUS(status)
    return f"exit {code}" if code else ""


def _received(reading: int) -> tuple[list[Any], bool]:
    """Return all values until the child closes the pipe, and whether it fell silent."""
    sent: list[Any] = []
    data = b""
    while True:
        if not select.select([reading], [], [], SILENCE_SECONDS)[0]:
            return sent, True
        part = os.read(reading, 1 << 16)
        if not part:
            return sent, False
        data += part
        while len(data) >= 8 and len(data) >= 8 + int.from_bytes(data[:8], "little"):
            end = 8 + int.from_bytes(data[:8], "little")
            sent.append(pickle.loads(data[8:end]))  # made by our own child
            data = data[end:]


def _work_and_exit(work: Callable[[Send], None], limits: Limits, writing: int) -> None:
    """Run in the child; never returns."""
    faulthandler.disable()  # the parent tells how a child ended
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, also inside machine code

    def send(value: Any) -> None:
        data = pickle.dumps(value)
        os.write(writing, len(data).to_bytes(8, "little") + data)
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)

    signal.setitimer(signal.ITIMER_PROF, limits.seconds)
    code = 0
    try:
        work(send)
    except MemoryError:
        code = 12
    except BaseException:
        code = 1
    finally:
        sys.stdout.flush()
        os._exit(code)
