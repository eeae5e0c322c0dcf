"""Starts the server on a port of this machine, and the browser with the address of the page."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence

import uvicorn

from hloc.errors import HloError, reason_of
from hloc.web.app import WebApp
from hloc.web.child import Child
from hloc.web.guard import Guard
from hloc.web.limits import TEXT_BYTES
from hloc.web.programs import programs_of

_JSON_FACTOR = 2
"""Of bytes in a request to those of the text in it: JSON escapes line ends and quotes."""


def serve(
    paths: Sequence[str], *, port: int, open_browser: bool, say: Callable[[str], None]
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        paths: files and folders of dumps that can be opened.
        port: 0 for a free one.
        open_browser: show the page in the browser of the user.
        say: tells the address.

    Raises:
        HloError: a file cannot be read, or the port is taken.
    """
    app = WebApp(programs_of(paths), Child(), Child())
    listener = _listen(port)
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(16)
    address = f"http://127.0.0.1:{port}/{token}/"
    guard = Guard(app.starlette(), token, port, TEXT_BYTES * _JSON_FACTOR)
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


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # the address is printed before the server accepts connections
    except OSError as fault:
        listener.close()
        raise HloError(
            f"cannot listen on port {port}: {reason_of(fault)}",
            notes=("--port=0 takes a free port",),
        ) from None
    listener.set_inheritable(True)
    return listener
