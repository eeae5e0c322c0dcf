"""`hloc isolate --against=xla` names what XLA computes wrong, and survives what XLA does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from hloc.cli import main

pytest.importorskip("jax")

Capture = pytest.CaptureFixture[str]

QUOTIENTS = """HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  c = f32[4] parameter(2)
  t = f32[4] tanh(a)
  d = f32[4] divide(a, b)
  q = f32[4] divide(d, c)
  ROOT r = (f32[4], f32[4]) tuple(t, q)
}
"""

BY_ZERO = """HloModule m
ENTRY e {
  x = s32[4] parameter(0)
  zero = s32[] constant(0)
  zeros = s32[4] broadcast(zero), dimensions={}
  twice = s32[4] add(x, x)
  seven = s32[] constant(7)
  ROOT r = s32[] divide(seven, zero)
}
"""


def isolate(text: str, folder: Path, capsys: Capture, *words: str) -> tuple[int, dict[str, Any]]:
    path = folder / "m.hlo"
    path.write_text(text)
    code = main(["isolate", str(path), "--against=xla", "--format=json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_two_quotients_that_xla_makes_one_product_are_named(
    tmp_path: Path, capsys: Capture
) -> None:
    """XLA computes a / (b * c), which overflows; neither quotient alone is wrong."""
    large = [f"--input={name}=[{value},{value},{value},{value}]"
             for name, value in (("a", "1e30"), ("b", "1e20"), ("c", "1e20"))]  # fmt: skip
    code, data = isolate(QUOTIENTS, tmp_path, capsys, *large, f"--repro-dir={tmp_path}/pieces")
    assert code == 1
    (row,) = data["diverging"]
    assert (row["instruction"]["name"], row["side"], row["levels"]) == ("q", "XLA", 1)
    (command,) = data["commands"]
    assert main(command.split()[1:]) == 1  # hloc and XLA differ on it


def test_ordinary_inputs_show_no_fault(tmp_path: Path, capsys: Capture) -> None:
    code, data = isolate(QUOTIENTS, tmp_path, capsys)
    assert (code, data["diverging"]) == (0, [])


def test_a_crash_of_xla_is_reported(tmp_path: Path, capsys: Capture) -> None:
    """XLA divides the constants while it compiles; the other pieces are compared."""
    code, data = isolate(BY_ZERO, tmp_path, capsys)
    assert code == 0
    (reason,) = data["not_compared"]
    assert "the process of XLA crashed: floating point exception" in reason
    assert data["not_compared"][reason] == ["r"]
