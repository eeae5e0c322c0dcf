"""`hloc nan` names the element where NaN arises, and what it was made of."""

import json
from pathlib import Path

import pytest

from hloc.cli import main

Capture = pytest.CaptureFixture[str]

MODULE = """HloModule m

shifted {
  p = f32[2,3] parameter(0)
  one = f32[] constant(1)
  ones = f32[2,3] broadcast(one), dimensions={}
  ROOT r = f32[2,3] subtract(p, ones)
}
ENTRY e {
  x = f32[3,2] parameter(0)
  t = f32[2,3] transpose(x), dimensions={1,0}
  f = f32[2,3] fusion(t), kind=kLoop, calls=shifted
  flat = f32[6] reshape(f)
  y = f32[6] parameter(1)
  q = f32[6] divide(y, flat)
  n = f32[6] subtract(q, q)
  ROOT s = f32[6] sqrt(n), metadata={source_file="model.py" source_line=7}
}
"""

LOOP = """HloModule m

below {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT
}
step {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v = f32[4] get-tuple-element(s), index=1
  half = f32[] constant(0.5)
  halves = f32[4] broadcast(half), dimensions={}
  less = f32[4] subtract(v, halves)
  root = f32[4] sqrt(less)
  ROOT r = (s32[], f32[4]) tuple(next, root)
}
ENTRY e {
  given = f32[4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero, given)
  w = (s32[], f32[4]) while(start), condition=below, body=step
  ROOT r = f32[4] get-tuple-element(w), index=1
}
"""


def nan(folder: Path, text: str, *words: str) -> int:
    path = folder / "m.hlo"
    path.write_text(text)
    return main(["nan", str(path), *words])


def test_the_element_is_followed_back(tmp_path: Path, capsys: Capture) -> None:
    """1 / 0 is infinity, infinity - infinity is NaN; both come from x[1,1] = 1."""
    assert nan(tmp_path, MODULE, "--input=x=[[2,2],[2,1],[2,2]]", "--input=y=ones") == 1
    printed = capsys.readouterr().out
    lines = [line.strip() for line in printed.splitlines()]
    assert lines[1:4] == [
        "first NaN: %n[4], 1 in subtract f32[6]",
        "%n[4] = nan: subtract(inf, inf)",
        "%q[4] = inf: divide(1.0, 0.0)",
    ]
    at = next(number for number, line in enumerate(lines) if line.startswith("first infinity"))
    assert lines[at] == "first infinity: %q[4], 1 in divide f32[6]"
    assert lines[at + 1] == "%q[4] = inf: divide(1.0, 0.0)"
    assert lines[at + 2] == "%flat[4] = 0.0: reshape(0.0)"
    assert lines[at + 3] == "%r.1[1,1] = 0.0: subtract(1.0, 1.0)"
    assert lines[-1] == "%x[1,1] = 1.0: parameter 0"


def test_the_round_of_a_loop_is_found(tmp_path: Path, capsys: Capture) -> None:
    """From 1: sqrt(0.5), sqrt(0.207), sqrt(-0.04)."""
    assert nan(tmp_path, LOOP, "--input=given=[9,9,1,9]", "--format=json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["nan"]["rounds"] == [{"loop": "w", "round": 3}]
    assert data["nan"]["instruction"] == "root"
    assert data["nan"]["steps"][0]["index"] == [2]
    assert data["infinity"] is None


def test_a_slice_is_written_and_shows_it_too(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "slice.hlo"
    assert nan(tmp_path, LOOP, "--input=given=[0,9,9,9]", "-o", str(out)) == 1
    capsys.readouterr()
    assert "sqrt" in out.read_text()


def test_numbers_stay_numbers(tmp_path: Path, capsys: Capture) -> None:
    assert nan(tmp_path, LOOP, "--input=given=[99,99,99,99]") == 1  # it is below 0.5 in round 5
    assert nan(tmp_path, MODULE, "--input=x=zeros", "--input=y=ones") == 0
    printed = capsys.readouterr().out
    assert "first NaN: none arises" in printed


def test_nan_in_the_inputs_is_said(tmp_path: Path, capsys: Capture) -> None:
    assert nan(tmp_path, MODULE, "--input=x=ones", "--input=y=[nan,1,1,1,1,1]") == 0
    assert "NaN in the inputs: parameter 1" in capsys.readouterr().out
