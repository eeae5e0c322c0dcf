"""Starts a classroom: the fork server, the listening socket, and messages to the teacher."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

import uvicorn
from anyio import to_thread

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.web.child import Child
from hloc.web.classroom import limits
from hloc.web.classroom.connection import Connection
from hloc.web.classroom.door import DESK, Door
from hloc.web.classroom.sessions import Say, Sessions
from hloc.web.classroom.students import fork_server
from hloc.web.guard import LOOPBACK, App, Guard, Receive, Scope, Send
from hloc.web.limits import WORK_SECONDS
from hloc.web.programs import Program, programs_of
from hloc.web.server import JSON_FACTOR, listen

_LOOK_SECONDS = 10.0


def serve_classroom(paths: Sequence[str], *, host: str, port: int, students: int, say: Say) -> None:
    """Serve a class until Ctrl-C.

    Args:
        paths: files and folders of dumps that every student can open.
        host: the address of this machine to listen on.
        port: 0 for a free one.
        students: most students at the same time.
        say: prints a line for the teacher.

    Raises:
        HloError: as `open_classroom`.
    """
    say("starting: what students do runs in confined processes")
    with open_classroom(paths, host, port, students, say) as (server, link):
        say(f"class link: {link}\nCtrl-C ends it")
        server()


@contextmanager
def open_classroom(
    paths: Sequence[str], host: str, port: int, students: int, say: Say
) -> Iterator[tuple[Callable[[], None], str]]:
    """Yield the function that serves a class until it is stopped, and the class link.

    The arguments are those of `serve_classroom`.

    Raises:
        HloError: a file cannot be read, the address is taken or not this machine's, or this system
            cannot confine processes.
    """
    # Students' processes read no folder, so XLA's passes are not replayed for them.
    given = (program for program in programs_of(paths) if program.replayed is None)
    programs = tuple(map(_kept, given))
    with closing(listen(port, host)) as listener, closing(fork_server()) as forks:
        port = listener.getsockname()[1]
        token, hosts = secrets.token_urlsafe(16), _names(listener)

        def guarded(first: str) -> Callable[[App], App]:
            return lambda app: _Guarded(app, first, port, hosts)

        sessions = Sessions(forks, programs, students, guarded(DESK), say)
        door = Door(sessions, port, guarded(token), say)
        config = uvicorn.Config(
            _with_threads(door), http=Connection, log_level="critical", access_log=False,
            server_header=False, ws="none", proxy_headers=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        with _tidying(sessions):
            link = f"http://{_shown(listener, hosts)}:{port}/{token}/"
            yield partial(server.run, sockets=[listener]), link


class _Guarded:
    """A guard that accepts the names of this machine and the address of the request."""

    def __init__(self, app: App, token: str, port: int, hosts: Sequence[str]) -> None:
        self._app, self._token, self._port, self._hosts = app, token, port, hosts
        self._by_address: dict[str, Guard] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or forward it."""
        address = _bracketed(str((scope.get("server") or ("",))[0]))
        if address not in self._by_address:  # this machine has only a few
            hosts = [name for name in (*self._hosts, address) if name]
            most = limits.TEXT_BYTES * JSON_FACTOR
            self._by_address[address] = Guard(self._app, self._token, self._port, most, hosts)
        await self._by_address[address](scope, receive, send)


def _with_threads(app: App) -> App:
    """Return `app` with a thread for each question that may be in progress."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        to_thread.current_default_thread_limiter().total_tokens = limits.MOST_ASKED_TOGETHER
        await app(scope, receive, send)

    return answered


@contextmanager
def _tidying(sessions: Sessions) -> Iterator[None]:
    """End idle sessions and processes now and then, and all of them at the end."""
    over = threading.Event()

    def tidy() -> None:
        while not over.wait(_LOOK_SECONDS):
            sessions.release_idle()

    thread = threading.Thread(target=tidy, name="hloc-classroom", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        sessions.close()


@dataclass(frozen=True, slots=True)
class _KeptProgram(Program):
    """A program whose text was read in advance: students' processes cannot read its file."""

    kept: str = ""

    def text(self) -> str:
        """Return its text."""
        return self.kept


def _kept(program: Program) -> Program:
    text = program.text()
    if text is None:
        reader = Child()
        try:
            answer = reader.ask({"ask": "open", "path": program.path}, WORK_SECONDS)
        finally:
            reader.close()
        if "text" not in answer:
            raise HloError(f"{program.title}: {answer['faults'][0]['message']}")
        text = str(answer["text"])
    if len(text.encode(errors="replace")) > limits.TEXT_BYTES:
        raise HloError(f"{program.title} has more than {limits.TEXT_BYTES >> 20} MiB of text")
    return _KeptProgram(program.title, program.group, program.path, program.lesson, kept=text)


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _names(listener: socket.socket) -> tuple[str, ...]:
    """Return the host names that a request may use."""
    address = listener.getsockname()[0]
    if address.startswith("127.") or address == "::1":
        return LOOPBACK
    name = socket.gethostname()
    return (name, f"{name}.local", *LOOPBACK)


def _shown(listener: socket.socket, hosts: Sequence[str]) -> str:
    """Return the host in the class link: the machine's name if it listens on all addresses."""
    address = listener.getsockname()[0]
    return hosts[0] if address in ("0.0.0.0", "::") else _bracketed(address)
