"""`--compare-each` names the instruction whose machine code is wrong; `--compare-with=xla`."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloc import driver
from hloc.cli import main
from hloc.ir.module import Module

TEXT = """HloModule m

ENTRY e {
  x = f32[2,2] parameter(0)
  s = f32[2,2] sort(x), dimensions={0}, to_apply=less
  d = f32[2,2] dot(s, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[2,2], f32[2,2]) tuple(d, s)
}
"""
LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT.replace("ENTRY", LESS + "ENTRY"))
    return str(path)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_right_code_agrees(level: str, file: str, capsys: Capture) -> None:
    assert main(["run", file, level, "--compare-each", "--print-output=0"]) == 0
    assert "2 instructions as machine code agree with the evaluator" in capsys.readouterr().err


def test_the_first_wrong_instruction_is_named_and_later_ones_are_not_blamed(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    right = driver.compile_as_it_stands

    def wrong(module: Module) -> Callable[..., Any]:
        program = right(module)
        is_sort = module.entry.root.is_a("sort")
        return lambda *arrays: [np.add(r, 1.0) if is_sort else r for r in program(*arrays)]

    monkeypatch.setattr(driver, "compile_as_it_stands", wrong)
    assert main(["run", file, "--compare-each", "-q", "--print-output=0"]) == 1
    told = capsys.readouterr().err
    assert "compare-each: FAILED at %s, 1 of 2 in order: 4 of 4 elements differ" in told
    assert "more differ" not in told


def test_random_numbers_are_not_compared(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "rng.hlo"
    path.write_text(
        "HloModule m\nENTRY e {\n  a = f32[] constant(0)\n  b = f32[] constant(1)\n"
        "  ROOT r = f32[8] rng(a, b), distribution=rng_uniform\n}\n"
    )
    assert main(["run", str(path), "-O0", "--compare-each", "--print-output=0"]) == 0
    assert "not compared: %r, it draws random numbers" in capsys.readouterr().err


def test_xla_is_an_answer_to_compare_with(file: str, capsys: Capture) -> None:
    if find_spec("jaxlib") is None:
        assert main(["run", file, "--compare-with=xla", "--print-output=0"]) == 1
        assert "--compare-with=xla needs jax\nnote: pip install" in capsys.readouterr().err
        return
    assert main(["run", file, "--compare-with=xla", "--print-output=0"]) == 0
    assert "compare with xla: OK  max" in capsys.readouterr().err
