"""The routes of the server: the page and its files, programs, questions, and drawings."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib.resources import files
from os.path import splitext
from typing import Any, TypeAlias

from anyio import Lock, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hloc.errors import HloError
from hloc.learn.catalogue import Lesson
from hloc.web.child import Responder
from hloc.web.highlighting import highlighting
from hloc.web.lessons import checked, lesson_data
from hloc.web.limits import CHECK_SECONDS, KEPT_PAGES, WORK_SECONDS
from hloc.web.programs import Program
from hloc.web.questions import read_question

FILE_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

Files: TypeAlias = dict[str, tuple[bytes, str]]
"""Contents and media type of files, by name."""

_DRAWING_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "sandbox allow-scripts; frame-ancestors 'self'"
)


class WebApp:
    """The application of the page.

    Args:
        programs: what can be opened.
        checker: checks texts while the user types, without waiting for the worker.
        worker: answers all other questions.
        check_answer: checks an answer to a lesson.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        checker: Responder,
        worker: Responder,
        check_answer: Callable[[Lesson, object], dict[str, Any]] = checked,
    ) -> None:
        """Map paths to methods."""
        self._programs = programs
        self._checker, self._worker = checker, worker
        self._check_answer = check_answer
        self._drawings: OrderedDict[str, str] = OrderedDict()
        self._one_check = Lock()
        self._files = page_files("hloc.web")
        self.routes = [
            Route("/", self._index),
            Route("/page/{name}", self._file),
            Route("/drawing/{key}", self._drawing),
            Route("/api/start", self._start),
            Route("/api/programs/{number:int}", self._program),
            Route("/api/programs/{number:int}/lesson", self._lesson),
            Route("/api/programs/{number:int}/check", self._check, methods=["POST"]),
            Route("/api/ask", self._ask, methods=["POST"]),
        ]

    def starlette(self) -> Starlette:
        """Return the application."""
        return Starlette(routes=self.routes, exception_handlers={Exception: failed})

    def close(self) -> None:
        """End the child processes."""
        self._checker.close()
        self._worker.close()

    async def _index(self, _request: Request) -> Response:
        return file_named("index.html", self._files)

    async def _file(self, request: Request) -> Response:
        return file_named(request.path_params["name"], self._files)

    async def _drawing(self, request: Request) -> Response:
        html = self._drawings.get(request.path_params["key"])
        if html is None:
            return faulty("the drawing is no longer kept; choose the state again", 404)
        headers = {"content-security-policy": _DRAWING_POLICY}
        return Response(html, media_type=FILE_TYPES[".html"], headers=headers)

    async def _start(self, _request: Request) -> Response:
        """Return the programs that can be opened, and the data for syntax highlighting."""
        rows = [
            {
                "title": p.title,
                "group": p.group,
                "lesson": p.lesson is not None,
                "replayed": p.replayed is not None,
            }
            for p in self._programs
        ]
        return JSONResponse({"programs": rows, "highlighting": highlighting()})

    async def _program(self, request: Request) -> Response:
        program = self._program_of(request)
        if program is None:
            return faulty("there is no such program", 404)
        try:
            text = await to_thread.run_sync(program.text)
        except HloError as fault:
            return told(fault)
        if text is not None:
            return JSONResponse({"text": text})
        return await self._answered({"ask": "open", "path": program.path})

    def _program_of(self, request: Request) -> Program | None:
        number = request.path_params["number"]
        return self._programs[number] if number < len(self._programs) else None

    async def _lesson(self, request: Request) -> Response:
        program = self._program_of(request)
        if program is None or program.lesson is None:
            return faulty("there is no such lesson", 404)
        return self._with_frame(await to_thread.run_sync(lesson_data, program.lesson))

    async def _check(self, request: Request) -> Response:
        """Check an answer to a lesson; answers are checked one after the other."""
        program = self._program_of(request)
        if program is None or program.lesson is None:
            return faulty("there is no such lesson", 404)
        try:
            answer = json.loads(await request.body())["answer"]
        except (ValueError, RecursionError, KeyError, TypeError):
            return faulty("cannot read the answer", 400)
        async with self._one_check:
            try:
                return JSONResponse(
                    await to_thread.run_sync(self._check_answer, program.lesson, answer)
                )
            except HloError as fault:
                return told(fault)

    async def _ask(self, request: Request) -> Response:
        try:
            question = read_question(json.loads(await request.body()))
        except (ValueError, RecursionError) as fault:
            return faulty(f"cannot read the question: {fault}", 400)
        dump = question["dump"]
        if dump >= 0:
            program = self._programs[dump] if dump < len(self._programs) else None
            if program is None or program.replayed is None:
                return faulty("there is no such dump", 404)
            question["replayed"] = [program.replayed.folder, program.replayed.module]
        return await self._answered(question)

    async def _answered(self, question: dict[str, Any]) -> Response:
        child, seconds = self._worker, WORK_SECONDS
        if question["ask"] == "check":
            child, seconds = self._checker, CHECK_SECONDS
        try:
            answer = await to_thread.run_sync(child.ask, question, seconds)
        except HloError as fault:
            return told(fault)
        return self._with_frame(answer)

    def _with_frame(self, answer: dict[str, Any]) -> Response:
        """Return an answer; an HTML page in it is kept for the frame that shows it."""
        if "html" in answer:
            answer["frame"] = self._kept_page(answer.pop("html"))
        return JSONResponse(answer)

    def _kept_page(self, html: str) -> str:
        """Keep the page of a drawing for a frame; return its address."""
        key = secrets.token_urlsafe(12)
        self._drawings[key] = html
        while len(self._drawings) > KEPT_PAGES:
            self._drawings.popitem(last=False)
        return f"drawing/{key}"


def page_files(package: str) -> Files:
    """Return the files in the folder `page` of a package."""
    return {
        file.name: (file.read_bytes(), FILE_TYPES[splitext(file.name)[1]])
        for file in files(package).joinpath("page").iterdir()
    }


def file_named(name: str, known: Files) -> Response:
    """Return a file of the page; names are looked up, never joined to a path."""
    found = known.get(name)
    if found is None:
        return faulty("there is no such file", 404)
    return Response(found[0], media_type=found[1])


def told(fault: HloError) -> Response:
    """Return the answer that reports an error."""
    return faulty(fault.message, notes=fault.diagnostics[0].notes)


async def failed(_request: Request, _fault: Exception) -> Response:
    """Return the answer to a request that caused an internal error."""
    return faulty("internal error", 500)


def faulty(message: str, status: int = 200, notes: Sequence[str] = ()) -> Response:
    """Return an answer with `message` as its error."""
    row = {"message": message, "notes": list(notes), "code": "", "line": None}
    return JSONResponse({"faults": [row]}, status)
