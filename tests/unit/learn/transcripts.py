"""Runs the commands in the text of a lesson and puts what they print behind them."""

import io
import os
import re
import shlex
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

from hloc.cli import main
from hloc.learn.catalogue import Lesson
from hloc.learn.document import REPL, Cell, Commands, Prose, read_cells, write_cells
from hloc.opt import rules
from repl.program import Recorder

_TIME = re.compile(r"\b\d+(?:\.\d+)? (?:us|ms|s)\b")
_LINE = re.compile(r"\((\w+\.py):\d+\)$", re.MULTILINE)
_RULE_FILES = {path.name for path in Path(rules.__file__).parent.glob("*.py")}


def filled(lesson: Lesson, folder: Path) -> str:
    """Return lesson.md with the output of its commands, run in a copy of the lesson."""
    return write_cells(run_cells(read_cells(lesson.read("lesson.md")), lesson.folder, folder))


def run_cells(cells: list[Cell], files: Path, folder: Path) -> list[Cell]:
    """Run all commands of `cells` in `folder`, which becomes a copy of the folder `files`."""
    shutil.copytree(files, folder, dirs_exist_ok=True)
    recorder = Recorder()
    made: list[Cell] = []
    with chdir(folder):
        for cell in cells:
            if isinstance(cell, Commands):
                run = recorder.run if cell.language == REPL else shell
                steps = tuple((c, without_lines(without_times(run(c)))) for c, _ in cell.steps)
                made.append(replace(cell, steps=steps))
            else:
                made.append(cell)
    recorder.close()
    assert recorder.faults == 0, write_cells(made)
    return made


def without_times(text: str) -> str:
    """Return `text` with `... ms` in place of times, which differ from run to run."""
    return _TIME.sub(lambda found: "... " + found[0].split()[1], text)


def without_lines(text: str) -> str:
    """Return `text` with `...` for line numbers in hloc's files of rules, which change."""
    return _LINE.sub(
        lambda found: f"({found[1]}:...)" if found[1] in _RULE_FILES else found[0], text
    )


def shell(command: str) -> str:
    """Return what `hloc ...` writes to both streams; `| head -20` cuts it."""
    line, _, rest = command.partition(" | head -")
    program, *words = shlex.split(line, comments=True)
    assert program == "hloc", command
    out = io.StringIO()
    os.environ["COLUMNS"] = "100"
    with redirect_stdout(out), redirect_stderr(out):
        main(words)
    lines = [part.rstrip() for part in out.getvalue().rstrip("\n").splitlines()]
    return "\n".join(lines[: int(rest)] if rest else lines)


def script_of(lesson: Lesson) -> str:
    """Return script.hlor: the headings of the text and its commands for the REPL."""
    lines: list[str] = []
    for cell in read_cells(lesson.read("lesson.md")):
        if isinstance(cell, Prose):
            lines += [f"# {x}" for x in cell.text.splitlines() if x.startswith("#")]
        elif isinstance(cell, Commands) and cell.language == REPL:
            lines += [command for command, _ in cell.steps]
    return "\n".join(lines) + "\n"


def wrong_answer(lesson: Lesson) -> Path:
    """Return a file that students might well write."""
    return Path(__file__).parent / "wrong" / f"{lesson.folder.name}.py"
