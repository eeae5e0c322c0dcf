"""Every lesson: commands run, the text shows what they print, answers are judged rightly."""

import re
import tomllib
from pathlib import Path

import pytest

from hloc.learn.catalogue import Lesson, all_lessons
from hloc.learn.check import check_file
from hloc.learn.document import MACHINE, Cell, Commands, read_cells, write_cells
from hloc.learn.plan import read_plan
from tests.unit.learn.transcripts import run_cells, script_of, wrong_answer

LESSONS = all_lessons()
FILES = (
    "lesson.md",
    "input.hlo",
    "script.hlor",
    "exercise.py",
    "reference.py",
    "check.toml",
)

WRONG = {
    1: "['total'] is not it\nusers are the instructions that name it as an operand",
    2: "1.0 is not it\none NaN makes the result NaN",
    3: "ops.custom-call is 0, wanted >= 1",
    4: "constants.bytes is 1,048,576, wanted <= 65,536",
    5: "pass my-cse, changes the answer:\n  - b = f32[4] slice(x), slice={[4:8]}",
    6: "out0[1] is 0.0, was -0.0",
    7: "loop.bytes is 16,392, wanted <= 2,048",
    8: "rule tanh-by-exponential (08-decomposition.py:7), changes the answer",
    9: "rule left-transpose (09-layouts.py:12), changes the answer",
    10: "cost.transcendentals is 512, wanted <= 256",
    11: "peak is 98,560, wanted <= 17,664",
    12: "rule reverse-reverse (12-hunting.py:21), changes the answer",
    13: "605 is not it",
    14: "5 is not it\nits place in the list {1,3,5,7}, from 0",
    15: "is not it\nthe next value of the counter goes where the old one was",
    16: "pass my-barriers, changes the answer",
}
"""What the checker says of the files in `wrong/`: rewrite, number or counter-example."""


def lesson_id(lesson: Lesson) -> str:
    return lesson.folder.name


def comparable(cells: list[Cell]) -> str:
    """Return the text of `cells` without what depends on the machine."""
    kept = [
        Commands(cell.language, tuple((command, "") for command, _ in cell.steps))
        if isinstance(cell, Commands) and cell.language == MACHINE
        else cell
        for cell in cells
    ]
    return write_cells(kept)


def test_the_lessons_are_numbered_and_have_all_files() -> None:
    assert [lesson.number for lesson in LESSONS] == list(range(1, 17))
    for lesson in LESSONS:
        assert [file for file in FILES if not lesson.has(file)] == [], lesson.name


@pytest.mark.parametrize("lesson", LESSONS, ids=lesson_id)
def test_the_text_shows_what_the_commands_print(
    lesson: Lesson, tmp_path: Path, update_golden: bool
) -> None:
    """`--update-golden` writes the outputs anew, and script.hlor from the commands."""
    written = read_cells(lesson.read("lesson.md"))
    run = run_cells(written, lesson.folder, tmp_path / "lesson")
    if update_golden:
        (lesson.folder / "lesson.md").write_text(write_cells(run), encoding="utf-8")
        (lesson.folder / "script.hlor").write_text(script_of(lesson), encoding="utf-8")
    assert comparable(run) == comparable(written) or update_golden
    assert lesson.read("script.hlor") == script_of(lesson)


@pytest.mark.parametrize("lesson", LESSONS, ids=lesson_id)
def test_the_text_teaches(lesson: Lesson) -> None:
    text = lesson.read("lesson.md")
    prose = [line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines() if line]
    assert len(prose) >= 30
    assert text.startswith(f"# {lesson.number}. ")
    assert f"hloc learn check {lesson.number} exercise.py" in text
    assert "question" in text.rpartition("## Exercise")[2]
    assert max(len(line) for line in prose) <= 110


@pytest.mark.parametrize("lesson", LESSONS, ids=lesson_id)
def test_the_reference_passes(lesson: Lesson) -> None:
    report = check_file(lesson, str(lesson.folder / "reference.py"))
    assert report.passed, [f for f in report.findings if not f.ok]
    assert report.score == 100


@pytest.mark.parametrize("lesson", LESSONS, ids=lesson_id)
def test_a_wrong_answer_gets_a_reason(lesson: Lesson) -> None:
    report = check_file(lesson, str(wrong_answer(lesson)))
    assert not report.passed
    assert report.score == 0
    said = "\n".join(finding.text for finding in report.findings if not finding.ok)
    assert WRONG[lesson.number] in said


@pytest.mark.parametrize("lesson", LESSONS, ids=lesson_id)
def test_the_skeleton_loads_and_does_not_pass(lesson: Lesson) -> None:
    report = check_file(lesson, str(lesson.folder / "exercise.py"))
    assert report.findings[0].ok, report.findings[0].text
    assert report.findings[1].ok
    assert not report.passed


@pytest.mark.parametrize("lesson", LESSONS, ids=lesson_id)
def test_what_fails_comes_with_a_hint(lesson: Lesson) -> None:
    table = tomllib.loads(lesson.read("check.toml"))
    rows = table.get("module", []) + table.get("question", [])
    assert sum("hint" in row for row in rows) >= len(rows) / 3
    assert read_plan(lesson).kind in ("pass", "answers", "schedule")
