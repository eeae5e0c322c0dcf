"""The fork server: forks a confined process for each request, and ends it when it is let go.

It reads requests from the socket that is its stdin. With each come four descriptors: where the
process reads questions, writes answers, and prints, and a *lease*, a socket on which the server
hears of its start and its end. The process lives as long as the other end of its lease is open.
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
    """A process could not shut itself in; holds the system call that failed, and why."""


@dataclass(slots=True, eq=False)
class _Child:
    """A process, a handle to it, and the lease that it lives by."""

    pid: int
    handle: int
    lease: socket.socket


class ForkServer:
    """Forks processes that do what one of `handlers` does."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._handlers: dict[str, Handler] = {}
        self._selector = selectors.DefaultSelector()
        self._place = tempfile.mkdtemp(prefix="hloc-confined-")
        self._readable: list[str] = []

    def serve(self, prepare: Callable[[], dict[str, Handler]]) -> None:
        """Answer requests until the other end of the socket is closed.

        Args:
            prepare: imports what processes need, and returns what they can do.
        """
        call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._handlers = {"": lambda _questions, _answers: check()}
            self._readable = file_tree.readable_folders()
            self._try_out()
            self._handlers = prepare()
            self._readable = file_tree.readable_folders()
            gc.collect()
            gc.freeze()  # collections in children would copy every page
            self._say(self._control, {"ready": True})
            self._selector.register(self._control, selectors.EVENT_READ, self._take)
            while True:
                for key, _ in self._selector.select():
                    key.data()
        except _NotConfined as fault:
            self._say(self._control, {"lacks": fault.args})
        except EOFError:
            pass
        finally:
            os.rmdir(self._place)

    def _try_out(self) -> None:
        """Confine a process that looks whether it is; raises _NotConfined."""
        null = os.open(os.devnull, os.O_RDWR)
        pid = self._started("", Limits(1 << 30, 10, 1 << 20), [null] * 3)
        _, status = os.waitpid(pid, 0)
        os.close(null)
        if status:
            raise _NotConfined("check", "what is forbidden was possible")

    def _take(self) -> None:
        """Take a request, and start its process."""
        data, handles, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, _DESCRIPTORS)
        if not data:
            raise EOFError
        lease = socket.socket(fileno=handles.pop())
        request = json.loads(data)
        try:
            pid = self._started(request["kind"], Limits(**request["limits"]), handles)
            child = _Child(pid, os.pidfd_open(pid), lease)
        except _NotConfined as fault:
            self._say(lease, {"lacks": fault.args})
            lease.close()
        except OSError as fault:
            self._say(lease, {"lacks": ("fork", os.strerror(fault.errno or 0))})
            lease.close()
        else:
            self._say(lease, {"started": pid})
            self._selector.register(child.handle, selectors.EVENT_READ, lambda: self._reap(child))
            self._selector.register(lease, selectors.EVENT_READ, lambda: self._end(child))
        for handle in handles:
            os.close(handle)

    def _end(self, child: _Child) -> None:
        """End a process that was let go."""
        self._selector.unregister(child.lease)
        signal.pidfd_send_signal(child.handle, signal.SIGKILL)

    def _reap(self, child: _Child) -> None:
        """Tell how a process has ended, and forget it."""
        _, status = os.waitpid(child.pid, 0)
        self._selector.unregister(child.handle)
        os.close(child.handle)
        with suppress(KeyError, ValueError):
            self._selector.unregister(child.lease)
        self._say(child.lease, {"ended": os.waitstatus_to_exitcode(status)})
        child.lease.close()

    def _say(self, to: socket.socket, message: dict[str, Any]) -> None:
        with suppress(OSError):  # nobody is there to hear it
            to.send(json.dumps(message).encode())

    # ------------------------------------------------------------ a start, step by step

    def _started(self, kind: str, limits: Limits, handles: Sequence[int]) -> int:
        """Fork a process that is confined when this returns; returns its number.

        A process in between goes into the new namespaces, since only what it starts then is the
        first one of the new namespace of processes.
        """
        told, tell = os.pipe()
        going, go = os.pipe()
        started = [os.fork()]
        if not started[0]:
            os.close(go)
            self._leave(tell, going, lambda: self._run(kind, limits, handles, tell))
        os.close(tell)
        os.close(going)
        try:
            _hear(told)
            namespaces.write_maps(started[0])
            os.write(go, b"g")
            started.append(int(_hear(told)))
            os.waitpid(started.pop(0), 0)  # now this process is the parent
            os.write(go, b"g")
            _hear(told)
            return started.pop()
        except OSError as fault:
            raise _NotConfined(
                str(fault.filename or "uid_map"), os.strerror(fault.errno or 0)
            ) from None
        finally:
            os.close(told)
            os.close(go)
            for pid in started:  # that have failed, or read that they are not to go on
                os.waitpid(pid, 0)

    def _leave(self, tell: int, going: int, run: Callable[[], None]) -> None:
        """In the process between: go into new namespaces, and start the one that runs there."""
        with _Telling(tell):
            namespaces.leave("user")
            os.write(tell, b"left")
            _await(going)
            namespaces.leave("mount", "pid", "net", "ipc", "uts", "cgroup")
            pid = os.fork()
            if pid:
                os.write(tell, str(pid).encode())
                os._exit(0)
            _await(going)
            run()

    def _run(self, kind: str, limits: Limits, handles: Sequence[int], tell: int) -> None:
        """In the confined process: shut it in, and do the work."""
        handler = self._handlers[kind]
        own = [fcntl.fcntl(handle, fcntl.F_DUPFD, _FREE_DESCRIPTOR) for handle in (*handles, tell)]
        questions, answers, printed, tell = own
        for handle, number in ((questions, 0), (printed, 1), (printed, 2), (answers, 3), (tell, 4)):
            os.dup2(handle, number)
        call("close_range", 5, 0x7FFFFFFF, 0)
        with _Telling(4):
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


class _Telling:
    """Tells of a failure inside, and ends the process."""

    def __init__(self, tell: int) -> None:
        self._tell = tell

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> None:
        if fault is None:
            return
        if isinstance(fault, OSError):
            words = [str(fault.filename or "open"), os.strerror(fault.errno or 0)]
        else:
            words = [type(fault).__name__, str(fault)]
        os.write(self._tell, b"!" + json.dumps(words).encode())
        os._exit(1)


def _await(going: int) -> None:
    """Wait until the fork server says that the process may go on; end it if that fails."""
    if not os.read(going, 1):
        os._exit(1)


def _hear(told: int) -> bytes:
    """Return what a process says at its start; raises _NotConfined for a failure."""
    if not select.select([told], [], [], _START_SECONDS)[0]:
        raise _NotConfined("start", f"nothing was heard for {_START_SECONDS} s")
    data = os.read(told, MESSAGE_BYTES)
    if not data:
        raise _NotConfined("start", "the process has ended")
    if data.startswith(b"!"):
        raise _NotConfined(*json.loads(data[1:]))
    return data


def serve(prepare: Callable[[], dict[str, Handler]]) -> None:
    """Be a fork server; `prepare` returns what its processes can do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    ForkServer(socket.socket(fileno=0)).serve(prepare)
