"""Joining a class: the class link opens a form, which starts a session with a cookie.

The path of the class link contains a token. A student who joins gets a cookie that scripts cannot
read and other sites cannot send; requests below `/desk/` are refused without it. Before the body of
a request is read, its session is known and has not too many questions in progress.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from http.cookies import CookieError, SimpleCookie

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from hloc.errors import HloError, printable
from hloc.web.app import failed, faulty, file_named, page_files, told
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
        sessions: the sessions of the class.
        port: the port of the server; part of the cookie's name, since browsers do not separate the
            cookies of ports.
        guarded: puts a guard before the form.
        say: prints a line for the teacher.
    """

    def __init__(
        self,
        sessions: Sessions,
        port: int,
        guarded: Callable[[App], App],
        say: Callable[[str], None],
    ) -> None:
        """Prepare the pages that need no session; all others are below `/desk/`."""
        self._sessions, self._say = sessions, say
        self._cookie = f"hloc-{port}"
        shared = page_files("hloc.web")
        own = page_files("hloc.web.classroom")
        self._files = {**{name: shared[name] for name in _OF_BOTH}, **own}
        routes = [
            Route("/", self._form),
            Route("/page/{name}", self._file),
            Route("/api/join", self._join, methods=["POST"]),
        ]
        self._outside = guarded(Starlette(routes=routes, exception_handlers={Exception: failed}))
        self._reported: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; report an internal error to the student and the teacher."""
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
            self._report(fault)
            if not started:
                await refuse(send, 500, "internal error")

    def _report(self, fault: Exception) -> None:
        """Report an internal error to the teacher, once for each kind: students may provoke it."""
        kind = type(fault).__name__
        if kind not in self._reported:
            self._reported.add(kind)
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
        """Return the session whose cookie the browser sent."""
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
        """Return the form, or redirect a student who has joined already to the page."""
        if self._session_of(request.scope) is not None:
            return RedirectResponse(f"/{DESK}/", 303)
        return file_named("join.html", self._files)

    async def _file(self, request: Request) -> Response:
        return file_named(request.path_params["name"], self._files)

    async def _join(self, request: Request) -> Response:
        """Start a session for a name."""
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
    """Return the next part of a request; one that arrives too slowly ends."""
    try:
        async with asyncio.timeout_at(end):
            return await receive()
    except TimeoutError:
        return {"type": "http.disconnect"}
