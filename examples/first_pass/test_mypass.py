"""The pass does its work, and leaves alone what it should not touch: pytest test_mypass.py."""

from pathlib import Path

import numpy as np

import hloc
from hloc.opt.plugin import load_plugin

HERE = Path(__file__).parent
load_plugin(str(HERE / "mypass.py"))


def test_the_answer_stays_the_same():
    before = hloc.load(str(HERE / "score.hlo"))
    after = before.apply("my-pass,dce")
    assert [inst.opcode.name for inst in after.find("clamp")] == ["clamp"]
    x = np.array([[-1, 0, 3, 9, np.nan, np.inf, -np.inf, -0.0]] * 4, np.float32)
    scale = np.ones(8, np.float32)
    (got,), (want,) = hloc.evaluate(after, x, scale), hloc.evaluate(before, x, scale)
    np.testing.assert_array_equal(got, want)


def test_another_minimum_is_left_alone():
    before = hloc.parse("ENTRY e { x = f32[4] parameter(0) ROOT m = f32[4] minimum(x, x) }")
    assert not before.apply("my-pass").find("clamp")
