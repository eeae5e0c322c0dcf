"""Lines and columns of a text, and what finding them costs."""

import tracemalloc

import pytest

from hloc.source import SourceFile

LONG = "a" * 5000 + "\n" + "b" * 4095 + "\n\n" + "c\n" * 1000
"""Lines that are longer than a block of the table, that end with one, and short ones."""


@pytest.mark.parametrize("text", ["", "a", "\n", "a\nb", LONG, "\n" * 4100, "\n" + LONG])
def test_every_place_has_its_line_and_column(text: str) -> None:
    source = SourceFile(text)
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        assert source.line_text(number) == line
        for column in {0, len(line) // 2, len(line)}:
            assert source.line_column(at + column) == (number, column + 1)
        at += len(line) + 1


def test_a_file_of_empty_lines_takes_no_more_memory_than_others() -> None:
    source = SourceFile("\n" * (1 << 20))
    tracemalloc.start()
    assert source.line_column(1 << 19) == ((1 << 19) + 1, 1)
    assert source.line_text(1 << 19) == ""
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 16, "a number for each line would take 40 MB"
