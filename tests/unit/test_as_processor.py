"""Benchmarks as on an older processor: what both compilers see of the instruction sets."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from benchmarks import as_processor, harness, history

SEEN = """
import sys
from pathlib import Path
from benchmarks import harness
from hloc.codegen.llvm.target import host_target
target = host_target()
names = ("avx2", "avx512f", "avx512bf16", "avx512fp16", "amx-tile")
found = [name for name in names if target.has(name)]
Path(sys.argv[1]).write_text(" ".join([*found, str(target.vector_bits), harness.machine()["cpu"]]))
"""
FEATURES = Path("/proc/cpuinfo")


def _can_hide() -> bool:
    linux = platform.system() == "Linux" and platform.machine() == "x86_64"
    return linux and shutil.which("cc") is not None and "cpuid_fault" in FEATURES.read_text()


@pytest.mark.skipif(not _can_hide(), reason="CPUID cannot be made to fault here")
@pytest.mark.parametrize(
    ("processor", "end"), [("avx2", " as AVX2"), ("avx512", " as AVX-512 without AMX")]
)
def test_newer_instruction_sets_are_hidden(processor: str, end: str, tmp_path: Path) -> None:
    file = tmp_path / "seen.txt"
    assert as_processor.run(processor, ["-c", SEEN, str(file)]) == 0
    seen = file.read_text()
    assert seen.startswith("avx2 ")
    assert seen.endswith(end)
    assert not {"avx512bf16", "avx512fp16", "amx-tile"} & set(seen.split())
    if processor == "avx2":
        assert seen.startswith("avx2 256 ")


@pytest.mark.skipif(not _can_hide(), reason="CPUID cannot be made to fault here")
def test_the_exit_code_and_faults_are_those_of_the_program() -> None:
    assert as_processor.run("avx2", ["-c", "raise SystemExit(3)"]) == 3
    fault = "import ctypes; ctypes.string_at(0)"
    assert as_processor.run("avx2", ["-c", fault]) == -11


def test_simulated_machines_come_last() -> None:
    names = ("real", f"real{harness.AS}AVX2", "other")
    lines = [{"machine": {"cpu": name}, "rows": {"1": {}}} for name in names]
    assert history.machines(lines) == ["other", "real", "real as AVX2"]
