"""Reports fit the terminal: a line that is too wide is broken at a word, not by the terminal."""

import io
import re
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.report.folding import folded

EXAMPLES = Path(__file__).parents[3] / "examples"
MODULE = str(EXAMPLES / "gpt_block.hlo")
SHARDED = str(EXAMPLES / "data_parallel_step.hlo")
STYLE = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


REPORTS = [
    ["--help"],
    ["run", "--help"],
    ["help", "passes"],
    ["explain", "fusion", "dot", "add-zero"],
    ["passes"],
    ["rules"],
    ["ops"],
    ["targets"],
    ["stats", MODULE],
    ["stats", MODULE, "--by=opcode"],
    ["verify", MODULE],
    ["diff", MODULE, SHARDED, "--color=always"],
    ["explain-sharding", SHARDED],
    [MODULE, "--memory"],
    [MODULE, "--remarks"],
    [MODULE, "--time-passes"],
    [MODULE, "--print-changed"],
    [MODULE, "--print-changed=diff"],
    [MODULE, "--print-changed=side"],
    [MODULE, "--trace-rewrites", "-o", "/dev/null"],
    ["run", MODULE, "--random", "--profile"],
]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "arguments", REPORTS, ids=lambda words: " ".join(Path(word).name for word in words)
)
def test_no_report_is_wider_than_the_terminal(
    arguments: list[str], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("COLUMNS", str(columns))
    main(arguments)
    lines = STYLE.sub("", out.getvalue() + err.getvalue()).splitlines()
    assert lines
    wide = [line for line in lines if len(line.rpartition("\r")[2]) > columns]
    assert not [line for line in wide if " " in line.strip()], "only one long word may be wider"


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    assert any(len(line) > 100 for line in capsys.readouterr().out.splitlines())


def test_the_rest_of_a_line_stands_under_its_last_column() -> None:
    assert folded("  name   some words that go on and on again", 40) == "\n".join(
        ["  name   some words that go on and on", "         again"]
    )
    assert folded("  + a = f32[2] add(long_name, longer_name)", 40) == "\n".join(
        ["  + a = f32[2] add(long_name,", "      longer_name)"]
    )


def test_styles_take_no_room_and_stay_with_their_words() -> None:
    red, end = "\x1b[31m", "\x1b[0m"
    line = f"{red}removed{end} one two three four"
    assert folded(line, 26) == line
    assert folded(line, 25) == f"{red}removed{end} one two three\n    four"


def test_a_path_stays_whole() -> None:
    path = "/a/path/that/is/longer/than/the/terminal/is/wide"
    assert folded(f"page: {path} is written", 30) == f"page:\n    {path}\n    is written"


def test_paragraphs_are_filled_anew() -> None:
    text = "  " + "word " * 12 + "\n  " + "next words of the same paragraph"
    filled = folded(text, 50, prose=True).split("\n")
    assert [len(line) <= 50 for line in filled] == [True] * len(filled)
    assert filled[1].startswith("  word")
    assert "next" in filled[1]
    assert folded("a: 1\nb: 2", 50, prose=True) == "a: 1\nb: 2"
