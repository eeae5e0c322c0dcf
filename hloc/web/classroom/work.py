"""The handlers of a classroom's confined processes: questions about modules, answers to lessons.

The fork server runs `prepare`, which imports and warms up everything, so that a new process is
ready at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from hloc.confinement.file_tree import OWN_FOLDER
from hloc.confinement.fork_server import Handler, serve
from hloc.framing import read_message, write_message
from hloc.web.classroom.limits import ANSWER_LIMITS, WORK_LIMITS
from hloc.web.questions import ASKED, read_question

_WARMING = """HloModule warming
ENTRY main {
  x = f32[4,4]{1,0} parameter(0)
  y = f32[4,4]{1,0} negate(x)
  z = f32[4,4]{1,0} negate(y)
  ROOT d = f32[4,4]{1,0} dot(z, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
_TEXTS = (_WARMING.replace("{1,0}", "{1,0:T(4,4)}"), _WARMING.replace("dot", "dat"))
"""The first has tiles in layouts, which load the grammar; the second has an error."""

_LESSON = "algebra"
"""A lesson whose reference answer registers rules."""


def main() -> None:
    """Run the fork server of a classroom."""
    serve(prepare)


def prepare() -> dict[str, Handler]:
    """Return the handlers, after importing all that they need."""
    from hloc.codegen.gpu.worker import compile_in_this_process
    from hloc.learn.catalogue import find_lesson
    from hloc.learn.sandbox import report_table
    from hloc.opt.registry import forget_registered

    compile_in_this_process()
    warm_up()
    lesson = find_lesson(_LESSON)
    report_table(lesson, str(lesson.folder / "reference.py"), ANSWER_LIMITS.memory_bytes)
    forget_registered()
    return {"work": _work, "answer": _answer}


def warm_up() -> list[dict[str, Any]]:
    """Ask every question once; return the answers, those to a faulty text last."""
    answerer = _answerer()
    fields = {"text": _WARMING, "other": _WARMING, "state": 1}
    questions = [{"ask": asked, **fields} for asked in ASKED]
    questions += [{"ask": "check", "text": text} for text in _TEXTS]
    return [answerer.answer(read_question(question)) for question in questions]


def _answerer() -> Any:
    from hloc.web.answers import Answerer
    from hloc.web.walks import Walks
    from repl.in_process import InProcess
    from repl.session import Session

    return Answerer(Walks(new_session=lambda: Session(child=InProcess())))


def _work(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer the questions of a page about modules."""
    from hloc.web.worker import answer_questions

    answer_questions(questions, answers, _answerer().answer, WORK_LIMITS.memory_bytes)


def _answer(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Check one answer to the exercise of a lesson: run a student's Python."""
    from hloc.learn.catalogue import find_lesson
    from hloc.learn.sandbox import report_table

    question, _ = read_message(questions)
    path = Path(OWN_FOLDER, "exercise.py")
    path.write_text(question["answer"], encoding="utf-8", errors="replace")
    lesson = find_lesson(question["lesson"])
    write_message(answers, report_table(lesson, str(path), ANSWER_LIMITS.memory_bytes))
