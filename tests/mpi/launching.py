"""Starts of MPI jobs by tests: as many processes as asked for, however few cores there are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has ended: what all its processes wrote together."""

    code: int
    text: str


def mpiexec() -> str:
    """Return the launcher of this environment; skip the test if there is none."""
    pytest.importorskip("mpi4py", reason="needs mpi4py: pip install 'hloc[mpi]'")
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("needs mpiexec")
    return found


def start(
    processes: int, *words: str, environment: Mapping[str, str] = os.environ
) -> subprocess.Popen[str]:
    """Start `python WORDS` on some processes."""
    command = [mpiexec(), "-n", str(processes), sys.executable, *words]
    variables = {**environment, **_OPEN_MPI, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=variables,
        cwd=ROOT,
    )


def run(processes: int, *words: str, environment: Mapping[str, str] = os.environ) -> Ended:
    """Run `python WORDS` on some processes to its end."""
    with start(processes, *words, environment=environment) as job:
        try:
            text, _ = job.communicate(timeout=PATIENCE)
        finally:
            job.kill()
    return Ended(job.returncode, text)
