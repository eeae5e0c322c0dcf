"""Recorded sessions of `hloc web` for the documentation site: its page, with no server behind it.

Each is a folder: the page as it is, `recording.js` with the answers of a real run to every question
about the states of one program, and the drawings. `player.js` answers the page from the recording
and leads through it, step by step.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from importlib.resources import as_file, files
from os import environ
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hloc.lazy_dataclass import dataclass
from hloc.learn.catalogue import find_lesson
from hloc.web.answers import Answerer
from hloc.web.highlighting import highlighting
from hloc.web.lessons import checked, lesson_data
from hloc.web.questions import DEFAULTS, read_question

ROOT = Path(__file__).resolve().parents[2]
PLAYER = ROOT / "docs" / "site" / "recording"
PIPELINE = "-O2"

LINKS = "<!-- recorded sessions -->"
"""Stands in a page where the list of sessions comes."""

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a session.

    Attributes:
        say: what there is to see.
        do: clicks, as selectors, and fields to fill in, as selector and text, in order.
        shows: a selector and words that stand there when the step is done.
    """

    say: str
    do: tuple[str | tuple[str, str], ...]
    shows: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Session:
    """A recorded session; `lesson` is the number of the lesson whose module it opens, or ""."""

    name: str
    title: str
    path: Path
    steps: tuple[Step, ...]
    lesson: str = ""


def _state(number: int) -> str:
    return f'#steps [data-state="{number}"]'


def _view(name: str) -> str:
    return f'#tabs [data-view="{name}"]'


def sessions() -> tuple[Session, ...]:
    """Return what is recorded."""
    first = find_lesson("1")
    answer, check = "#view .answer", "#view .bar button"
    return (
        Session(
            "fusion",
            "A softmax is simplified and fused",
            ROOT / "examples" / "softmax_relu.hlo",
            (
                Step(
                    "A softmax, as JAX wrote it. In the middle: what the passes of -O2 change.",
                    (_state(0), _view("diff")),
                    ("#title", "input"),
                ),
                Step(
                    "The third pass simplifies. Each rule that fired has its law and its proof; "
                    "the diff names the rule at each row.",
                    (_state(3), _view("diff")),
                    ("#view .by", "reshape-reshape"),
                ),
                Step(
                    "Its single rewrites stand below the pass. "
                    "This one removes a maximum with the lowest number.",
                    (_state(3), '#steps [data-rewrite="3"]', _view("diff")),
                    ("#title", "3+3"),
                ),
                Step(
                    "Fusion: instructions move into the bodies of kernels, "
                    "so that less memory is written and read.",
                    (_state(6), _view("diff")),
                    ("#title", "fusion"),
                ),
                Step(
                    "The same as a graph: what was removed is dashed, what was changed is marked.",
                    (_state(6), _view("graph")),
                    ("#title", "fusion"),
                ),
                Step(
                    "The last state, run and compared with the input: the answers agree.",
                    (_state(8), _view("run"), "#view .bar button:nth-of-type(2)"),
                    ("#view .verdict", "≡"),
                ),
            ),
        ),
        Session(
            "lesson",
            "A lesson is read, and its exercise checked",
            first.folder / "input.hlo",
            (
                Step(
                    "Lesson 1: its text above, and below it the exercise, in Python.",
                    (_view("lesson"),),
                    ("#view .bar", "Check"),
                ),
                Step(
                    "As it stands, the exercise has no answers. Check says what is missing.",
                    (_view("lesson"), (answer, first.read("exercise.py")), check),
                    ("#view .verdict", "Not yet"),
                ),
                Step(
                    "With answers, all checks pass.",
                    (_view("lesson"), (answer, first.read("reference.py")), check),
                    ("#view .verdict", "Passed"),
                ),
                Step(
                    "The module of a lesson is walked through as any other.",
                    (_view("diff"), _state(1)),
                    ("#title", "1"),
                ),
            ),
            lesson="1",
        ),
    )


def links() -> str:
    """Return the list of sessions for a page at the top of the site."""
    return "\n".join(f"- [{s.title}](recordings/{s.name}/index.html)" for s in sessions())


def write(folder: Path) -> None:
    """Write all sessions into folders of their names in `folder`."""
    for session in sessions():
        record(session, folder / session.name)


def record(session: Session, folder: Path) -> None:
    """Run `session`, and write the page with its recording into `folder`."""
    with as_file(files("hloc.web") / "page") as page:
        shutil.copytree(page, folder / "page")
    for file in PLAYER.iterdir():
        shutil.copy(file, folder / "page")
    index = folder / "page" / "index.html"
    head = '<script src="recording.js"></script>\n<script src="page/player.js"></script>\n'
    head += '<link rel="stylesheet" href="page/player.css">\n'
    (folder / "index.html").write_text(index.read_text().replace("</head>", head + "</head>"))
    index.unlink()
    recorder = _Recorder(session, folder)
    recording = {
        "title": session.title,
        "text": recorder.text,
        "defaults": DEFAULTS,
        "steps": [{"say": s.say, "do": s.do, "shows": s.shows} for s in session.steps],
        "answers": recorder.answers(),
    }
    text = json.dumps(recording, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    (folder / "recording.js").write_text(f"globalThis.recording = {text};\n")


class _Recorder:
    """Asks all questions about the states of a program, and keeps their answers by key."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._session, self._folder = session, folder
        self._answerer = Answerer()
        self.text = session.path.read_text()
        (folder / "drawing").mkdir()

    def answers(self) -> dict[str, Data]:
        """Return what the server would answer, by address or by the fields of a question."""
        lesson = bool(self._session.lesson)
        program = {"title": self._session.path.name, "group": "Files", "lesson": lesson}
        if lesson:
            found = find_lesson(self._session.lesson)
            program |= {"title": found.title, "group": "Lessons"}
        start = {"programs": [{**program, "replayed": False}], "highlighting": highlighting()}
        return {
            "start": start,
            "programs/0": {"text": self.text},
            **self._asked({"ask": "check"}),
            **self._walk(),
            **self._lesson(),
        }

    def _walk(self) -> dict[str, Data]:
        """Return the answers on every state and rewrite, once all passes have run."""
        whole = self._answer({"ask": "walk"})
        while not whole["done"]:
            rows = whole["passes"]
            whole = self._answer({"ask": "walk", "known": len(rows)})
            whole["passes"] = rows + whole["passes"]
        found = {key_of({"ask": "walk"}): whole}
        rewrites = {row["state"]: row["rewrites"] for row in whole["passes"] if row["state"]}
        for state in (0, *rewrites):
            found |= self._state(state)
            for rewrite in range(1, rewrites.get(state, 0) + 1):
                found |= self._asked({"ask": "state", "state": state, "rewrite": rewrite})
                found |= self._asked({"ask": "text", "state": state, "rewrite": rewrite})
        last = {"state": max(rewrites, default=0)}
        return {
            **found,
            **self._asked({"ask": "run", **last}),
            **self._asked({"ask": "verify", **last}),
        }

    def _state(self, number: int) -> dict[str, Data]:
        """Return what the page asks about a state, as far as no machine has a say in it."""
        questions: list[Data] = [
            {"ask": "state", "state": number},
            {"ask": "state", "state": number, "whole": True},
            {"ask": "text", "state": number, "form": "hlo"},
            {"ask": "text", "state": number, "form": "schedule"},
            *({"ask": what, "state": number} for what in ("cost", "memory", "graph")),
        ]
        if number:
            questions.append({"ask": "rewrites", "state": number})
        return {key: row for asked in questions for key, row in self._asked(asked).items()}

    def _lesson(self) -> dict[str, Data]:
        """Return the lesson, and the checks of the answers that the steps fill in."""
        if not self._session.lesson:
            return {}
        lesson = find_lesson(self._session.lesson)
        found = {"programs/0/lesson": self._framed("lesson", lesson_data(lesson))}
        answers = {text for step in self._session.steps for _, text in _filled(step)}
        with tempfile.TemporaryDirectory() as state, patch.dict(environ, XDG_STATE_HOME=state):
            return found | {f"check {text}": checked(lesson, text) for text in sorted(answers)}

    def _asked(self, question: Data) -> dict[str, Data]:
        name = "-".join(str(value) for value in question.values())
        return {key_of(question): self._framed(name, self._answer(question))}

    def _answer(self, question: Data) -> Data:
        asked = {"text": self.text, "pipeline": PIPELINE, **question}
        return self._answerer.answer(read_question(asked))

    def _framed(self, name: str, answer: Data) -> Data:
        """Return an answer whose page, if it has one, is a file beside the recording."""
        if "html" not in answer:
            return answer
        path = self._folder / "drawing" / f"{name}.html"
        path.write_text(answer.pop("html"))
        return {**answer, "frame": f"drawing/{path.name}"}


def _filled(step: Step) -> Iterator[tuple[str, str]]:
    for action in step.do:
        if not isinstance(action, str):
            yield action


def key_of(question: Data) -> str:
    """Return the fields of a question but its text, in a form that `player.js` makes as well."""
    fields = {**DEFAULTS, "pipeline": PIPELINE, **question}
    values = [fields[name] for name in sorted(fields) if name != "text"]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))
