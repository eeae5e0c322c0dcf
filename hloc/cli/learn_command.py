"""`hloc learn`: lessons to read and run, and the check of a student's file."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import NoReturn

from hloc.cli.talk import Talk
from hloc.learn import catalogue
from hloc.learn.catalogue import Lesson, find_lesson
from hloc.report.exits import Exit, UsageError

_USAGE = "expected: learn, learn N, learn check N FILE..., learn new NAME, learn export N -o FILE"


def learn(arguments: Namespace, talk: Talk) -> int:
    """`hloc learn ...`: the first word says what."""
    words = arguments.files
    if not words:
        talk.product(_list())
        return Exit.OK
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
    talk.product(lesson.read("lesson.md"))
    return Exit.OK


def _list() -> str:
    """Return the lessons with what was passed, and how to go on."""
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
        "hloc learn check 1 FILE  check your answer; the skeleton is exercise.py in",
        f"                         {catalogue.lessons_folder()}",
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
    talk.product(
        f"{folder}: lesson.md, input.hlo, script.hlor, exercise.py, reference.py, check.toml\n"
        f"try it with: hloc learn check {folder} {folder / 'reference.py'}"
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
        if file.suffix == ".hlo" or file.name == "exercise.py"
    }
    write_document(read_cells(lesson.read("lesson.md")), path, files)
    talk.say(f"wrote {path}")
    return Exit.OK


def _run_script(lesson: Lesson) -> NoReturn:
    """Become hlo-repl, in the folder of the lesson, which its commands read from."""
    import os

    from hloc.cli.repl_command import start_repl

    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [_root(), os.environ.get("PYTHONPATH")])
    )
    sys.stdout.flush()
    os.chdir(lesson.folder)
    start_repl(["-v", "-x", "script.hlor"])


def _root() -> str:
    """Return the folder that holds the packages hloc and repl."""
    return str(catalogue.lessons_folder().parents[1].resolve())
