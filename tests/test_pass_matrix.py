"""The pass matrix counts what passes change and fails when one is wrong."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from hloc.ir.module import Module
from hloc.opt.pass_base import PassContext
from hloc.opt.registry import register_pass
from tests.pass_matrix import main, matrix

ROOT = Path(__file__).resolve().parents[1]
PATHS = [ROOT / "tests" / "guarded" / name for name in ("elementwise.hlo", "empty-gather.hlo")]


def test_good_passes_are_counted() -> None:
    text, well = matrix(["cse", "fusion"], PATHS, 60.0)
    assert well
    assert "2 of 2 modules run in the evaluator" in text
    assert "fusion       2        1         1       0" in text


def test_a_wrong_pass_is_named_with_its_module() -> None:
    @register_pass
    @dataclass(frozen=True)
    class Wrong:
        name: ClassVar[str] = "wrong"

        def run(self, module: Module, context: PassContext) -> bool:
            for inst in module.entry.root.operands or (module.entry.root,):
                twins = [o for o in inst.operands if o.shape == inst.shape]
                if twins:
                    with context.rewriting(module, self.name):
                        module.entry.replace(inst, twins[0])
            return context.rewrites > 0

    text, well = matrix(["wrong"], PATHS[:1], 60.0)
    assert not well
    assert "elementwise.hlo: out" in text


def test_no_time_is_told_and_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds=0", "--corpus=/none", "cse"]) == 0
    assert "the time was over with" in capsys.readouterr().out
