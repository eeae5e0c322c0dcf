"""Programs run one after another in a process that may die or hang: a row for each, whatever."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
Row = dict[str, Any]


def rows_of(
    command: Sequence[str],
    names: Sequence[str],
    environment: Mapping[str, str],
    limit_seconds: float = 120,
    on_death: Callable[[str], Row] = lambda name: {},
) -> Iterator[tuple[str, Row]]:
    """Yield the row of each program, in order.

    `command` is started with the names behind it and writes a line of JSON for each. If it ends
    before the last, or writes nothing for `limit_seconds`, the program it was at gets a row with
    `fault` and what `on_death` adds, and the command is started again for those after it.
    """
    left = list(names)
    while left:
        for name, row in _one_process(command, list(left), environment, limit_seconds, on_death):
            left.remove(name)
            yield name, row


def _one_process(
    command: Sequence[str],
    names: list[str],
    environment: Mapping[str, str],
    limit_seconds: float,
    on_death: Callable[[str], Row],
) -> Iterator[tuple[str, Row]]:
    """Yield a row per program until the process ends; the program that ended it has a fault."""
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        process = subprocess.Popen(
            [*command, *names], cwd=ROOT, env=dict(environment), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints,
        )  # fmt: skip
        assert process.stdout is not None
        left = list(names)
        late = threading.Event()
        try:
            while left and (line := _line(process, limit_seconds, late)):
                if line.startswith("{"):  # launchers write to stdout too
                    yield left.pop(0), json.loads(line)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if left:
            complaints.seek(0)
            reason = f"took more than {limit_seconds} s" if late.is_set() else _reason(complaints)
            yield left[0], on_death(left[0]) | {"fault": reason}


def _line(process: subprocess.Popen[str], limit_seconds: float, late: threading.Event) -> str:
    """Return the next line of a process, "" at its end; it is killed if none comes in time."""

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(limit_seconds, stop)
    timer.start()
    try:
        assert process.stdout is not None
        return process.stdout.readline()
    finally:
        timer.cancel()


def _reason(complaints: IO[str]) -> str:
    """Return the line that tells best why a process has ended."""
    lines = [line.strip() for line in complaints if line.strip()]
    telling = [x for x in lines if "Check failed" in x or "rror: " in x or "Fatal" in x]
    return "ends the process: " + ([*lines, *telling] or ["no message"])[-1][:200]
