"""Who may come in: the class link leads to a form, the form to a session, its cookie to the page.

The path of the class link holds a token. A student who joins gets a cookie that no script can read
and no other site can send; without it nothing below `/desk/` is answered. Before a body is read it
is known whose it is, and that he has not too many questions open.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from hloc.errors import HloError, printable
from hloc.web.app import FILE_TYPES, failed, faulty, told
from hloc.web.classroom import limits
from hloc.web.classroom.sessions import Session, Sessions
from hloc.web.guard import App, Message, Receive, Scope, Send, refuse

DESK = "desk"
"""The first part of the path of every student's page."""

_SHOWN_LETTERS = 200
_OF_BOTH = ("colours.css", "page.css", "theme.js", "icon.svg")


class Door:
    """The application of a classroom.

    Args:
        sessions: who is there.
        port: of the server, part of the name of its cookie: browsers send those of all ports.
        guarded: puts a guard before the form.
        say: tells the teacher a line.
    """

    def __init__(
        self,
        sessions: Sessions,
        port: int,
        guarded: Callable[[App], App],
        say: Callable[[str], None],
    ) -> None:
        self._sessions, self._say = sessions, say
        self._cookie = f"hloc-{port}"
        self._files = {
            file.name: (file.read_bytes(), FILE_TYPES[file.name[file.name.rindex(".") :]])
            for folder in ("hloc.web.classroom", "hloc.web")
            for file in files(folder).joinpath("page").iterdir()
            if folder == "hloc.web.classroom" or file.name in _OF_BOTH
        }
        routes = [
            Route("/", self._form),
            Route("/page/{name}", self._file),
            Route("/api/join", self._join, methods=["POST"]),
        ]
        self._outside = guarded(Starlette(routes=routes, exception_handlers={Exception: failed}))
        self._told: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a fault of hloc is told in words, here and to the teacher."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._outside(scope, receive, send)
            return
        started: list[Message] = []

        async def sent(message: Message) -> None:
            started.append(message)
            await send(message)

        end = asyncio.get_running_loop().time() + limits.REQUEST_SECONDS
        try:
            await self._answer(scope, partial(_in_time, receive, end), sent)
        except HloError as fault:
            await refuse(send, 429, fault.message)
        except Exception as fault:
            self._tell(fault)
            if not started:
                await refuse(send, 500, "internal error")

    def _tell(self, fault: Exception) -> None:
        """Tell the teacher of a fault of hloc; of each kind once, since anybody may provoke it."""
        kind = type(fault).__name__
        if kind not in self._told:
            self._told.add(kind)
            self._say(f"internal error: {kind}: {printable(str(fault))[:_SHOWN_LETTERS]}")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith(f"/{DESK}/"):
            await self._outside(scope, receive, send)
            return
        session = self._session_of(scope)
        if session is None:
            await refuse(send, 401, "your session has ended; open the class link again")
            return
        with self._sessions.asking(session):
            await session.page(scope, receive, send)

    def _session_of(self, scope: Scope) -> Session | None:
        """Return the session whose cookie the browser has sent."""
        for name, value in scope["headers"]:
            if name == b"cookie":
                try:
                    cookie = SimpleCookie(value.decode("latin-1")).get(self._cookie)
                except CookieError:
                    continue
                found = self._sessions.find(cookie.value) if cookie else None
                if found is not None:
                    return found
        return None

    async def _form(self, request: Request) -> Response:
        """Return the form; who has joined already goes to his page."""
        if self._session_of(request.scope) is not None:
            return RedirectResponse(f"/{DESK}/", 303)
        content, kind = self._files["join.html"]
        return Response(content, media_type=kind)

    async def _file(self, request: Request) -> Response:
        """Return a file of the form; names are looked up, never joined to a path."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return faulty("there is no such file", 404)
        return Response(found[0], media_type=found[1])

    async def _join(self, request: Request) -> Response:
        """Begin a session for a name."""
        try:
            name = json.loads(await request.body())["name"]
        except (ValueError, RecursionError, LookupError, TypeError):
            name = None
        if not isinstance(name, str):
            return faulty("cannot read the name", 400)
        session = self._session_of(request.scope)
        if session is None:
            try:
                address = request.client.host if request.client else "nowhere"
                session = self._sessions.join(name, address)
            except HloError as fault:
                return told(fault)
        response = JSONResponse({"desk": f"/{DESK}/"})
        response.set_cookie(self._cookie, session.secret, httponly=True, samesite="strict")
        return response


async def _in_time(receive: Receive, end: float) -> Message:
    """Return the next part of a request; one that arrives too slowly is over."""
    try:
        async with asyncio.timeout_at(end):
            return await receive()
    except TimeoutError:
        return {"type": "http.disconnect"}
