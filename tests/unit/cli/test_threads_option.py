"""`--threads`, HLOC_NUM_THREADS, and where the number of threads is shown."""

from pathlib import Path

import pytest

from hloc.cli import main

LARGE = """HloModule m
ENTRY e {
  x = f32[500,800] parameter(0)
  ROOT y = f32[500,800] cosine(x)
}"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HLOC_NUM_THREADS", raising=False)
    (tmp_path / "large.hlo").write_text(LARGE)
    (tmp_path / "small.hlo").write_text(LARGE.replace("500,800", "5,8"))
    return tmp_path


def said(capsys: Capture, *words: str) -> str:
    assert main(["run", *words, "--repeat=1", "--print-output=0"]) == 0
    return capsys.readouterr().err


def test_the_line_of_a_run_names_more_than_one_thread(capsys: Capture) -> None:
    assert " over 1 run on 3 threads" in said(capsys, "large.hlo", "--threads=3")
    assert "threads" not in said(capsys, "large.hlo", "--threads=1")
    assert "threads" not in said(capsys, "small.hlo", "--threads=3")


def test_the_variable_speaks_where_the_option_does_not(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HLOC_NUM_THREADS", "2")
    assert "on 2 threads" in said(capsys, "large.hlo")
    assert "on 4 threads" in said(capsys, "large.hlo", "--threads=4")
    monkeypatch.setenv("HLOC_NUM_THREADS", "two")
    assert main(["run", "large.hlo"]) != 0
    assert "HLOC_NUM_THREADS must be a number of threads" in capsys.readouterr().err


def test_doctor_shows_the_number(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOC_NUM_THREADS", "3")
    assert main(["doctor"]) == 0
    assert "threads         3 share a large kernel, of " in capsys.readouterr().out
    monkeypatch.setenv("HLOC_NUM_THREADS", "three")
    assert main(["doctor"]) != 0
    assert "fault threads " in capsys.readouterr().out


def test_wrong_numbers(capsys: Capture) -> None:
    assert main(["run", "large.hlo", "--threads=-1"]) == 2
    assert "expected a whole number" in capsys.readouterr().err
