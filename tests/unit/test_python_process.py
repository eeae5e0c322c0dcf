"""Processes that hloc starts run no Python file that lies in the current folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hloc.python_process import python_command, python_environment

ROOT = Path(__file__).resolve().parents[2]

MODULE = """// RUN: hloc run %s --print-inputs | FileCheck %s
// CHECK: f32
HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  ROOT r = f32[2] exponential(x)
}
"""

POOL = """
from collections import deque
from hloc.codegen.llvm.compile_pool import Unit, _Helper
from hloc.codegen.llvm.target import host_target
made = [None]
units = [Unit("define i32 @f() { ret i32 1 }", 0)]
helper = _Helper(units, (host_target(), frozenset()), deque([0]), made)
helper.start()
helper.join()
helper.end()
assert made[0]
"""

STARTS: dict[str, tuple[tuple[str, ...], str]] = {
    "hloc repl": (("-m", "hloc", "repl", "m.hlo"), "run\n"),
    "hlo-repl": (("-m", "repl", "m.hlo"), "run\n"),
    "hloc check": (("-m", "hloc", "check", "m.hlo"), ""),
    "hloc learn check": (("-m", "hloc", "learn", "check", "1", "answer.py"), ""),
    "a helper that compiles": (("-c", POOL), ""),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("repl", "hloc", "json", "numpy", "llvmlite", "struct", "lark"):
        (tmp_path / f"{name}.py").write_text("open('stolen', 'w').close()\n")
    (tmp_path / "m.hlo").write_text(MODULE)
    (tmp_path / "answer.py").write_text('"""An answer."""\n')
    return tmp_path


@pytest.mark.parametrize("name", STARTS)
def test_no_file_of_the_current_folder_is_imported(folder: Path, name: str) -> None:
    words, commands = STARTS[name]
    done = subprocess.run(
        [sys.executable, "-P", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=commands,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (folder / "stolen").exists()
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1), done.stderr


def test_the_test_can_fail(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", "import numpy"], cwd=folder, check=True)
    assert (folder / "stolen").exists()


def test_a_process_imports_what_this_one_does() -> None:
    code = "import sys; print([p for p in sys.path if p])"
    done = subprocess.run(
        python_command("-c", code), env=python_environment(A="b"), capture_output=True, text=True
    )
    for path in filter(None, sys.path):
        assert repr(str(path)) in done.stdout
    assert python_environment(A="b")["A"] == "b"
