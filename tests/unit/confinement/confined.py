"""A fork server whose processes run the Python that a test sends, and the same unconfined."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hloc.confinement.forked import Confined, Forks, Patience
from hloc.confinement.limits import Limits
from hloc.errors import HloError

SECRET = "HLOC_TEST_SECRET"
ROOT = Path(__file__).resolve().parents[3]
LIMITS = Limits(memory_bytes=1 << 30, cpu_seconds=20, file_bytes=4 << 20)
PATIENT = Patience(seconds=60, cpu_seconds=20, answer_bytes=1 << 20)

RUN = """
import ctypes, errno, os, socket, sys

def outcome(code):
    try:
        exec(code, globals())
        return ["worked", attack()]
    except BaseException as fault:
        return [type(fault).__name__, str(fault)]
"""
SERVER = f"""
{RUN}
from hloc.confinement.fork_server import serve
from hloc.framing import read_message, write_message

def work(questions, answers):
    while True:
        write_message(answers, outcome(read_message(questions)[0]))

serve(lambda: {{"python": work}})
"""


def fork_server() -> Forks:
    """Return a fork server; skips the test where the system cannot confine processes."""
    try:
        return Forks(SERVER, {"PYTHONPATH": str(ROOT)})
    except HloError as fault:
        pytest.skip(f"confined processes: {fault.message}")


def confined(forks: Forks, code: str, limits: Limits = LIMITS) -> tuple[str, object]:
    """Return how `attack` in the Python text `code` ends in a confined process."""
    return asked(forks.fork("python", limits), code)


def asked(process: Confined, code: str) -> tuple[str, object]:
    kind, value = process.ask(code, PATIENT)
    return kind, value


def unconfined(code: str, folder: Path) -> tuple[str, object]:
    """Return how it ends in a plain process with `folder` as its current one."""
    script = f"{RUN}\nimport json\ncode = sys.stdin.read()\nfound = outcome(code)\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script + "print('\\n' + json.dumps(found))"],
        input=code, stdout=subprocess.PIPE, text=True, cwd=folder, close_fds=False,
        env={**os.environ, SECRET: "told"},
    )  # fmt: skip
    kind, value = json.loads(done.stdout.rpartition("\n\n")[2].strip().splitlines()[-1])
    return kind, value
