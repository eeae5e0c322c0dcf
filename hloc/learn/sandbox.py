"""Checks a student's file in a child process with limits on time and memory.

The limits protect the machine from mistakes. They are not a security sandbox: a malicious file can
do whatever the user who runs the check can do.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hloc.errors import HloError
from hloc.learn.catalogue import Lesson
from hloc.learn.report import SHOWN_LETTERS, Finding, Report, shortened
from hloc.python_process import (
    end_with_children,
    limit_this_process,
    python_command,
    python_environment,
)

WALL_SECONDS = 120
CPU_SECONDS = 90
MEMORY_BYTES = 4 << 30
_FILE_BYTES = 16 << 20
_SHOWN_LINES = 8


def check_in_child(lesson: Lesson, path: str, wall_seconds: int = WALL_SECONDS) -> Report:
    """Check `path` in a child process and return the findings.

    Raises:
        HloError: the lesson itself is wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        result, said = Path(folder, "result.json"), Path(folder, "said.txt")
        words = [str(lesson.number), lesson.name, str(lesson.folder.resolve()), path, str(result)]
        fault = _run(python_command("-m", "hloc.learn.sandbox", *words), said, wall_seconds)
        text = _read(result)
        if text:
            return _report(json.loads(text), path, lesson)
        lines = _read(said)[-SHOWN_LETTERS:].splitlines()[-_SHOWN_LINES:]
        why = "\n".join([fault or "the process ended without a result", *lines])
        return Report(path, lesson.name, (Finding("the file runs", False, why),))


def _run(command: list[str], said: Path, wall_seconds: int) -> str:
    """Run `command` within a time limit; return the error, "" if there is none."""
    with said.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=python_environment(OPENBLAS_NUM_THREADS="1"),
            start_new_session=True,
        )
        try:
            code = process.wait(wall_seconds)
        except subprocess.TimeoutExpired:
            return f"it takes more than {wall_seconds} s"
        finally:
            end_with_children(process)
    if code in (-9, -24):  # SIGKILL, SIGXCPU
        return f"it was stopped: more than {CPU_SECONDS} s of processor time, or too much memory"
    return f"the process crashed (signal {-code})" if code < 0 else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _report(table: dict[str, Any], path: str, lesson: Lesson) -> Report:
    if "fault" in table:
        raise HloError(f"lesson {lesson.name}: {table['fault']}")
    findings = tuple(
        Finding(row["name"], row["ok"], shortened(row["text"])) for row in table["findings"]
    )
    return Report(path, lesson.name, findings, table["score"])


# ---------------------------------------------------------------- the child


def main(words: list[str]) -> int:
    """Check one file and write the report to a file."""
    number, name, folder, path, result = words
    limit_this_process(MEMORY_BYTES, _FILE_BYTES, CPU_SECONDS)
    table = report_table(Lesson(int(number), name, Path(folder)), path, MEMORY_BYTES)
    Path(result).write_text(json.dumps(table), encoding="utf-8")
    return 0


def report_table(lesson: Lesson, path: str, memory_bytes: int) -> dict[str, Any]:
    """Check `path` in this process, which may take `memory_bytes`, and return what was found."""
    from hloc.learn.check import check_file

    try:
        report = check_file(lesson, path)
    except HloError as fault:
        return {"fault": fault.message}
    except MemoryError:
        why = f"it needs more than {memory_bytes >> 30} GiB of memory"
        return {"findings": [{"name": "the file runs", "ok": False, "text": why}], "score": 0}
    rows = [{"name": f.name, "ok": f.ok, "text": f.text} for f in report.findings]
    return {"findings": rows, "score": report.score}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
