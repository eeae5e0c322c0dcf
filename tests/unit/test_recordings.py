"""Recorded sessions of `hloc web`: what they hold, and that the site leads to them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.generators import recordings
from docs.generators.recordings import key_of, sessions

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("recordings")
    recordings.write(found)
    return found


def recording(folder: Path, name: str) -> Any:
    text = (folder / name / "recording.js").read_text()
    return json.loads(text.removeprefix("globalThis.recording = ").removesuffix(";\n"))


def test_every_file_that_a_page_names_is_there_and_all_are_small(folder: Path) -> None:
    for session in sessions():
        top = folder / session.name
        page = (top / "index.html").read_text()
        names = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert len(names) > 8
        assert not [name for name in names if not (top / name).is_file()]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2 << 20


def test_no_answer_is_a_fault_and_every_drawing_is_there(folder: Path) -> None:
    for session in sessions():
        found = recording(folder, session.name)["answers"]
        for answer in found.values():
            assert "faults" not in answer or "rows" in answer
            assert (folder / session.name / answer.get("frame", "index.html")).is_file()
        walk = found[key_of({"ask": "walk"})]
        made = [row["state"] for row in walk["passes"] if row["state"]]
        assert made
        for state in made:
            assert key_of({"ask": "state", "state": state}) in found
            assert key_of({"ask": "graph", "state": state}) in found


def test_the_lesson_is_failed_and_passed(folder: Path) -> None:
    found = recording(folder, "lesson")["answers"]
    passed = [answer["passed"] for key, answer in found.items() if key.startswith("check ")]
    assert sorted(passed) == [False, True]


def test_the_pages_have_a_place_for_the_links() -> None:
    for name in ("web.md", "teaching.md"):
        assert recordings.LINKS in (DOCS / name).read_text()
    assert recordings.links().count("recordings/") == len(sessions())
