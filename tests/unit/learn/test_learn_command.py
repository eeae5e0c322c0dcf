"""`hloc learn` from the outside."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.learn.catalogue import find_lesson, read_progress
from tests.repl.pseudo_terminal import terminal
from tests.unit.learn.transcripts import wrong_answer
from tests.waiting import PATIENCE

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_list_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "      1. What a program is"
    assert len([line for line in lines if line[6:7].isdigit()]) == 16
    lesson = find_lesson("1")
    assert main(["learn", "check", "1", str(lesson.folder / "reference.py")]) == 0
    assert read_progress() == {"programs": 100}
    capsys.readouterr()
    main(["learn"])
    assert capsys.readouterr().out.splitlines()[0] == "✓ 100 1. What a program is"


def test_list_is_the_word_for_the_list(capsys: Capture) -> None:
    assert main(["learn"]) == 0
    listed = capsys.readouterr().out
    assert main(["learn", "list"]) == 0
    assert capsys.readouterr().out == listed
    assert main(["learn", "list", "3"]) == 2
    capsys.readouterr()
    assert main(["learn", "lsit"]) == 1
    assert "did you mean 'list'?" in capsys.readouterr().err


def test_a_lesson_is_copied_to_work_in_and_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "start", "3"]) == 0
    folder = tmp_path / "03-dead-code"
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["effects.hlo", "exercise.py", "input.hlo", "lesson.md"]
    said = capsys.readouterr().err.splitlines()
    assert said[1:] == [
        "write your answer in 03-dead-code/exercise.py, then: "
        "hloc learn check 3 03-dead-code/exercise.py",
        "open the module with: hlo-repl 03-dead-code/input.hlo",
    ]
    (folder / "exercise.py").write_text("my answer")
    (folder / "effects.hlo").unlink()
    assert main(["learn", "start", "3"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        "03-dead-code: effects.hlo",
        "kept as they are: exercise.py, input.hlo, lesson.md",
    ]
    assert (folder / "exercise.py").read_text() == "my answer"


def test_where_a_lesson_is_copied_can_be_said(tmp_path: Path, capsys: Capture) -> None:
    assert main(["learn", "start", "algebra", "-o", str(tmp_path / "my work")]) == 0
    assert (tmp_path / "my work" / "exercise.py").is_file()
    assert f"'{tmp_path}/my work/exercise.py'" in capsys.readouterr().err
    assert main(["learn", "start"]) == 2
    assert main(["learn", "start", "3", "-o", "/proc/nowhere"]) == 1
    assert "cannot write /proc/nowhere" in capsys.readouterr().err


def test_on_a_terminal_the_text_is_set_and_hlo_repl_opened(tmp_path: Path) -> None:
    with terminal(["learn", "3"], tmp_path, program="hloc") as screen:
        screen.finish()
        assert "```" not in screen.screen.text()
    with terminal(["learn", "start", "3"], tmp_path, program="hloc") as screen:
        screen.wait_for("dead_code s0› ")
        screen.send("quit\r")
        assert screen.finish() == 0


def test_a_lesson_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("6", "06", "algebra", "06-algebra"):
        assert main(["learn", word]) == 0
        assert capsys.readouterr().out.startswith("# 6. Algebra, and its traps\n")
    assert main(["learn", "99"]) == 1
    assert "there is no lesson '99'" in capsys.readouterr().err


def test_many_answers_are_checked_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    lesson = find_lesson("2")
    files = [str(lesson.folder / "reference.py"), str(wrong_answer(lesson))]
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
def test_wrong_usage_is_reported(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
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
