"""`hloc learn` from the outside."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.learn.catalogue import find_lesson, read_progress
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_list_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "      1. What a program is"
    assert len([line for line in lines if line[6:7].isdigit()]) == 14
    lesson = find_lesson("1")
    assert main(["learn", "check", "1", str(lesson.folder / "reference.py")]) == 0
    assert read_progress() == {"programs": 100}
    capsys.readouterr()
    main(["learn"])
    assert capsys.readouterr().out.splitlines()[0] == "✓ 100 1. What a program is"


def test_a_lesson_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("6", "06", "algebra", "06-algebra"):
        assert main(["learn", word]) == 0
        assert capsys.readouterr().out.startswith("# 6. Algebra, and its traps\n")
    assert main(["learn", "15"]) == 1
    assert "there is no lesson '15'" in capsys.readouterr().err


def test_many_answers_are_checked_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    lesson = find_lesson("2")
    files = [str(lesson.folder / name) for name in ("reference.py", "wrong.py")]
    assert main(["learn", "check", "2", *files, "--format=json"]) == 1
    found = capsys.readouterr()
    assert [row["passed"] for row in json.loads(found.out)] == [True, False]
    assert read_progress() == {}  # those of a whole class are nobody's own


def test_export_and_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "x.html"
    assert main(["learn", "export", "5", "-o", str(page)]) == 0
    assert "The same value twice" in page.read_text()
    folder = tmp_path / "mine"
    assert main(["learn", "new", str(folder)]) == 0
    assert main(["learn", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("Check it with `hloc learn check mine exercise.py`.\n")


@pytest.mark.parametrize(
    "words", [["check"], ["check", "1"], ["new"], ["export", "1"], ["1", "2"]], ids=" ".join
)
def test_wrong_usage_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", *words]) == 2
    assert "expected: learn" in capsys.readouterr().err


def test_a_script_runs_in_the_repl() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "hloc", "learn", "9", "--script"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "apply transpose-folding" in found.stdout
    assert "layouts: 9 instructions" in found.stdout
