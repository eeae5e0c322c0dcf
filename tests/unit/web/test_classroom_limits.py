"""How many students a class of `hloc web --classroom` takes, and what it releases."""

import os

import pytest

pytest.importorskip("resource", reason="limits of Unix")
pytest.importorskip("starlette", reason="the extra hloc[web]")
pytest.importorskip("uvicorn", reason="the extra hloc[web]")

from hloc.web.classroom import limits
from tests.unit.web.classes import Browser, confined_of, serving
from tests.waiting import wait_until


def test_a_full_class_and_one_that_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloc.web.classroom.server._LOOK_SECONDS", 0.05)
    with serving(students=1) as small:
        first = small.join("Ada")
        answer = Browser(small.port).post(f"/{small.token}/api/join", {"name": "Bob"})
        assert answer.words == "the class is full: 1 students are there"
        assert first.ask("check")["instructions"] == 2
        monkeypatch.setattr(limits, "PROCESS_SECONDS", 0.0)
        wait_until(lambda: not confined_of(os.getpid()), "idle processes end")
        assert first.ask("check")["instructions"] == 2  # another one is started
        monkeypatch.setattr(limits, "SESSION_SECONDS", 0.0)
        wait_until(lambda: "Ada left: idle for 0 minutes (0 of 1)" in small.told, "it ends")
        assert first.request("GET", "/desk/").status == 401
        second = small.join("Bob")
        assert second.request("GET", "/desk/").status in (200, 401)
