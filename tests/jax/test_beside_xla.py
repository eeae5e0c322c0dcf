"""`hloc bisect --against=xla` names the pass of XLA that is wrong; `hloc bench` times XLA too."""

import json
from pathlib import Path

import pytest

from hloc.cli import main

pytest.importorskip("jax")

Capture = pytest.CaptureFixture[str]

POWERS = """HloModule powers
ENTRY e {
  x = s32[2] parameter(0)
  one = s32[] constant(-1)
  ones = s32[2] broadcast(one), dimensions={}
  by = s32[2] constant({-3, -2})
  p = s32[2] power(ones, by)
  y = s32[2] multiply(x, x)
  ROOT r = (s32[2], s32[2]) tuple(p, y)
}
"""

SOUND = """HloModule sound
ENTRY e {
  x = f32[64] parameter(0)
  t = f32[64] tanh(x)
  ROOT r = f32[64] multiply(t, x)
}
"""

BY_ZERO = """HloModule ended
ENTRY e {
  x = s32[] parameter(0)
  seven = s32[] constant(7)
  zero = s32[] constant(0)
  q = s32[] divide(seven, zero)
  ROOT r = s32[] add(q, x)
}
"""


def bisect(text: str, folder: Path, *words: str) -> int:
    path = folder / "m.hlo"
    path.write_text(text)
    return main(["bisect", str(path), "--against=xla", "-o", str(folder / "small.hlo"), *words])


def test_a_wrong_pass_is_named(tmp_path: Path, capsys: Capture) -> None:
    """(-1)^-3 is -1; XLA's constant folding says 0. The rest of the module goes."""
    assert bisect(POWERS, tmp_path) == 1
    printed = capsys.readouterr().out
    assert "/constant_folding of XLA is wrong: module" in printed
    assert "expected -1" in printed
    assert "power(" in printed
    small = (tmp_path / "small.hlo").read_text()
    assert "power" in small
    assert "multiply" not in small


def test_a_sound_module(tmp_path: Path, capsys: Capture) -> None:
    assert bisect(SOUND, tmp_path, "--format=json") == 0
    assert json.loads(capsys.readouterr().out)["culprit"] is None


def test_the_pass_that_ends_xla(tmp_path: Path, capsys: Capture) -> None:
    """XLA divides the constants while it compiles."""
    assert bisect(BY_ZERO, tmp_path, "--no-reduce", "--format=json") == 1
    culprit = json.loads(capsys.readouterr().out)["culprit"]
    assert "the process of XLA crashed: floating point exception" in culprit["fault"]


def test_other_judges_are_refused(tmp_path: Path, capsys: Capture) -> None:
    assert bisect(SOUND, tmp_path, "--compiled") == 2
    assert "--against=xla compares with the evaluator" in capsys.readouterr().err


def test_bench_times_xla_beside_hloc(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "m.hlo").write_text(SOUND)
    words = ["--against=xla", "--repeat=2", "--threads=1", "--format=json"]
    assert main(["bench", str(tmp_path / "m.hlo"), *words]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [engine["name"] for engine in data["engines"]] == ["hloc -O2", "XLA"]
    assert all(engine["runs"] >= 2 for engine in data["engines"])
