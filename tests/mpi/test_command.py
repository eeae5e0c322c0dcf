"""`mpiexec -n 4 hloc run FILE`: the results of one process, and an end when one process fails."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from hloc.cli import main
from tests.mpi.launching import run
from tests.mpi.program import branches

pytestmark = pytest.mark.mpi

SUM = (
    "all-reduce(X), replica_groups={{0,1,2,3}}, channel_id=1, use_global_device_ids=true, "
    "to_apply=add"
)
HEAD = """HloModule m, num_partitions=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
"""
PARALLEL = f"""{HEAD}
ENTRY main {{
  x = f32[8,16] parameter(0), sharding={{devices=[4,1]<=[4]}}
  w = f32[16,4] parameter(1), sharding={{replicated}}
  y = f32[8,4] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  s = f32[8,4] {SUM.replace("X", "y")}
  ROOT t = (f32[8,4], f32[8,4]) tuple(s, y), sharding={{{{replicated}}, {{devices=[4,1]<=[4]}}}}
}}
"""
ENDLESS = f"""{HEAD}
again {{ s = f32[4] parameter(0) ROOT yes = pred[] constant(true) }}
body {{ s = f32[4] parameter(0) ROOT t = f32[4] {SUM.replace("X", "s")} }}
ENTRY main {{ x = f32[4] parameter(0) ROOT w = f32[4] while(x), condition=again, body=body }}
"""


@pytest.fixture
def parallel(tmp_path: Path) -> Path:
    path = tmp_path / "parallel.hlo"
    path.write_text(PARALLEL)
    return path


@pytest.mark.parametrize("processes", [2, 4])
def test_one_process_writes_the_whole_results(parallel: Path, processes: int) -> None:
    here, there = (parallel.with_name(f"{name}.npz") for name in ("here", "there"))
    assert main(["run", str(parallel), "--devices=4", f"--output={here}", "-q"]) == 0
    words = ("run", str(parallel), f"--output={there}", "--compare-with=interp")
    job = run(processes, "-m", "hloc", *words)
    assert job.code == 0, job.text
    assert job.text.count("compare with interp: OK") == 1
    assert "on 4 devices" in job.text
    with np.load(here) as want, np.load(there) as found:
        for name in want.files:
            assert want[name].tobytes() == found[name].tobytes()


def test_processes_that_cannot_share_the_devices_are_an_error(parallel: Path) -> None:
    job = run(3, "-m", "hloc", "run", str(parallel))
    assert job.code != 0
    assert "4 devices cannot be divided equally among 3 processes" in job.text


def test_other_options_in_one_process_are_an_error(parallel: Path) -> None:
    own = ("-m", "hloc", "run", str(parallel))
    job = run(1, *own, ":", "-n", "1", sys.executable, *own, "-O0")
    assert job.code != 0
    assert "process 1 of the job has another module or other options than process 0" in job.text


def test_a_fault_in_one_process_ends_the_job(parallel: Path) -> None:
    own = ("-m", "hloc", "run")
    job = run(1, *own, str(parallel), ":", "-n", "1", sys.executable, *own, "missing.hlo")
    assert job.code != 0
    assert "cannot read missing.hlo" in job.text


def test_a_deadlock_is_reported_with_devices_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "stuck.hlo"
    path.write_text(branches(f"f32[4] {SUM.replace('X', 'a')}", "f32[4] negate(a)"))
    job = run(4, "-m", "hloc", "run", str(path))
    assert job.code != 0
    assert re.search(r"device 1 at all-reduce 'x' \(.*stuck.hlo:6:8\), waiting for devi", job.text)


def test_interrupting_one_process_ends_the_job(tmp_path: Path) -> None:
    path = tmp_path / "endless.hlo"
    path.write_text(ENDLESS)
    job = run(4, "-m", "tests.mpi.interrupted", str(path))
    assert job.code != 0
    assert "hloc: interrupted" in job.text or "hloc: stopped while devices waited" in job.text
    assert "Ctrl-C is sent" in job.text
