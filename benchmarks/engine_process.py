"""Processes that measure one program with one engine, and take orders line by line.

A worker compiles its program, saves results, prints a line of JSON, and prints another one for each
line that it reads from standard input. Between these it is stopped: threads that wait for work
would keep the cores of the next engine busy, those of ONNX Runtime and OpenMP for milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import harness

PLATFORMS = {"hloc": "hloc,cpu", "constant": "hloc,cpu"}
"""`JAX_PLATFORMS` of the engines for which it is not `cpu`."""
TIME_LIMIT_SECONDS = 300
Row = dict[str, Any]


class EngineError(Exception):
    """A worker ended before it answered."""


@contextmanager
def worker(
    name: str, engine: str, folder: str, script: str, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Start the process of one engine, which runs `script`; it ends with the block."""
    results = Path(folder) / f"{engine}.npz"
    environment = os.environ | {
        "JAX_PLATFORMS": PLATFORMS.get(engine, "cpu"),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(harness.ROOT), os.getenv("PYTHONPATH")))),
        "HLOC_CACHE_DIR": str(Path(folder) / "cache"),
    }
    command = [sys.executable, script, "--worker", name, f"--results={results}", *options]
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            command, text=True, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints,
        )  # fmt: skip
        try:
            yield process
        except EngineError as error:
            if process.poll() is None:  # it is the other engine's
                raise
            complaints.seek(0)
            lines = [line for line in complaints.read().splitlines() if line.strip()]
            last = ([line for line in lines if "Error: " in line] or lines)[-1:]
            raise EngineError(f"{engine}: {(last or [str(error)])[0]}"[:200]) from None
        finally:
            process.kill()
            process.communicate()


def ask(process: subprocess.Popen[str], order: str = "") -> Row:
    """Send an order, if any, and return the answer of a worker, which is stopped then."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.send_signal(signal.SIGCONT)
    try:
        if order:
            print(order, file=process.stdin, flush=True)
        line = process.stdout.readline()
    except BrokenPipeError:
        line = ""
    if not line:
        raise EngineError(f"exit {process.wait(TIME_LIMIT_SECONDS)}")
    process.send_signal(signal.SIGSTOP)
    answer: Row = json.loads(line)
    return answer
