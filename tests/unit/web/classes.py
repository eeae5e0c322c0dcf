"""A class in a thread of the test, and browsers of its students without a browser."""

import http.client
import json
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hloc.errors import HloError
from hloc.web.classroom.server import open_classroom
from tests.unit.web.asking import Answer
from tests.waiting import PATIENCE

TEXT = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT n = f32[2] negate(x) }\n"
FORMS = "/desk/api/ask"


class Browser:
    """What a student's browser sends, and its cookie."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Return an answer of the server; headers by name, with `_` for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            named.setdefault("cookie", self.cookie)
        try:
            connection.request(method, path, body, named)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def post(self, path: str, data: object, **headers: str) -> Answer:
        """Return the answer to JSON."""
        given = {"content_type": "application/json", **headers}
        return self.request("POST", path, json.dumps(data).encode(), **given)

    def ask(self, what: str, text: str = TEXT, **fields: object) -> Any:
        """Return the answer to a question about a module."""
        return self.post(FORMS, {"ask": what, "text": text, "pipeline": "-O0", **fields}).json

    def check(self, answer: str, program: int = 0) -> str:
        """Return what is found first about an answer to a lesson."""
        report = self.post(f"/desk/api/programs/{program}/check", {"answer": answer}).json
        return str(report["findings"][0]["text"])


class Class:
    """A class that is served: its link, and what the teacher is told."""

    def __init__(self, link: str, told: list[str]) -> None:
        self.link, self.told = link, told
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([\w-]+)/", link)
        assert found
        self.port, self.token = int(found[1]), found[2]

    def join(self, name: str) -> Browser:
        """Return the browser of a student who has joined."""
        browser = Browser(self.port)
        answer = browser.post(f"/{self.token}/api/join", {"name": name})
        browser.cookie = answer.headers["set-cookie"].partition(";")[0]
        return browser


@contextmanager
def serving(paths: Sequence[str] = (), students: int = 40) -> Iterator[Class]:
    """Serve a class inside; skips the test where the system cannot confine processes."""
    told: list[str] = []
    try:
        opened = open_classroom(paths, "127.0.0.1", 0, students, told.append)
        serve, link = opened.__enter__()
    except HloError as fault:
        pytest.skip(f"confined processes: {fault.message}")
    server = serve.func.__self__  # type: ignore[attr-defined]  # a partial of its `run`
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Class(link, told)
    finally:
        server.should_exit = True
        thread.join()
        opened.__exit__(None, None, None)


def confined_of(server: int) -> list[int]:
    """Return the processes that fork servers of `server` have forked."""
    parent_of = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parent_of[int(entry)] = int(words[1])
    forkers = {pid for pid, parent in parent_of.items() if parent == server}
    return [pid for pid, parent in parent_of.items() if parent in forkers]
