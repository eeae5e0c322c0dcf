"""Numbers are written for people, and text from files cannot command the terminal."""

import io
from collections.abc import Mapping

import pytest

from hloc.quantities import count_text, duration, size_text
from hloc.report.text import Paint, plural, wants_color


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2e-6, "2.0 us"),
        (2.1e-4, "0.21 ms"),
        (0.0123, "12.3 ms"),
        (0.412, "412 ms"),
        (3.2, "3.20 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (712, "712 B"), (131072, "128 KiB"), (1258291, "1.2 MiB")]
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_counts() -> None:
    assert count_text(17e6, "FLOP") == "17.0 MFLOP"
    assert count_text(12, "FLOP") == "12 FLOP"
    assert [plural(n, "pass") for n in (0, 1, 2000)] == ["0 passes", "1 pass", "2,000 passes"]
    assert [plural(n, "index") for n in (1, 2)] == ["1 index", "2 indexes"]


@pytest.mark.parametrize(
    ("when", "environment", "expected"),
    [
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
        ("auto", {}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"CLICOLOR_FORCE": "1"}, True),
        ("auto", {"CLICOLOR_FORCE": "0"}, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_is_decided(when: str, environment: Mapping[str, str], expected: bool) -> None:
    assert wants_color(when, io.StringIO(), environment) is expected


def test_paint_leaves_text_alone_when_off() -> None:
    assert Paint(False).bad("x") == "x"
    assert Paint(True).good("x") == "\x1b[32mx\x1b[0m"
    assert [Paint(True).diff_line(line)[:1] for line in ("+a", "-a", " a")] == ["\x1b", "\x1b", " "]
