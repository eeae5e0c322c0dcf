"""Starts the server on a port of this machine, and opens the page in the browser."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence

import uvicorn

from hloc.errors import HloError, printable, reason_of
from hloc.web.app import WebApp
from hloc.web.child import Child
from hloc.web.guard import Guard
from hloc.web.limits import TEXT_BYTES
from hloc.web.programs import programs_of

JSON_FACTOR = 2
"""Size of a request relative to the text in it: JSON escapes line ends and quotes."""


def serve(
    paths: Sequence[str], *, port: int, open_browser: bool, say: Callable[[str], None]
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        paths: files and folders of dumps that can be opened.
        port: 0 for a free one.
        open_browser: open the page in the user's browser.
        say: prints a line for the user.

    Raises:
        HloError: a file cannot be read, or the port is taken.
    """
    app = WebApp(programs_of(paths), Child(), Child())
    listener = listen(port)
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(16)
    address = f"http://127.0.0.1:{port}/{token}/"
    guard = Guard(app.starlette(), token, port, TEXT_BYTES * JSON_FACTOR)
    config = uvicorn.Config(
        guard, log_level="warning", access_log=False, server_header=False, ws="none",
        proxy_headers=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    say(f"hloc web: {address}\nCtrl-C ends it")
    if open_browser:
        webbrowser.open(address)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        app.close()
        listener.close()


def listen(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Return a socket that listens on a port of an address of this machine.

    Raises:
        HloError: the port is taken, or the address is another machine's.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as fault:
        raise HloError(f"cannot listen on {printable(host)}: {reason_of(fault)}") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen()  # the address is printed before the server accepts connections
    except OSError as fault:
        listener.close()
        raise HloError(
            f"cannot listen on port {port} of {printable(host)}: {reason_of(fault)}",
            notes=("--port=0 takes a free port",),
        ) from None
    listener.set_inheritable(True)
    return listener
