"""Diagnostics show place, line and caret, and never hand control characters to a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

import hloc
from hloc.errors import Diagnostic, HloError, printable, reason_of
from hloc.source import SourceFile, Span


def test_a_diagnostic_points_at_its_place() -> None:
    source = SourceFile("HloModule m\n  x = f32[] add(a, b)\n", "m.hlo")
    start = source.text.index("b)")
    fault = Diagnostic(
        "no instruction named 'b'", Span(source, start, start + 1), ("try 'a'",), "X1"
    )
    assert fault.render().splitlines() == [
        "m.hlo:2:20: error[X1]: no instruction named 'b'",
        "    2 |   x = f32[] add(a, b)",
        "      |                    ^",
        "note: try 'a'",
    ]


def test_long_lines_are_cut_around_the_place() -> None:
    source = SourceFile("a" * 5000 + "!" + "b" * 5000)
    lines = Diagnostic("stray", Span(source, 5000, 5001)).render().splitlines()
    assert all(len(line) < 200 for line in lines)
    assert lines[1][lines[2].index("^")] == "!"


def test_control_characters_are_shown_as_question_marks() -> None:
    source = SourceFile("ab\x1b[31mcd\x00")
    text = Diagnostic("odd", Span(source, 2, 3)).render()
    assert "\x1b" not in text
    assert "\x00" not in text


def test_the_end_of_the_text_is_a_place() -> None:
    for text in ("", "\n", "x"):
        source = SourceFile(text)
        assert "^" in Diagnostic("cut off", Span(source, len(text), len(text))).render()


def test_an_error_lists_all_its_diagnostics() -> None:
    error = HloError([Diagnostic("one"), Diagnostic("two")])
    assert str(error) == "error: one\nerror: two"
    assert error.message == "one"


def test_text_from_files_cannot_command_the_terminal() -> None:
    assert printable("a\x1b[31mb\x07\u202ec\td") == "a?[31mb??c d"


def test_what_the_system_says_reads_like_every_message() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Path("/no/such/file").read_text()
    assert reason_of(caught.value) == "no such file or directory"
    assert reason_of(OSError("Odd")) == "odd"


def test_quoted_words_are_cut_in_the_middle() -> None:
    digits = "1" * 5000
    shown = Diagnostic(f"value {digits} is out of range").render()
    assert len(shown) < 200
    assert shown.startswith("error: value 111")
    assert shown.endswith("111 is out of range")


def test_a_byte_order_mark_is_named() -> None:
    with pytest.raises(HloError, match="byte-order mark"):
        hloc.parse("\ufeffHloModule m\nENTRY e { ROOT a = s32[] constant(1) }")
