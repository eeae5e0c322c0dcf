"""The confined processes of one student, and the number of them that work at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hloc.confinement.file_tree import OWN_FOLDER
from hloc.confinement.forked import Confined, Forks, Patience, Stopped
from hloc.errors import HloError
from hloc.learn.catalogue import Lesson
from hloc.learn.report import shortened
from hloc.python_process import python_environment
from hloc.web.classroom import limits
from hloc.web.limits import ANSWER_BYTES

_CODE = "from hloc.web.classroom.work import main; main()"
_MOST_FINDINGS = 500
_AT_FAULT = ("the class goes on; try a smaller module, or another state",)
_BUSY = ("wait a moment, then ask again",)


def fork_server() -> Forks:
    """Start the fork server of a classroom; HloError where processes cannot be confined.

    It and its processes see nothing of the environment but Python's module path. They use no cache:
    code that one student's module left there would run for another student.
    """
    environment = {
        "PYTHONPATH": python_environment()["PYTHONPATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": OWN_FOLDER,
        "LANG": "C.UTF-8",
        "HLOC_CACHE_DIR": "",
        "HLOC_COMPILE_PROCESSES": "1",
        "HLOC_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return Forks(_CODE, environment)


class Slots:
    """A limit on the processes that work at the same time."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a slot inside; HloError if none becomes free in time."""
        if not self._free.acquire(timeout=limits.WAIT_SECONDS):
            raise HloError("too many students are working at the moment", notes=_BUSY)
        try:
            yield
        finally:
            self._free.release()


class StudentChild:
    """A confined process that answers a student's questions, one at a time.

    It is started by a question, and ended when it takes too much or is idle; its state is computed
    again when needed.
    """

    def __init__(self, forks: Forks, slots: Slots, patience: Patience) -> None:
        self._forks, self._slots, self._patience = forks, slots, patience
        self._lock = threading.Lock()
        self._process: Confined | None = None
        self._is_closed = False
        self._used = time.monotonic()

    def ask(self, question: dict[str, Any], _seconds: float) -> dict[str, Any]:
        """Return the answer to `question`.

        Raises:
            HloError: there is no answer; the message is for the student.
        """
        with self._lock, self._slots.held():
            process = self._started()
            self._used = time.monotonic()
            try:
                answer = process.ask(question, self._patience)
            except Stopped as fault:
                self.release()
                raise HloError(fault.message, notes=_AT_FAULT) from None
            if process.resident_bytes() > limits.KEPT_BYTES:
                self.release()
            self._used = time.monotonic()
        if not isinstance(answer, dict):
            raise HloError("the process that worked on it gave no answer", notes=_AT_FAULT)
        return answer

    def release_if_idle(self, seconds: float) -> None:
        """End the process if its last question was more than `seconds` ago."""
        if time.monotonic() - self._used > seconds and self._lock.acquire(blocking=False):
            try:
                self.release()
            finally:
                self._lock.release()

    def release(self) -> None:
        """End the process; the next question starts a new one."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def close(self) -> None:
        """End the process for good, also while it works."""
        self._is_closed = True
        self.release()

    def _started(self) -> Confined:
        if self._is_closed:
            raise HloError("the session has ended", notes=("open the class link again",))
        if self._process is None:
            self._process = self._forks.fork("work", limits.WORK_LIMITS)
        return self._process


def checked(forks: Forks, slots: Slots, lesson: Lesson, answer: object) -> dict[str, Any]:
    """Check the Python text `answer` in a confined process of its own, as `hloc learn check` does.

    The result is untrusted: the student's Python runs in the process that writes it.

    Raises:
        HloError: it is not a text, is too long, or cannot be checked.
    """
    if not isinstance(answer, str) or len(answer.encode(errors="replace")) > ANSWER_BYTES:
        raise HloError(f"an answer is a text of at most {ANSWER_BYTES >> 10} KiB")
    with slots.held():
        process = forks.fork("answer", limits.ANSWER_LIMITS)
        try:
            found = process.ask({"lesson": lesson.name, "answer": answer}, limits.ANSWER_PATIENCE)
        except Stopped as fault:
            return _not_yet(f"{fault.message}\n{process.printed()}".strip())
        finally:
            process.close()
    return _report(found)


def _not_yet(why: str) -> dict[str, Any]:
    row = {"name": "the file runs", "ok": False, "text": shortened(why)}
    return {"passed": False, "score": 0, "findings": [row]}


def _report(found: Any) -> dict[str, Any]:
    """Return a report for the page, with checked types and bounded lengths."""
    try:
        if "fault" in found:
            return _not_yet(str(found["fault"]))
        rows = [
            {
                "name": shortened(str(row["name"])),
                "ok": row["ok"] is True,
                "text": shortened(str(row["text"])),
            }
            for row in found["findings"][:_MOST_FINDINGS]
        ]
        score = min(100, max(0, int(found["score"])))
    except (LookupError, TypeError, ValueError, OverflowError):
        return _not_yet("the process ended without a result")
    passed = bool(rows) and all(row["ok"] for row in rows)
    return {"passed": passed, "score": score if passed else 0, "findings": rows}
