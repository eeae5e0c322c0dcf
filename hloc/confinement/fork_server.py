"""The fork server: forks a confined process for each request, and ends it on release.

Requests arrive on the socket that is its stdin. Each carries four file descriptors: for questions,
for answers, for printed text, and a *lease*, a socket that reports the start and the end of the
process. The process lives as long as the other end of its lease is open.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import selectors
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any, TypeAlias

from hloc.confinement import file_tree, namespaces
from hloc.confinement.kernel import PR_SET_CHILD_SUBREAPER, call
from hloc.confinement.limits import MESSAGE_BYTES, Limits
from hloc.confinement.process import check, confine
from hloc.lazy_dataclass import dataclass

Handler: TypeAlias = Callable[[IO[bytes], IO[bytes]], None]
"""What a process does: reads questions from one stream, writes answers to the other."""

_DESCRIPTORS = 4
_START_SECONDS = 20
_FREE_DESCRIPTOR = 64


class _NotConfined(Exception):
    """A process could not confine itself; holds the system call that failed, and the reason."""


@dataclass(slots=True, eq=False)
class _Child:
    """A confined process, a descriptor of it (`pidfd`), and its lease."""

    pid: int
    handle: int
    lease: socket.socket


class ForkServer:
    """Forks confined processes, each of which runs one of the handlers."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._handlers: dict[str, Handler] = {}
        self._selector = selectors.DefaultSelector()
        self._place = tempfile.mkdtemp(prefix="hloc-confined-")
        self._readable: list[str] = []

    def serve(self, prepare: Callable[[], dict[str, Handler]]) -> None:
        """Answer requests until the other end of the socket is closed.

        Args:
            prepare: imports what processes need, and returns their handlers by name.
        """
        call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._handlers = {"": lambda _questions, _answers: check()}
            self._readable = file_tree.readable_folders()
            self._test_confinement()
            self._handlers = prepare()
            self._readable = file_tree.readable_folders()
            gc.collect()
            gc.freeze()  # collections in children would copy every page
            self._send(self._control, {"ready": True})
            self._selector.register(self._control, selectors.EVENT_READ, self._accept_request)
            while True:
                for key, _ in self._selector.select():
                    key.data()
        except _NotConfined as fault:
            self._send(self._control, {"lacks": fault.args})
        except EOFError:
            pass
        finally:
            os.rmdir(self._place)

    def _test_confinement(self) -> None:
        """Run a confined process that tests its confinement; raises _NotConfined."""
        null = os.open(os.devnull, os.O_RDWR)
        pid = self._started("", Limits(1 << 30, 10, 1 << 20), [null] * 3)
        _, status = os.waitpid(pid, 0)
        os.close(null)
        if status:
            raise _NotConfined("check", "a forbidden operation succeeded")

    def _accept_request(self) -> None:
        """Read a request and start its process."""
        data, handles, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, _DESCRIPTORS)
        if not data:
            raise EOFError
        lease = socket.socket(fileno=handles.pop())
        request = json.loads(data)
        try:
            pid = self._started(request["kind"], Limits(**request["limits"]), handles)
            child = _Child(pid, os.pidfd_open(pid), lease)
        except _NotConfined as fault:
            self._send(lease, {"lacks": fault.args})
            lease.close()
        except OSError as fault:
            self._send(lease, {"lacks": ("fork", os.strerror(fault.errno or 0))})
            lease.close()
        else:
            self._send(lease, {"started": pid})
            self._selector.register(child.handle, selectors.EVENT_READ, lambda: self._reap(child))
            self._selector.register(lease, selectors.EVENT_READ, lambda: self._end(child))
        for handle in handles:
            os.close(handle)

    def _end(self, child: _Child) -> None:
        """Kill a process whose lease was closed."""
        self._selector.unregister(child.lease)
        signal.pidfd_send_signal(child.handle, signal.SIGKILL)

    def _reap(self, child: _Child) -> None:
        """Report how a process ended, and forget it."""
        _, status = os.waitpid(child.pid, 0)
        self._selector.unregister(child.handle)
        os.close(child.handle)
        with suppress(KeyError, ValueError):
            self._selector.unregister(child.lease)
        self._send(child.lease, {"ended": os.waitstatus_to_exitcode(status)})
        child.lease.close()

    def _send(self, to: socket.socket, message: dict[str, Any]) -> None:
        with suppress(OSError):  # the other end is closed
            to.send(json.dumps(message).encode())

    # ------------------------------------------------------------ a start, step by step

    def _started(self, kind: str, limits: Limits, handles: Sequence[int]) -> int:
        """Fork a process that is confined when this returns; returns its process id.

        An intermediate process enters the new namespaces first: only a child that is forked after
        that is the first process of the new PID namespace.
        """
        status_in, status_out = os.pipe()
        going, go = os.pipe()
        started = [os.fork()]
        if not started[0]:
            os.close(go)
            self._enter_namespaces(
                status_out, going, lambda: self._run(kind, limits, handles, status_out)
            )
        os.close(status_out)
        os.close(going)
        try:
            _read_report(status_in)
            namespaces.write_maps(started[0])
            os.write(go, b"g")
            started.append(int(_read_report(status_in)))
            os.waitpid(started.pop(0), 0)  # now this process is the parent
            os.write(go, b"g")
            _read_report(status_in)
            return started.pop()
        except OSError as fault:
            raise _NotConfined(
                str(fault.filename or "uid_map"), os.strerror(fault.errno or 0)
            ) from None
        finally:
            os.close(status_in)
            os.close(go)
            for pid in started:  # they failed, or will fail in `_await`
                os.waitpid(pid, 0)

    def _enter_namespaces(self, status_out: int, going: int, run: Callable[[], None]) -> None:
        """In the intermediate process: enter new namespaces, and fork the confined process."""
        with _ReportFailure(status_out):
            namespaces.enter_new("user")
            os.write(status_out, b"left")
            _await(going)
            namespaces.enter_new("mount", "pid", "net", "ipc", "uts", "cgroup")
            pid = os.fork()
            if pid:
                os.write(status_out, str(pid).encode())
                os._exit(0)
            _await(going)
            run()

    def _run(self, kind: str, limits: Limits, handles: Sequence[int], status_out: int) -> None:
        """In the confined process: confine it, then run its handler."""
        handler = self._handlers[kind]
        own = [
            fcntl.fcntl(handle, fcntl.F_DUPFD, _FREE_DESCRIPTOR)
            for handle in (*handles, status_out)
        ]
        questions, answers, printed, status_out = own
        for number, handle in enumerate((questions, printed, printed, answers, status_out)):
            os.dup2(handle, number)
        call("close_range", 5, 0x7FFFFFFF, 0)
        with _ReportFailure(4):
            confine(self._place, self._readable, limits)
        os.write(4, b"in")
        os.close(4)
        code = 1
        try:
            handler(os.fdopen(0, "rb"), os.fdopen(3, "wb"))
            code = 0
        except BaseException as fault:
            print(f"{type(fault).__name__}: {fault}", file=sys.stderr)
        finally:
            with suppress(Exception):
                sys.stdout.flush()
            os._exit(code)


class _ReportFailure:
    """Reports a failure inside its block to the fork server, and ends the process."""

    def __init__(self, status_out: int) -> None:
        self._status_out = status_out

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> None:
        if fault is None:
            return
        if isinstance(fault, OSError):
            words = [str(fault.filename or "open"), os.strerror(fault.errno or 0)]
        else:
            words = [type(fault).__name__, str(fault)]
        os.write(self._status_out, b"!" + json.dumps(words).encode())
        os._exit(1)


def _await(going: int) -> None:
    """Wait until the fork server lets the process continue; end it if the server is gone."""
    if not os.read(going, 1):
        os._exit(1)


def _read_report(status_in: int) -> bytes:
    """Return the next report of a starting process; raises _NotConfined for a failure."""
    if not select.select([status_in], [], [], _START_SECONDS)[0]:
        raise _NotConfined("start", f"no status_out within {_START_SECONDS} s")
    data = os.read(status_in, MESSAGE_BYTES)
    if not data:
        raise _NotConfined("start", "the process has ended")
    if data.startswith(b"!"):
        raise _NotConfined(*json.loads(data[1:]))
    return data


def serve(prepare: Callable[[], dict[str, Handler]]) -> None:
    """Run a fork server; `prepare` returns the handlers of its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    ForkServer(socket.socket(fileno=0)).serve(prepare)
