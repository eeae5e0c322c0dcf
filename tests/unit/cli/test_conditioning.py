"""`--compare-with` says whether a difference is rounding, in lines and in JSON."""

import json
from pathlib import Path

import numpy as np
import pytest

from hloc.cli import main

TEXT = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] subtract(x, y)
  ROOT r = f32[4] divide(x, s)
}
"""


@pytest.mark.parametrize(
    ("factors", "place", "verdict"),
    [((1.00001, 1, 1, 1), "out0[0]", "rounding"), ((1, 1, 1, 1.01), "out0[3]", "more than")],
)
def test_a_difference_is_explained_by_the_condition_of_its_piece(
    factors: tuple[float, ...],
    place: str,
    verdict: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`x - y` cancels all digits in the first element and none in the last."""
    module, given, stored = tmp_path / "m.hlo", tmp_path / "in.npz", tmp_path / "out.npz"
    module.write_text(TEXT)
    x, y = np.array([[1.1, 2, 3, 4], [1.1000001, 3, 4, 5.3]], np.float32)
    np.savez(given, x=x, y=y)
    np.savez(stored, out0=(x / (x - y) * np.array(factors)).astype(np.float32))
    arguments = ["run", str(module), "--inputs", str(given), f"--compare-with={stored}"]
    assert main(arguments) == 0
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"  {place}: ")
    assert "made by divide %r, condition 2, roundings move it by" in line
    assert verdict in line
    assert main([*arguments, "--format=json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["modules"][0]["comparison"]["outputs"]
    assert (found["at"], found["instruction"]) == (place, "r")
    assert found["rounding"] is (verdict == "rounding")


def test_outputs_that_are_near_need_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, given, stored = tmp_path / "m.hlo", tmp_path / "in.npz", tmp_path / "out.npz"
    module.write_text("""HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  a = f32[2] add(x, x)
  b = f32[2] multiply(x, x)
  ROOT t = (f32[2], f32[2]) tuple(a, b)
}
""")
    x = np.array([1.5, 3], np.float32)
    np.savez(given, x=x)
    np.savez(stored, out0=x + x, out1=x * x * np.float32(1.00001))
    assert main(["run", str(module), "--inputs", str(given), f"--compare-with={stored}"]) == 0
    said = capsys.readouterr().err
    assert "  out1[" in said
    assert "  out0[" not in said
