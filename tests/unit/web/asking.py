"""Requests to an ASGI application, without a port and without a client library."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from hloc.web.guard import App, Message

HOST = "127.0.0.1:8000"
TOKEN = "a-token-of-the-test"


class Answer:
    """Status, headers by name, and body of an answer."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def words(self) -> str:
        """What the first fault says."""
        return str(self.json["faults"][0]["message"])


def request(
    app: App,
    path: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Return the answer of `app`."""
    given = {"host": HOST, **(headers or {})}
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http",
        "headers": [(k.lower().encode(), v.encode()) for k, v in given.items()],
        "client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 8000),
    }  # fmt: skip
    pieces = [body[i : i + (1 << 20)] for i in range(0, len(body), 1 << 20)] or [b""]
    sent: list[Message] = []

    async def receive() -> Message:
        more = len(pieces) > 1
        return {"type": "http.request", "body": pieces.pop(0), "more_body": more}

    async def send(message: Message) -> None:
        sent.append(message)

    async def answered() -> None:
        await app(scope, receive, send)

    asyncio.run(answered())
    start, *rest = sent
    names = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], names, b"".join(m.get("body", b"") for m in rest))


def post(app: App, path: str, data: Any, **headers: str) -> Answer:
    """Return the answer to JSON that a page of the server has sent."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    given = {"content-type": "application/json", "origin": f"http://{HOST}", **named}
    return request(app, path, method="POST", body=json.dumps(data).encode(), headers=given)
