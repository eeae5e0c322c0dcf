"""A lesson in the page: its text, the skeleton of its exercise, and the check of an answer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hloc.errors import HloError
from hloc.learn.catalogue import Lesson, remember
from hloc.learn.document import read_cells
from hloc.learn.page import html_page
from hloc.learn.sandbox import check_in_child
from hloc.web.limits import ANSWER_BYTES

_EXERCISE = "exercise.py"


def lesson_data(lesson: Lesson) -> dict[str, Any]:
    """Return the page of a lesson, and the skeleton of its answer."""
    cells = read_cells(lesson.read("lesson.md"))
    return {"html": html_page(cells, lesson.title), "exercise": lesson.read(_EXERCISE)}


def checked(lesson: Lesson, answer: object) -> dict[str, Any]:
    """Check the Python text `answer` as `hloc learn check` does, in a process with its limits.

    Raises:
        HloError: it is no text, or too long.
    """
    if not isinstance(answer, str):
        raise HloError("expected the text of an answer")
    data = answer.encode(errors="replace")
    if len(data) > ANSWER_BYTES:
        raise HloError(f"an answer has at most {ANSWER_BYTES >> 10} KiB")
    with tempfile.TemporaryDirectory(prefix="hloc-web-") as folder:
        path = Path(folder, _EXERCISE)
        path.write_bytes(data)
        report = check_in_child(lesson, str(path))
    if report.passed:
        remember(lesson, report.score)
    rows = [{"name": row.name, "ok": row.ok, "text": row.text} for row in report.findings]
    return {"passed": report.passed, "score": report.score, "findings": rows}
