"""docs/security.md names tests that exist, and limits as they are."""

import re
from pathlib import Path

from hloc.learn import sandbox
from hloc.learn.report import SHOWN_LETTERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_test_it_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert len(named) >= 13
    for name in named:
        assert re.search(r"^def test_", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_limits_of_a_students_file_are_those_of_the_checker() -> None:
    megabytes = sandbox._FILE_BYTES >> 20
    assert f"after {sandbox.CPU_SECONDS} s of processor time or {sandbox.WALL_SECONDS} s" in PAGE
    assert f"with {sandbox.MEMORY_BYTES >> 30} GiB of memory" in PAGE
    assert f"write {megabytes} MiB" in PAGE
    assert f"{SHOWN_LETTERS:,} characters" in PAGE


def test_readers_find_it() -> None:
    for page in ("README.md", "docs/architecture.md"):
        assert "security.md" in (ROOT / page).read_text(encoding="utf-8")
