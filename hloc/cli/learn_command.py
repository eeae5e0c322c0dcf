"""`hloc learn`: lessons to read and run, and the check of a student's file."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import NoReturn

from hloc.cli.talk import Talk
from hloc.learn import catalogue
from hloc.learn.catalogue import Lesson, find_lesson
from hloc.learn.workplace import make_workplace
from hloc.report.exits import Exit, UsageError

_USAGE = (
    "expected: learn list, learn N, learn start N, learn check N FILE..., learn new NAME, "
    "learn export N -o FILE"
)
_MODULE, _SKELETON = "input.hlo", "exercise.py"
_LINE = 96


def learn(arguments: Namespace, talk: Talk) -> int:
    """`hloc learn ...`: the first word says what."""
    words = arguments.files
    if words in ([], ["list"]):
        talk.product(_list())
        return Exit.OK
    if words[0] == "start":
        return _start(words[1:], arguments.output_file, talk)
    if words[0] == "check":
        return _check(words[1:], arguments.format, talk)
    if words[0] == "new":
        return _new(words[1:], talk)
    if words[0] == "export":
        return _export(words[1:], arguments.output_file, talk)
    if len(words) > 1:
        raise UsageError(_USAGE)
    lesson = find_lesson(words[0])
    if arguments.script:
        _run_script(lesson)
    _show(lesson.read("lesson.md"), talk)
    return Exit.OK


def _show(text: str, talk: Talk) -> None:
    """Print the text of a lesson, formatted if stdout is a terminal."""
    if not talk.product_paint.enabled:
        talk.product(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    light_or_dark = Theme({"markdown.code": "bold cyan"})  # no background, as rich would have
    console = Console(force_terminal=True, width=min(talk.width, _LINE), theme=light_or_dark)
    with console.capture() as captured:
        console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
    talk.product(captured.get())


def _start(words: list[str], path: str | None, talk: Talk) -> int:
    """Copy a lesson into a folder, print the next steps, and open hlo-repl on a terminal."""
    if len(words) != 1:
        raise UsageError("expected: learn start N, with -o FOLDER for another folder")
    lesson = find_lesson(words[0])
    workplace = make_workplace(lesson, Path(path or lesson.folder.name))
    if workplace.copied:
        talk.say(f"{workplace.folder}: {', '.join(workplace.copied)}")
    if workplace.kept:
        talk.say(f"kept as they are: {', '.join(workplace.kept)}")
    answer = shlex.quote(str(workplace.folder / _SKELETON))
    talk.say(f"write your answer in {answer}, then: hloc learn check {words[0]} {answer}")
    module = workplace.folder / _MODULE
    if sys.stdin.isatty() and talk.out.isatty():
        from hloc.cli.repl_command import start_repl

        start_repl([str(module)])
    talk.say(f"open the module with: hlo-repl {shlex.quote(str(module))}")
    return Exit.OK


def _list() -> str:
    """Return the list of lessons, those passed, and the next commands."""
    scores = catalogue.read_progress()
    lines = []
    for lesson in catalogue.all_lessons():
        score = scores.get(lesson.name)
        mark = " " * 6 if score is None else f"✓ {score:3d} "
        lines.append(f"{mark}{lesson.title}")
    lines += [
        "",
        "hloc learn 1             read a lesson",
        "hloc learn 1 --script    run its commands in hlo-repl",
        "hloc learn start 1       copy it into a folder to work in, and open hlo-repl",
        "hloc learn check 1 FILE  check your answer, the exercise.py of that folder",
        "docs/tutorial.md         from a JAX function of your own to a faster one",
    ]
    return "\n".join(lines)


def _check(words: list[str], form: str, talk: Talk) -> int:
    """Check files one after the other, each in a process of its own."""
    from hloc.learn.report import as_json, as_junit, as_text
    from hloc.learn.sandbox import check_in_child

    if len(words) < 2:
        raise UsageError("expected: learn check N FILE...")
    lesson = find_lesson(words[0])
    reports = [check_in_child(lesson, path) for path in words[1:]]
    passed = [report.score for report in reports if report.passed]
    if passed and len(reports) == 1:
        catalogue.remember(lesson, passed[0])
    writer = {"text": as_text, "json": as_json, "junit": as_junit}[form]
    talk.product(writer(reports))
    return Exit.OK if len(passed) == len(reports) else Exit.FAULT


def _new(words: list[str], talk: Talk) -> int:
    from hloc.learn.scaffold import new_lesson

    if len(words) != 1:
        raise UsageError("expected: learn new NAME")
    folder = new_lesson(words[0])
    words_to_try = ["hloc", "learn", "check", str(folder), str(folder / "reference.py")]
    talk.product(
        f"{folder}: lesson.md, input.hlo, script.hlor, exercise.py, reference.py, check.toml\n"
        f"try it with: {shlex.join(words_to_try)}"
    )
    return Exit.OK


def _export(words: list[str], path: str | None, talk: Talk) -> int:
    from hloc.learn.document import read_cells
    from hloc.learn.export import write_document

    if len(words) != 1 or not path:
        raise UsageError("expected: learn export N -o FILE.md, FILE.html or FILE.ipynb")
    lesson = find_lesson(words[0])
    files = {
        file.name: lesson.read(file.name)
        for file in sorted(lesson.folder.iterdir())
        if file.suffix == ".hlo" or file.name == _SKELETON
    }
    write_document(read_cells(lesson.read("lesson.md")), path, files)
    talk.say(f"wrote {path}")
    return Exit.OK


def _run_script(lesson: Lesson) -> NoReturn:
    """Replace this process by hlo-repl, in the folder of the lesson."""
    import os

    from hloc.cli.repl_command import start_repl

    sys.stdout.flush()
    os.chdir(lesson.folder)
    start_repl(["-v", "-x", "script.hlor"])
