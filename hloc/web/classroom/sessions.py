"""The sessions of students, each with its own secret."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hloc.confinement.forked import Forks
from hloc.errors import HloError, printable
from hloc.learn.catalogue import Lesson
from hloc.web.app import WebApp
from hloc.web.classroom import limits
from hloc.web.classroom.students import Slots, StudentChild, checked
from hloc.web.guard import App
from hloc.web.programs import Program

Say = Callable[[str], None]


class Session:
    """One student: a name, a secret that the browser keeps in a cookie, and a page."""

    def __init__(self, name: str, children: tuple[StudentChild, StudentChild]) -> None:
        self.name = name
        self.secret = secrets.token_urlsafe(32)
        self.children = children
        self.passed: set[str] = set()
        self.asked = 0
        self.used = time.monotonic()
        self.page: App

    def close(self) -> None:
        """End its processes."""
        for child in self.children:
            child.close()


class Sessions:
    """The sessions of a class.

    Args:
        forks: forks the processes.
        programs: the programs that can be opened.
        students: most students at the same time.
        guarded: puts a guard before a page.
        say: prints a line for the teacher.
    """

    def __init__(
        self,
        forks: Forks,
        programs: tuple[Program, ...],
        students: int,
        guarded: Callable[[App], App],
        say: Say,
    ) -> None:
        self._forks, self._programs, self._students = forks, programs, students
        self._guarded, self._say = guarded, say
        self._working, self._checking = Slots(limits.AT_WORK), Slots(limits.CHECKING)
        self._by_secret: dict[str, Session] = {}
        self._asked = 0
        self._lock = threading.Lock()

    def join(self, name: str, address: str) -> Session:
        """Return a new session.

        Raises:
            HloError: the name is empty, or the class is full.
        """
        shown = " ".join(printable(name).split())[: limits.NAME_LETTERS]
        if not shown:
            raise HloError("write your name")
        with self._lock:
            if len(self._by_secret) >= self._students:
                raise HloError(
                    f"the class is full: {self._students} students are there",
                    notes=("ask the teacher to start it with a larger --students",),
                )
            names = {session.name for session in self._by_secret.values()}
            number, own = 2, shown
            while own in names:
                own, number = f"{shown} ({number})", number + 1
            session = self._new_session(own)
            self._by_secret[session.secret] = session
            count = len(self._by_secret)
        self._say(f"{own} joined from {address} ({count} of {self._students})")
        return session

    def find(self, secret: str) -> Session | None:
        """Return the session of a secret, None if there is none."""
        return self._by_secret.get(secret)

    @contextmanager
    def asking(self, session: Session) -> Iterator[None]:
        """Count a request of `session` inside; HloError if there are too many."""
        if session.asked >= limits.MOST_ASKED or self._asked >= limits.MOST_ASKED_TOGETHER:
            raise HloError("too many questions at once", notes=("wait for the answers",))
        session.asked += 1
        self._asked += 1
        session.used = time.monotonic()
        try:
            yield
        finally:
            session.asked -= 1
            self._asked -= 1

    def release_idle(self) -> None:
        """End idle sessions, and idle processes of the other sessions."""
        now = time.monotonic()
        with self._lock:
            gone = [
                session
                for session in self._by_secret.values()
                if now - session.used > limits.SESSION_SECONDS and not session.asked
            ]
            for session in gone:
                del self._by_secret[session.secret]
            count = len(self._by_secret)
        for session in gone:
            session.close()
            minutes = round(limits.SESSION_SECONDS / 60)
            self._say(
                f"{session.name} left: idle for {minutes} minutes ({count} of {self._students})"
            )
        for session in list(self._by_secret.values()):
            for child in session.children:
                child.release_if_idle(limits.PROCESS_SECONDS)

    def close(self) -> None:
        """End all sessions."""
        with self._lock:
            gone = list(self._by_secret.values())
            self._by_secret.clear()
        for session in gone:
            session.close()

    def _new_session(self, name: str) -> Session:
        checker = StudentChild(self._forks, self._checking, limits.CHECK_PATIENCE)
        worker = StudentChild(self._forks, self._working, limits.WORK_PATIENCE)
        session = Session(name, (checker, worker))

        def check(lesson: Lesson, answer: object) -> dict[str, Any]:
            report = checked(self._forks, self._working, lesson, answer)
            if report["passed"] and lesson.name not in session.passed:
                session.passed.add(lesson.name)
                score = f"score {report['score']}"
                self._say(f"{name} passed lesson {lesson.title}, {score}")
            return report

        app = WebApp(self._programs, checker, worker, check)
        session.page = self._guarded(app.starlette())
        return session
