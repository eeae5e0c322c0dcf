"""The page of the sharded programs, and processes that die under them."""

from __future__ import annotations

import os
import sys

from benchmarks.sharded.page import page, summaries
from benchmarks.sharded.workers import rows_of

RIGHT = {"bad": 0}
ROWS = {
    "a": {
        "mesh": {"x": 4, "y": 2},
        "local": RIGHT,
        "partitioned": RIGHT | {"bytes": 111, "xla_bytes": 100},
        "times": {"hloc": 1e-3, "xla": 4e-3, "hloc_wall": 2e-3, "xla_wall": 1e-3},
    },
    "b": {
        "mesh": {"x": 8},
        "local": {"bad": 3},
        "partitioned": {"fault": "HloError", "bytes": 20, "xla_bytes": 100},
    },
}


def test_summaries_name_what_falls_short() -> None:
    assert summaries(ROWS) == [
        "- local: 1 of 2 right",
        "- partitioned: 1 of 2 right",
        "- bytes: 131, XLA 200; more than 10 % above XLA's: 1 (a)",
        "- processor time, hloc / XLA: 0.25 in geometric mean over 1; above 1: none",
        "- wall time, hloc / XLA: 2.00 in geometric mean over 1; above 1: a 2.00",
    ]


def test_a_row_for_every_program() -> None:
    lines = page(ROWS).splitlines()
    assert lines[-2] == "| a | 4x2 | yes | - | - | yes | 111 | 100 | 1000 | 4000 | 0.25 |"
    assert lines[-1] == "| b | 8 | 3 differ | - | - | fault | 20 | 100 | - | - | - |"


def test_programs_after_one_that_kills_the_process_run() -> None:
    script = """
import os, sys
for name in sys.argv[1:]:
    if name == "bad":
        print("Fatal fault", file=sys.stderr, flush=True)
        os._exit(3)
    print("from a launcher", flush=True)
    print('{"name": "%s"}' % name, flush=True)
"""
    command = [sys.executable, "-c", script]
    rows = dict(rows_of(command, ["one", "bad", "two"], os.environ))
    assert rows == {
        "one": {"name": "one"},
        "bad": {"fault": "ends the process: Fatal fault"},
        "two": {"name": "two"},
    }


def test_a_program_that_hangs_is_given_up() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert list(rows_of(command, ["slow"], os.environ, limit_seconds=0.5)) == [
        ("slow", {"fault": "took more than 0.5 s"})
    ]
