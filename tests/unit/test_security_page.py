"""docs/security.md names tests that exist, and limits as they are."""

import re
from pathlib import Path

from hloc.confinement.call_table import ALLOWED
from hloc.confinement.forked import SHORT_SECONDS
from hloc.learn import sandbox
from hloc.learn.report import SHOWN_LETTERS
from hloc.web.classroom import limits

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


def test_the_limits_of_a_class_are_those_of_its_pages() -> None:
    web = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")
    own = limits.WORK_LIMITS.file_bytes >> 20
    assert f"`/tmp` in memory, {own} MiB" in PAGE
    assert f"a folder of its own of {own} MiB" in web
    assert f"have to arrive in {limits.REQUEST_SECONDS:g} s" in PAGE
    for place, about in ((0, 130), (1, 110)):
        assert abs(sum(row[place] is not None for row in ALLOWED.values()) - about) < 5
    asked = f"{limits.MOST_ASKED}, and {limits.MOST_ASKED_TOGETHER} of the whole class"
    work = limits.WORK_PATIENCE
    memory = limits.WORK_LIMITS.memory_bytes >> 30
    assert work.cpu_seconds == limits.ANSWER_PATIENCE.cpu_seconds
    assert work.seconds == limits.ANSWER_PATIENCE.seconds
    assert f"| {asked} |" in web
    assert (
        f"{work.cpu_seconds:g} s of processor time, {work.seconds:g} s, {memory} GiB; after "
        f"{SHORT_SECONDS:g} s it gives way" in web
    )
    assert f"| {limits.CHECK_PATIENCE.cpu_seconds:g} s of processor time |" in web
    assert f"| {limits.TEXT_BYTES >> 20} MiB of text |" in web
    assert f"waits up to {limits.WAIT_SECONDS:g} s for its turn" in web
    assert f"idle for {limits.SESSION_SECONDS / 60:g} minutes ends" in web


def test_readers_find_it() -> None:
    for page in ("README.md", "docs/architecture.md"):
        assert "security.md" in (ROOT / page).read_text(encoding="utf-8")
