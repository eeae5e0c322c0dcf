"""The transcripts of docs/repl.md, run for real on a pseudo-terminal.

Each is a file in tests/repl/transcripts: what a person types after the prompt `›` or `$`, and what
the terminal then shows. Times are written as TIME; `pytest --update-golden` writes the files anew.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repl.app import run_program
from tests.repl.pseudo_terminal import ROOT, PseudoTerminal, terminal

FOLDER = Path(__file__).parent / "transcripts"
TRANSCRIPTS = sorted(path.stem for path in FOLDER.glob("*.txt"))
_TIME = re.compile(r"\b\d+(?:\.\d+)? (?:ns|us|ms|s)\b")
_ERROR = re.compile(r"max \d+ (ulp, max error) [\d.e-]+")
_PASSES = re.compile(r"\d+ (other passes|runs of passes)")
_PLACE = re.compile(r"(\w+\.py):\d+")
_DOC = ROOT / "docs" / "repl.md"


def normalised(text: str) -> str:
    """Return `text` without times, line numbers, rounding errors and the number of passes."""
    text = _PASSES.sub(r"N \1", text)
    text = _ERROR.sub(r"max N \1 N", _PLACE.sub(r"\1:LINE", _TIME.sub("TIME", text)))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def commands_of(transcript: str) -> list[str]:
    """Return what is typed: the shell's line first, then one per prompt."""
    return [
        line.split("› ", 1)[1]
        for line in transcript.split("\n")
        if "› " in line and not line.startswith(" ")
    ]


def play(name: str, folder: Path) -> str:
    """Type a transcript in again and return what is on the screen."""
    text = (FOLDER / f"{name}.txt").read_text()
    first, *_ = text.split("\n")
    words = first.removeprefix("$ hlo-repl").split()
    for path in (ROOT / "examples" / "softmax_relu.hlo", *FOLDER.glob("*.hlo")):
        shutil.copy(path, folder)
    for path in FOLDER.glob("*.plugin"):  # Python as users write it, without types
        shutil.copy(path, folder / f"{path.stem}.py")
    with terminal(words, folder, {"PAGER": "cat"}) as screen:
        _wait_for_prompt(screen, -1)
        for line in commands_of(text):
            row = screen.screen.row
            screen.send(line + "\r")
            if line != "quit":
                _wait_for_prompt(screen, row)
        if not commands_of(text) or commands_of(text)[-1] != "quit":
            screen.send("quit\r")
        assert screen.finish() == 0
        assert not screen.screen.alternate, "what was printed must stay on the screen"
        lines = screen.screen.text().rstrip().split("\n")
    if commands_of(text)[-1] != "quit":
        lines = lines[:-1]
    return "\n".join([first, *(line.rstrip() for line in lines)]).rstrip() + "\n"


def _wait_for_prompt(screen: PseudoTerminal, after: int) -> None:
    """Wait until the cursor stands behind a prompt below line `after`."""
    for _ in range(600):
        assert screen.read(0.1), screen.screen.text()
        shown = screen.screen
        if shown.row > after and shown.row < len(shown.lines):
            line = "".join(shown.lines[shown.row])
            if line.find("› ") + 2 == shown.column > 1:
                return
    raise AssertionError(f"no prompt:\n{screen.screen.text()}")


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_transcript_is_what_the_terminal_shows(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = normalised(play(name, tmp_path))
    path = FOLDER / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(found + "\n")
    assert found == path.read_text().rstrip("\n")


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_manual_shows_the_transcripts(name: str) -> None:
    """docs/repl.md holds each transcript as it is; times may be real ones there."""
    assert normalised((FOLDER / f"{name}.txt").read_text()) in normalised(_DOC.read_text())


def test_the_first_commands_of_the_readme_lead_to_a_diff(tmp_path: Path) -> None:
    """A newcomer types the command of `Try it`, then opens the same module and asks for a diff."""
    readme = (ROOT / "README.md").read_text()
    command = re.search(r"\.venv/bin/hloc (\S+) (.*)", readme.partition("## Try it")[2])
    assert command is not None
    file, options = command[1], command[2].split()
    done = subprocess.run(
        [sys.executable, "-m", "hloc", file, *options],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "compare with interp: OK" in done.stdout + done.stderr
    with terminal([str(ROOT / file)], tmp_path, {"PAGER": "cat"}) as screen:
        screen.wait_for(" s0› ")
        _wait_for_prompt(screen, -1)
        for line, expected in (("apply algsimp", "s1 algebraic"), ("diff", "s0 → s1")):
            row = screen.screen.row
            screen.send(line + "\r")
            _wait_for_prompt(screen, row)
            assert expected in screen.screen.text()


def test_a_lesson_is_recorded_once_and_handed_out_as_a_page(tmp_path: Path) -> None:
    """The last transcript of the manual: prose and commands in, a page with real output out."""
    script = tmp_path / "lesson.hlor"
    module = ROOT / "examples" / "softmax_relu.hlo"
    script.write_text(f"# # What a simplifier does\nload {module}\napply algsimp\ndiff\n")
    for ending, words in ((".md", "# What a simplifier does"), (".html", "What a simplifier does")):
        page = tmp_path / f"lesson{ending}"
        assert run_program(["-x", str(script), "--export", str(page)]) == 0
        text = page.read_text()
        assert words in text
        assert "≡ same change" in text
    assert run_program(["--export", "x.md"]) == 1
