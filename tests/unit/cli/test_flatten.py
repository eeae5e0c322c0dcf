"""`hloc flatten`: rounds and branches that do not depend on data; known counts stay."""

from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.cli import main

Capture = pytest.CaptureFixture[str]

LOOP = """HloModule m

below {{
  s = (s32[], f32[]) parameter(0)
  x = f32[] get-tuple-element(s), index=1
  i = s32[] get-tuple-element(s), index=0
  limit = f32[] constant(1000)
  n = s32[] constant(20)
  {condition}
}}

step {{
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[] add(x, x)
  ROOT r = (s32[], f32[]) tuple(next, y)
}}

ENTRY e {{
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[]) tuple(zero, x)
  end = (s32[], f32[]) while(start), condition=below, body=step
  ROOT r = f32[] get-tuple-element(end), index=1
}}
"""
BY_DATA = LOOP.format(condition="ROOT r = pred[] compare(x, limit), direction=LT")
COUNTED = LOOP.format(condition="ROOT r = pred[] compare(i, n), direction=LT")
BRANCHES = """HloModule m

a {
  x = f32[] parameter(0)
  ROOT r = f32[] negate(x)
}

b {
  ROOT x = f32[] parameter(0)
}

ENTRY e {
  p = PRED parameter(0)
  x = f32[] parameter(1)
  ROOT r = f32[] conditional(p, x, x), CALLED
}
"""
TRANSFERS = """HloModule m

ENTRY e {
  t = token[] after-all()
  i = ((f32[2], s32[]), token[]) infeed(t)
  parts = (f32[2], s32[]) get-tuple-element(i), index=0
  x = f32[2] get-tuple-element(parts), index=0
  u = token[] get-tuple-element(i), index=1
  o = token[] outfeed(x, u), outfeed_shape=f32[2]
  one = f32[2] constant({1, 2})
  ROOT r = f32[2] add(x, one)
}
"""


def flattened(folder: Path, text: str, *options: str) -> str:
    file, out = folder / "m.hlo", folder / "out.hlo"
    file.write_text(text)
    assert main(["flatten", str(file), *options, "-o", str(out)]) == 0
    return out.read_text()


@pytest.mark.parametrize(
    ("text", "options", "rounds"),
    [
        (BY_DATA, [], 5),
        (BY_DATA, ["--trips=3"], 3),
        (BY_DATA, ["--trips=0"], 0),
        (COUNTED, ["--trips=3"], 20),
        (COUNTED, ["--most-trips=7"], 7),
        (COUNTED, ["--most-trips=30"], 20),
    ],
)
def test_rounds(text: str, options: list[str], rounds: int, tmp_path: Path) -> None:
    found = flattened(tmp_path, text, *options)
    for x in (1.0, 2000.0):
        want = np.float32(x * 2.0**rounds)
        for got in (
            hloc.evaluate(found, np.array(x, np.float32)),
            hloc.compile(found)(np.float32(x)),
        ):
            np.testing.assert_array_equal(got[0], want)


@pytest.mark.parametrize(("branch", "factor"), [(0, -1), (1, 1), (9, 1)])
@pytest.mark.parametrize("kind", ["pred[]", "s32[]"])
def test_branches(branch: int, factor: int, kind: str, tmp_path: Path) -> None:
    named = "true_computation=a, false_computation=b"
    called = named if kind == "pred[]" else "branch_computations={a, b}"
    text = BRANCHES.replace("PRED", kind).replace("CALLED", called)
    found = flattened(tmp_path, text, f"--branch={branch}")
    dtype = np.bool_ if kind == "pred[]" else np.int32
    for predicate in (0, 1):
        (got,) = hloc.evaluate(found, np.array(predicate, dtype), np.array(3, np.float32))
        assert got == 3 * factor


def test_conditionals_stay_without_a_branch(tmp_path: Path) -> None:
    text = BRANCHES.replace("PRED", "s32[]").replace("CALLED", "branch_computations={a, b}")
    assert "conditional(p" in flattened(tmp_path, text).replace("%", "")


def test_infeeds_are_zeros(tmp_path: Path, capsys: Capture) -> None:
    found = flattened(tmp_path, TRANSFERS)
    assert "feed(" not in found
    np.testing.assert_array_equal(hloc.evaluate(found)[0], [1, 2])
    assert "0 loops, 0 conditionals and 2 transfers flattened" in capsys.readouterr().err


def test_bad_use(tmp_path: Path, capsys: Capture) -> None:
    assert main(["flatten"]) == 2
    assert main(["flatten", str(tmp_path / "none.hlo")]) == 1
    assert main(["flatten", "m.hlo", "--trips=-1"]) == 2
    assert "Traceback" not in capsys.readouterr().err
