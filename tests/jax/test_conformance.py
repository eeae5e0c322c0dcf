"""The checks of `pypjrt`, another client of the PJRT C API, find no fault."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("jax")
pytest.importorskip("pypjrt")

SCRIPT = """
import ctypes, types
from pypjrt import _loader, conform
from hloc.pjrt import table

ADDRESS = table.api_table()

class Library:
    def __init__(self, *_, **__):
        self.GetPjrtApi = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ADDRESS)

_loader.ctypes = types.SimpleNamespace(**vars(ctypes) | {"CDLL": Library})
report = conform.run(conform.Plugin(table.__file__))
print(conform.render(report, verbose=True), flush=True)
"""


def test_no_check_fails() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert " 0 FAIL" in run.stdout, run.stdout
