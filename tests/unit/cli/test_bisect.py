"""`hloc bisect` finds a planted fault and shrinks the module; `hloc reduce` obeys its test."""

import re
import shlex
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.report.answers import compiled, evaluated, patience_for, within
from hloc.report.time_limit import TookTooLong
from tests.unit.cli.plugins import CRASHES, INVALID, WRONG_RULE, long_module, plugin_file
from tests.waiting import PATIENCE

Capture = pytest.CaptureFixture[str]


def write(folder: Path, text: str) -> str:
    path = folder / "long.hlo"
    path.write_text(text)
    return str(path)


def has_minimum(folder: Path) -> str:
    """Return a test that exits with 0 if the module has a minimum and an add."""
    script = folder / "has_minimum.py"
    script.write_text(
        "import sys\ntext = open(sys.argv[1]).read()\n"
        "sys.exit(0 if ' minimum(' in text and ' add(' in text else 1)\n"
    )
    return f"{shlex.quote(sys.executable)} -S -E {shlex.quote(str(script))} {{}}"


def test_a_wrong_rule_among_a_thousand_instructions_is_found_at_little_cost(
    tmp_path: Path, capsys: Capture
) -> None:
    file = write(tmp_path, long_module(1000, 700))
    load = plugin_file(tmp_path, WRONG_RULE)
    out = tmp_path / "small.repro.hlo"
    started = time.process_time()
    assert main(["bisect", file, load, "-O2", "-o", str(out)]) == 1
    assert time.process_time() - started < 60
    text = capsys.readouterr().out
    assert re.search(
        r"pass algebraic-simplifier is wrong: step \d+ of the pipeline, its rewrite", text
    )
    assert "rewrite algebraic-simplifier/minimum-is-first at v700" in text
    assert re.search(r"- v700 = f32\[4,4\] minimum\(", text)
    assert re.search(r"out0\[\d,\d\] is \S+, expected \S+", text)
    assert hloc.load(str(out)).instruction_count <= 4
    assert main([str(out), load, f"--repro-dir={tmp_path}"]) == 70
    assert "changes the answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("plugin", "verb", "message"),
    [
        (CRASHES, "fails", "ZeroDivisionError"),
        (INVALID, "is wrong", "the module is invalid"),
    ],
)
def test_a_pass_that_fails_is_found_as_well(
    plugin: str, verb: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    file, load = write(tmp_path, long_module()), plugin_file(tmp_path, plugin)
    out = tmp_path / "small.repro.hlo"
    words = ["bisect", file, load, "--passes=cse,dce,planted,cse", "-o", str(out)]
    assert main(words) == 1
    text = capsys.readouterr().out
    assert f"pass planted {verb}: step 3 of the pipeline, its rewrite 1" in text
    assert "at v25" in text
    assert message in text
    assert hloc.load(str(out)).instruction_count <= 4


def test_the_first_of_several_rewrites_is_named(tmp_path: Path, capsys: Capture) -> None:
    """Two minimums of a value and itself are right to replace; the third is not."""
    text = """HloModule three
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] minimum(x, x)
  b = f32[4] tanh(a)
  c = f32[4] minimum(b, b)
  d = f32[4] subtract(c, y)
  ROOT r = f32[4] minimum(d, y)
}
"""
    load = plugin_file(tmp_path, WRONG_RULE)
    words = ["bisect", write(tmp_path, text), load, "--passes=algebraic-simplifier"]
    assert main([*words, "--no-reduce", "-o", str(tmp_path / "o.hlo")]) == 1
    found = capsys.readouterr().out
    assert "its rewrite 3 of 3" in found
    assert "minimum-is-first at r" in found
    assert f"hloc {tmp_path / 'o.hlo'} --repro --plugin=" in found


def test_nothing_wrong_is_code_0(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, long_module())
    assert main(["bisect", file]) == 0
    assert "no pass changes the answer (random inputs, seed 0" in capsys.readouterr().out
    assert main(["bisect", file, "--compiled", "--passes=cse"]) == 0
    arrays = str(tmp_path / "in.npz")
    np.savez(arrays, arg0=np.ones((4, 4), np.float32), arg1=np.ones((4, 4), np.float32))
    assert main(["bisect", file, "--inputs", arrays]) == 0
    assert "in.npz" in capsys.readouterr().out


def test_given_inputs_decide(tmp_path: Path, capsys: Capture) -> None:
    file, load = write(tmp_path, long_module()), plugin_file(tmp_path, WRONG_RULE)
    arrays = str(tmp_path / "in.npz")
    np.savez(arrays, arg0=np.zeros((4, 4), np.float32), arg1=np.zeros((4, 4), np.float32))
    assert main(["bisect", file, load, "--inputs", arrays]) == 0, "minimum(0, 0) is 0"
    capsys.readouterr()


def test_a_test_of_the_user_decides(tmp_path: Path, capsys: Capture) -> None:
    """The test calls a module wrong that has lost its minimum: the rule that took it is named."""
    file, load = write(tmp_path, long_module()), plugin_file(tmp_path, WRONG_RULE)
    lost = f"! {has_minimum(tmp_path)}"
    words = ["bisect", file, load, f"--test={lost}", "--no-reduce"]
    assert main([*words, "-o", str(tmp_path / "o.hlo")]) == 1
    text = capsys.readouterr().out
    assert "minimum-is-first at v25" in text
    assert "the test says so" in text


# ---------------------------------------------------------------- reduce


def test_reduce_keeps_what_the_test_asks_for(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path, long_module())
    assert main(["reduce", file, f"--test={has_minimum(tmp_path)}"]) == 0
    captured = capsys.readouterr()
    small = hloc.parse(captured.out)
    assert small.instruction_count <= 5
    assert "reduced from 42 to" in captured.err
    again = main(["reduce", file, f"--test={has_minimum(tmp_path)}", "-q"])
    assert (again, capsys.readouterr().out) == (0, captured.out), "the same every time"


@pytest.mark.parametrize(
    ("test", "code", "message"),
    [
        ("false {}", 1, "the test does not exit with 0 for"),
        ("true", 2, "expected {} where the file goes"),
        (f"sleep {2 * PATIENCE} # {{}}", 1, "the test does not exit with 0 for"),
    ],
)
def test_a_test_that_fails_on_the_input_is_reported(
    test: str, code: int, message: str, tmp_path: Path, capsys: Capture
) -> None:
    words = ["reduce", write(tmp_path, long_module()), f"--test={test}", "--test-timeout=1"]
    assert main(words) == code
    assert message in capsys.readouterr().err
    assert main(words[:2]) == 2


def test_a_pass_that_refuses_a_module_is_named(tmp_path: Path, capsys: Capture) -> None:
    refuses = CRASHES.replace("1 / 0", "raise HloError('too odd')").replace(
        "from typing", "from hloc.errors import HloError\nfrom typing", 1
    )
    file, load = write(tmp_path, long_module()), plugin_file(tmp_path, refuses)
    assert main([file, load, "--passes=planted"]) == 1
    error = capsys.readouterr().err
    assert "error: too odd" in error
    assert "note: in pass planted" in error
    out = tmp_path / "small.hlo"
    assert main(["bisect", file, load, "--passes=cse,planted", "-o", str(out)]) == 1
    assert "pass planted fails" in capsys.readouterr().out
    assert hloc.load(str(out)).instruction_count <= 4


ENDLESS = """HloModule loop

condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[4] add(x, x)
  b = f32[4] subtract(a, x)
  c = f32[4] minimum(b, a)
  d = f32[4] multiply(c, b)
  ROOT r = (s32[], f32[4]) tuple(next, d)
}

ENTRY e {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(s), condition=condition, body=body
  ROOT out = f32[4] get-tuple-element(w), index=1
}
"""


def test_candidates_that_loop_for_ever_are_given_up(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its step the loop has no end; many cuts take it away."""
    monkeypatch.setattr("hloc.cli.bisect_command.patience_for", lambda s: 0.4 + 5 * s)
    file, load = write(tmp_path, ENDLESS), plugin_file(tmp_path, WRONG_RULE)
    out = tmp_path / "small.hlo"
    words = ["bisect", file, load, "--passes=algebraic-simplifier", "-o", str(out)]
    assert main(words) == 1
    assert "the time limit ended it" not in capsys.readouterr().err
    assert hloc.load(str(out)).instruction_count < 16


def test_a_run_is_given_up_after_its_time() -> None:
    """In the evaluator and in compiled code, also with a longer limit inside."""
    endless = hloc.parse(ENDLESS.replace("one = s32[] constant(1)", "one = s32[] constant(0)"))
    x = np.ones(4, np.float32)
    for runner in (evaluated, compiled):
        started = time.process_time()
        with pytest.raises(TookTooLong):
            within(runner, 0.3)(endless, [x])
        assert time.process_time() - started < 5
    (found,) = within(compiled, PATIENCE)(hloc.parse(ENDLESS), [x])
    np.testing.assert_array_equal(found, x)
    assert patience_for(0.5) == 6.0
