"""The scripts of examples/ run and say what their readers are told to expect."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


def output_of(script: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    return capsys.readouterr().out


def test_01_parse_print(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of("01_parse_print.py", capsys)
    assert "ENTRY main.4: 28 instructions" in output
    assert "ROOT div.7 = f32[16,64]{1,0} divide(exp.1, div.6)" in output
    assert "ROOT %div.7 = f32[16,64]{1,0} divide(" in output
    assert ": error" in output
    assert "did you mean reduce_max.8?" in output
    assert "^" in output


def test_02_first_pass(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of("02_first_pass.py", capsys)
    assert "subtraction-finder: 1 rewrites, 4 -> 5 instructions" in output
    assert "subtract(x, y)" in output
    assert (
        "negate" not in output.partition("same answer")[0].partition("ENTRY")[2].partition("}")[0]
    )
    assert "same answer" in output


def test_03_fusion_step_by_step() -> None:
    script = EXAMPLES / "03_fusion_step_by_step.repl"
    command = [sys.executable, "-m", "repl", "--script", str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "fused_computation" in done.stdout
    assert "compare with s0 in the evaluator: OK" in done.stdout
