"""Access control of the server: only this machine's browser, with the token, from our own pages.

The token is the first part of every path. Host and Origin are checked too, against pages of other
sites and DNS rebinding. Request bodies are read up to a limit.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80  # browsers leave it out
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"frame-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'self'"
)


class Guard:
    """Forwards allowed requests to an application, without the token in their path.

    Args:
        app: the application.
        token: the first part of every path.
        port: the port of the server.
        most_bytes: largest body of a request.
        hosts: names of this machine that a request may use.
    """

    def __init__(
        self,
        app: App,
        token: str,
        port: int,
        most_bytes: int,
        hosts: Sequence[str] = LOOPBACK,
    ) -> None:
        self._app = app
        self._token = token
        self._names = f"{hosts[0]} and {hosts[1]}" if len(hosts) > 1 else hosts[0]
        self._hosts = {f"{host}:{port}" for host in hosts}
        if port == _HTTP_PORT:
            self._hosts |= set(hosts)
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or forward it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no WebSockets
        refused = self._refusal(scope)
        if refused:
            await refuse(send, *refused)
            return
        body = await self._body(receive)
        if body is None:
            words = f"the request has more than {self._most_bytes >> 20} MiB"
            await refuse(send, 413, words)
            return
        path = scope["path"][len(self._token) + 1 :] or "/"
        inner = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(inner, _given(body, receive), _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and message for a request that is not allowed, None for others."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        host = headers.get("host", "")
        if host not in self._hosts:
            return 403, f"this server answers to {self._names} only"
        first, _, _ = scope["path"].removeprefix("/").partition("/")
        if not hmac.compare_digest(first.encode(), self._token.encode()):
            return 403, "the address lacks the token; open the address that hloc web has printed"
        if scope["path"] == f"/{first}":
            return 404, "the address ends with a slash"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET and POST are answered"
        if scope["method"] == "POST":
            origin = headers.get("origin", f"http://{host}")
            if origin != f"http://{host}" or headers.get("sec-fetch-site", "none") not in (
                "none",
                "same-origin",
            ):
                return 403, "this page belongs to another server"
            if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                return 415, "expected application/json"
            length = headers.get("content-length", "0")
            if not length.isdigit() or int(length) > self._most_bytes:
                return 413, f"the request has more than {self._most_bytes >> 20} MiB"
        return None

    async def _body(self, receive: Receive) -> bytes | None:
        """Return the body, None if it is too long."""
        pieces: list[bytes] = []
        left = self._most_bytes
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b""
            pieces.append(message.get("body", b""))
            left -= len(pieces[-1])
            if left < 0:
                return None
            if not message.get("more_body"):
                return b"".join(pieces)


def _given(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body first, then later messages."""
    first = [body]

    async def given() -> Message:
        if first:
            return {"type": "http.request", "body": first.pop(), "more_body": False}
        return await receive()

    return given


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = list(message["headers"])
            names = {name.lower() for name, _ in own}
            own += [(name, value) for name, value in _HEADERS if name not in names]
            if b"content-security-policy" not in names:
                own.append((b"content-security-policy", _POLICY))
            message = {**message, "headers": own}
        await send(message)

    return sent


async def refuse(send: Send, status: int, words: str) -> None:
    """Answer with a status and an error message, and close the connection."""
    body = json.dumps({"faults": [{"message": words, "notes": []}]}).encode()
    headers = [
        *_HEADERS,
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
