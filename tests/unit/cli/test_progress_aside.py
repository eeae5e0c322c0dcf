"""A line of progress never gets between the parts of a message, however long its writing takes."""

import io
import threading

import pytest

from hloc.cli.progress import progress_of
from hloc.cli.talk import Talk
from tests.waiting import PATIENCE


class Slow(io.StringIO):
    """A terminal on which every message takes until a tick of the progress has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.ticked = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "message" not in text:
            self.ticked.set()
            return super().write(text)
        half = len(text) // 2
        self.ticked.clear()
        super().write(text[:half])
        self.ticked.wait(0.2)  # two ticks: enough for a line to come between
        return super().write(text[half:])


def test_no_line_of_progress_within_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloc.report.progress._PATIENCE", 0.0)
    monkeypatch.setattr("hloc.report.progress._TICK", 0.01)
    err = Slow()
    talk = Talk(err=err)
    progress = progress_of(talk, "working")
    with progress.running():
        assert err.ticked.wait(PATIENCE)  # the line is drawn
        talk.say("a message of several words")
        err.ticked.clear()
        assert err.ticked.wait(PATIENCE)  # and comes back
    assert "a message of several words\n" in err.getvalue()
