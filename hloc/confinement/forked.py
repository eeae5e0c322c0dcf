"""The client of a fork server and of the confined processes that it forks.

A confined process may run a hostile program: its answers are read up to a size and a time limit,
and are untrusted data.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import asdict, field
from typing import Any

from hloc.confinement.limits import MESSAGE_BYTES, Limits
from hloc.confinement.support import check_machine, lack
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.python_process import ending_of, python_command

_LENGTH = struct.Struct("<Q")
_START_SECONDS = 120.0
"""A cold start reads NumPy and LLVM from disk."""

_FORK_SECONDS, _END_SECONDS = 60.0, 5.0
_LOOK_SECONDS = 0.1
SHORT_SECONDS, _LAST = 2.0, 19
"""Processor time after which a question gets the lowest priority."""

_PRINTED_BYTES = 4000
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Stopped(HloError):
    """A confined process was ended, or ended by itself, before it answered."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits on the time for an answer, and on its size.

    Attributes:
        seconds: of wall time.
        cpu_seconds: of processor time.
        answer_bytes: of its JSON text.
    """

    seconds: float
    cpu_seconds: float
    answer_bytes: int


@dataclass(slots=True, eq=False)
class Confined:
    """A confined process, until it is closed. One thread asks at a time."""

    pid: int
    _questions: int
    _answers: int
    _printed: int
    _lease: socket.socket
    _is_closed: bool = False
    _gives_way: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: object, patience: Patience) -> Any:
        """Return the answer, which is untrusted.

        Raises:
            Stopped: there is none; the process has ended.
        """
        end, used = time.monotonic() + patience.seconds, self._cpu_seconds()

        def look() -> None:
            if self._is_closed:
                raise Stopped("the session has ended")
            if time.monotonic() > end:
                raise Stopped(f"out of time: stopped after {patience.seconds:g} s")
            taken = self._cpu_seconds() - used
            if taken > SHORT_SECONDS and not self._gives_way:
                self._give_way()
            if taken > patience.cpu_seconds:
                seconds = f"{patience.cpu_seconds:g} s of processor time"
                raise Stopped(f"out of time: stopped after {seconds}")

        try:
            text = json.dumps([question, []]).encode()
            self._write(_LENGTH.pack(len(text)) + text, look)
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size, look))
            if length > patience.answer_bytes:
                raise Stopped(f"the answer has more than {patience.answer_bytes >> 20} MiB")
            return json.loads(self._read(length, look), parse_constant=_refuse)[0]
        except Stopped:
            self.close()
            raise
        except (EOFError, OSError):
            raise Stopped(self._ending()) from None
        except (ValueError, RecursionError, LookupError, TypeError):
            self.close()
            raise Stopped("the process that worked on it gave no answer") from None

    def resident_bytes(self) -> int:
        """Return how much memory it occupies, shared with the fork server or its own."""
        with suppress(OSError, ValueError), open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
        return 0

    def printed(self) -> str:
        """Return the end of the text that it has printed."""
        size = os.fstat(self._printed).st_size
        at = max(0, size - _PRINTED_BYTES)
        return os.pread(self._printed, _PRINTED_BYTES, at).decode(errors="replace")

    def close(self) -> None:
        """Release the process, which ends it and all that it has."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._lease.close()

    def __del__(self) -> None:
        self.close()
        for handle in (self._questions, self._answers, self._printed):
            os.close(handle)

    def _give_way(self) -> None:
        """Give this process the lowest priority, so that short questions of others run first."""
        self._gives_way = True
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, _LAST)

    def _cpu_seconds(self) -> float:
        """Return the processor time that it has taken so far."""
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{self.pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()
            return (int(words[11]) + int(words[12])) / _TICKS
        return 0.0

    def _ending(self) -> str:
        """Return how the process ended, once it answers no more."""
        ended = None
        with suppress(OSError, ValueError):
            ended = _message(self._lease, _END_SECONDS).get("ended")
        self.close()
        if ended == -signal.SIGKILL:
            return "out of time or memory: the process that worked on it was ended"
        return f"the process that worked on it {ending_of(ended or 0)}"

    def _write(self, data: bytes, look: Any) -> None:
        left = memoryview(data)
        while left:
            if select.select([], [self._questions], [], _LOOK_SECONDS)[1]:
                with suppress(BlockingIOError):
                    left = left[os.write(self._questions, left) :]
            look()

    def _read(self, size: int, look: Any) -> bytes:
        pieces: list[bytes] = []
        while size:
            if select.select([self._answers], [], [], _LOOK_SECONDS)[0]:
                with suppress(BlockingIOError):
                    pieces.append(os.read(self._answers, min(size, 1 << 20)))
                    if not pieces[-1]:
                        raise EOFError
                    size -= len(pieces[-1])
                    if not size:
                        break
            look()
        return b"".join(pieces)


class Forks:
    """A fork server process, and the socket to it."""

    def __init__(self, code: str, environment: dict[str, str]) -> None:
        """Start one.

        Args:
            code: Python that calls `hloc.confinement.fork_server.serve`.
            environment: the whole environment of its processes.

        Raises:
            HloError: this system cannot confine processes; the message says what is missing.
        """
        check_machine()
        self._code, self._environment = code, environment
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        """Start the server, and wait until it says that it is ready."""
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                python_command("-c", self._code),
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the server, which ends it
            )
        try:
            _check(_message(self._control, _START_SECONDS))
        except BaseException as fault:
            self.close()
            if isinstance(fault, OSError):
                raise HloError("the process that forks confined processes did not start") from None
            raise

    def fork(self, kind: str, limits: Limits) -> Confined:
        """Return a new confined process; a fork server that has ended is started again.

        Raises:
            HloError: it cannot be started or confined.
        """
        with self._lock:
            if self._process.poll() is not None:
                self.close()
                self._start()
        own, others = _ends()
        lease, other_lease = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        confined = Confined(0, *own, lease)
        request = json.dumps({"kind": kind, "limits": asdict(limits)}).encode()
        try:
            with self._lock:
                socket.send_fds(self._control, [request], [*others, other_lease.fileno()])
        except OSError:
            raise HloError("the process that forks confined processes has ended") from None
        finally:
            other_lease.close()
            for handle in others[:2]:
                os.close(handle)
        try:
            confined.pid = _check(_message(lease, _FORK_SECONDS))["started"]
        except OSError:
            raise HloError("the process that forks confined processes has ended") from None
        return confined

    def close(self) -> None:
        """End the fork server, and with it all its processes."""
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._process.kill()
        self._process.wait()


def _ends() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return descriptors for questions, answers and printed text: ours, then theirs."""
    theirs, questions = os.pipe2(os.O_CLOEXEC)
    answers, their_answers = os.pipe2(os.O_CLOEXEC)
    for handle in (questions, answers):
        os.set_blocking(handle, False)
    printed = os.memfd_create("printed")
    return (questions, answers, printed), (theirs, their_answers, printed)


def _message(stream: socket.socket, seconds: float) -> dict[str, Any]:
    """Return the next message; raises OSError if there is none in time."""
    if not select.select([stream], [], [], seconds)[0]:
        raise TimeoutError
    data = stream.recv(MESSAGE_BYTES)
    if not data:
        raise ConnectionResetError
    found: dict[str, Any] = json.loads(data)
    return found


def _check(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message; raises HloError if it reports a missing feature."""
    if "lacks" in message:
        raise lack(*message["lacks"])
    return message


def _refuse(word: str) -> float:
    """Refuse NaN and infinity, which are not JSON."""
    raise ValueError(word)
