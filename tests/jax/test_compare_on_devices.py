"""`--compare-with=xla` on several devices: XLA partitions the same text for virtual devices."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.jax


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hloc", "run", *words, "--random=0", "--compare-with=xla"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["data_parallel_step", "tensor_parallel_block"])
def test_an_annotated_program_agrees_with_xla_on_its_devices(name: str) -> None:
    done = _run(f"examples/{name}.hlo", "--devices=8")
    assert done.returncode == 0, done.stderr
    assert "compare with xla: OK" in done.stderr


def test_different_results_are_reported() -> None:
    """Sums in another order are not the same to the last bit."""
    done = _run("examples/tensor_parallel_block.hlo", "--devices=8", "--rtol=0", "--atol=0")
    assert done.returncode == 1, done.stderr
    assert "compare with xla: FAILED" in done.stderr


def test_the_program_of_one_device_is_refused_in_words() -> None:
    done = _run("examples/partitioned/data_parallel_step.hlo", "--devices=8")
    assert done.returncode == 1
    assert "takes a program of whole arrays, which XLA partitions" in done.stderr
