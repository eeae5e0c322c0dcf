"""Answers to the exercises of lessons, checked for the page of `hloc web`."""

from pathlib import Path

import pytest

from hloc.learn.catalogue import find_lesson, read_progress
from hloc.web.lessons import checked, lesson_data


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloc.learn.catalogue.state_folder", lambda: tmp_path)


def test_the_skeleton_is_not_yet_an_answer() -> None:
    lesson = find_lesson("1")
    report = checked(lesson, lesson_data(lesson)["exercise"])
    assert not report["passed"]
    assert [row["ok"] for row in report["findings"][:3]] == [True, True, False]
    assert report["findings"][2]["text"] == "no answer yet"
    assert read_progress() == {}


def test_a_right_answer_passes_and_is_remembered() -> None:
    lesson = find_lesson("1")
    report = checked(lesson, lesson.read("reference.py"))
    assert (report["passed"], report["score"]) == (True, 100)
    assert read_progress() == {lesson.name: 100}


def test_an_answer_that_ends_its_process_gets_a_message() -> None:
    report = checked(find_lesson("1"), '"""It ends."""\nimport os\nos._exit(3)\n')
    assert report["findings"][0]["name"] == "the file runs"
    assert "ended without a result" in report["findings"][0]["text"]
