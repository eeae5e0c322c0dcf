"""The line of progress: bar, count and estimate, on a terminal only."""

import io
import threading

import pytest

from hloc.report.progress import Progress
from tests.waiting import wait_until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_known_totals_show_a_bar_a_count_and_an_estimate() -> None:
    progress = Progress()
    progress.begin("verify s0 s1", 24)
    progress.done, progress.detail = 6, "normal, seed 2"
    line = progress.line(3.0, 100)
    assert line == f"verify s0 s1  {'━' * 6}{'─' * 18} 6/24  3.0 s, about 9 s left  normal, seed 2"
    assert progress.line(3.0, 20) == line[:20]
    assert "left" not in progress.line(1.0, 100), "too early for an estimate"
    progress.done = 30
    assert f"{'━' * 24} 24/24" in progress.line(3.0, 100)


def test_unknown_totals_show_the_time_only() -> None:
    progress = Progress()
    progress.begin("LLVM")
    assert progress.line(3.0, 100) == "LLVM  3.0 s"


def test_items_are_counted_and_inner_work_gives_the_line_back() -> None:
    progress = Progress()
    seen = []
    for item in progress.track("outer", ["a", "b"]):
        assert (progress.what, progress.detail, progress.total) == ("outer", item, 2)
        with progress.work("inner", 5):
            assert (progress.what, progress.done, progress.total) == ("inner", 0, 5)
        seen.append((item, progress.what, progress.done))
    assert seen == [("a", "outer", 0), ("b", "outer", 1)]
    assert (progress.what, progress.total) == ("", 0)


def test_inner_work_is_drawn_by_the_same_thread_and_messages_have_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hloc.report.progress._PATIENCE", 0.01)
    monkeypatch.setattr("hloc.report.progress._TICK", 0.01)
    stream = Terminal()
    progress = Progress(stream)
    with progress.work("outer"), progress.work("inner", 3):
        assert [t.name for t in threading.enumerate()].count("hloc-progress") == 1
        wait_until(lambda: "inner  ──" in stream.getvalue(), "the line is drawn")
        with progress.aside():
            before = stream.getvalue()
            assert before.endswith("\r\x1b[K"), "the line is taken away"
            stream.write("message\n")
        wait_until(lambda: len(stream.getvalue()) > len(before) + 8, "it is drawn again")
        assert "\r\x1b[Kmessage\n\r\x1b[Kinner" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
