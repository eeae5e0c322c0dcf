"""Runs in the child process, inputs, comparison of states, and who is to blame for a difference."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.report.input_specs import array_of, find_parameter
from repl.session import Session
from tests.repl.conftest import Say
from tests.waiting import PATIENCE, wait_for_work, wait_until

TEXT = """new <<END
HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  i = s32[] parameter(1)
  n = f32[4] negate(x)
  nn = f32[4] negate(n)
  part = f32[2] dynamic-slice(nn, i), dynamic_slice_sizes={2}
  ROOT r = (f32[4], f32[2]) tuple(nn, part)
}
END
"""

ENDLESS = """new <<END
HloModule endless
always {
  s = s32[] parameter(0)
  ROOT t = pred[] constant(true)
}
body {
  s.1 = s32[] parameter(0)
  ROOT same = s32[] add(s.1, s.1)
}
ENTRY e {
  x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=always, body=body
}
END
"""

WRONG_PLUGIN = '''
"""A rule that forgets NaN."""
from hloc.opt.pattern import P
from hloc.opt.registry import register_rules
from hloc.opt.rule import Rule
from hloc.opt.values import is_zero

def zero(computation, inst, found):
    return found["zero"]

register_rules(Rule("mul-zero", P("multiply", (P(), P(bind="zero", when=is_zero))), zero))
'''

MASK = """new <<END
HloModule mask
ENTRY e {
  x = f32[4] parameter(0)
  z = f32[] constant(0)
  zz = f32[4] broadcast(z), dimensions={}
  n = f32[4] negate(x)
  n2 = f32[4] negate(n)
  ROOT r = f32[4] multiply(n2, zz)
}
END
"""


def test_code_runs_in_a_child_that_stays(repl: Session, say: Say) -> None:
    say(TEXT)
    text = say("run")
    assert "out1 = f32[2]" in text
    assert "compare with s0 in the evaluator: OK" in text
    child = repl.child.pid
    assert child not in (None, os.getpid())
    say("apply -O2\nrun\nbench s0 s1")
    assert repl.child.pid == child


def test_code_that_does_not_end_is_stopped(repl: Session, say: Say) -> None:
    say(ENDLESS + "set timeout=1")
    with pytest.raises(hloc.HloError, match="stopped after 1 s"):
        say("run")
    assert repl.child.pid is None
    assert "out0" in say(f"set timeout={PATIENCE}\n" + TEXT + "run"), "the session goes on"


def test_a_crash_is_a_message(repl: Session, say: Say) -> None:
    say(ENDLESS)
    thread = _once_it_runs(repl, lambda child: os.kill(child, signal.SIGSEGV))
    with pytest.raises(hloc.HloError, match=r"crashed: segmentation fault \(SIGSEGV\)"):
        say("run")
    thread.join()
    assert "out0" in say(TEXT + "run")


def test_ctrl_c_ends_the_child(repl: Session, say: Say) -> None:
    say(ENDLESS)
    thread = _once_it_runs(repl, lambda _child: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        say("run")
    thread.join()
    assert repl.child.pid is None
    assert repl.current.label == "s0"


def _once_it_runs(repl: Session, act: Callable[[int], None]) -> threading.Thread:
    """Call `act` with the number of the child process, well after it has begun to work."""

    def wait() -> None:
        wait_until(lambda: repl.child.pid, "a child process starts")
        child = repl.child.pid
        assert child is not None
        wait_for_work(child, 1.0)
        act(child)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


# ---------------------------------------------------------------- inputs


def test_inputs_are_chosen_one_by_one(repl: Session, say: Say, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    say(TEXT + f"input x=@{tmp_path}/x.npy\ninput i=1")
    assert "out0 = f32[4] {0, 1, 2, 3}\nout1 = f32[2] {1, 2}" in say("run")
    assert "x f32[4] @" in say("inputs")
    say("input arg0=[4,3,2,1]")
    assert "{4, 3, 2, 1}" in say("run --interp")
    say("inputs random 3")
    assert not repl.inputs.specs


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("3.5", [3.5] * 4),
        ("-inf", [-np.inf] * 4),
        ("[1, nan, -inf, 2e3]", [1, np.nan, -np.inf, 2000]),
        ("4xf32=[0,1,2,3]", [0, 1, 2, 3]),
        ("zeros", [0] * 4),
        ("ones", [1] * 4),
        ("iota", [0, 1, 2, 3]),
    ],
)
def test_specs_are_arrays(spec: str, expected: list[float], repl: Session, say: Say) -> None:
    say(TEXT)
    module = repl.current.module
    array = array_of(spec, find_parameter(module, "x"), module, 0)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, np.array(expected, np.float32))


@pytest.mark.parametrize("number", [2**64 - 1, 2**53 + 1, -(2**63)])
def test_whole_numbers_of_64_bits_are_exact(number: int) -> None:
    kind = "u64" if number > 0 else "s64"
    module = hloc.parse(f"HloModule m\nENTRY e {{ ROOT x = {kind}[2] parameter(0) }}")
    array = array_of(str(number), find_parameter(module, "x"), module, 0)
    assert array.tolist() == [number, number]


def test_random_specs_stay_in_their_ranges(repl: Session, say: Say) -> None:
    say(TEXT)
    module = repl.current.module
    x, i = find_parameter(module, "%x"), find_parameter(module, "1")
    assert np.abs(array_of("uniform(-1,1)", x, module, 0)).max() <= 1
    assert array_of("normal(100,0.5)", x, module, 0).min() > 90
    special = [array_of("special", x, module, seed) for seed in range(9)]
    assert not np.isfinite(special).all()
    for seed in range(9):
        assert 0 <= array_of("ints(0,100)", i, module, seed) <= 2, "it is an index"
        assert 0 <= array_of("like-index(%part)", i, module, seed) <= 2


WRONG_INPUTS = {
    "input x": "which input",
    "input z=3": "the module takes no 'z'",
    "input x=normal(1)": "cannot read the input",
    "input x=uniform(2,1)": "needs LOW below HIGH",
    "input x=[1,2]": "the list has 2 elements, expected 4",
    "input x=[1,'a']": "cannot read the list",
    "input x=5xf32=ones": "x is 4xf32, not 5xf32",
    "input x=@/no/such.npy": "cannot read /no/such.npy",
    "input x=like-index(%part)": "the parameter is no index",
    "input i=nan": "has no NaN",
    "inputs random x": "expected a seed",
    "eval %zz": "no instruction named 'zz'",
    "compare tensorflow": "compare with what",
}


@pytest.mark.parametrize("line", WRONG_INPUTS)
def test_wrong_inputs_are_explained(line: str, say: Say) -> None:
    say(TEXT)
    with pytest.raises(hloc.HloError, match=WRONG_INPUTS[line]):
        say(line)


def test_values_inside_are_shown_and_watched(repl: Session, say: Say) -> None:
    say(TEXT + "input x=[1,2,3,4]")
    assert say("eval %n").startswith(
        "n = f32[4] {-1, -2, -3, -4}\nmin -4, max -1, mean -2.5, 0 NaN"
    )
    say("watch %n")
    assert "n = f32[4] {-1, -2, -3, -4}" in say("run")
    say("watch off")
    assert "n = " not in say("run").replace("mean = ", "")
    say(ENDLESS)
    with pytest.raises(hloc.HloError, match="same is in body, a called computation"):
        say("eval %same")


# ---------------------------------------------------------------- verify


def test_equal_states_are_compared_on_24_sets(say: Say) -> None:
    say(TEXT + "apply -O2")
    assert say("verify").startswith(
        "s0 ≡ s1 on 24 input sets (normal, uniform, special): 0 mismatches, max 0 ulp"
    )


def test_a_wrong_rule_is_caught_located_and_shown(repl: Session, say: Say, tmp_path: Path) -> None:
    path = tmp_path / "zero.py"
    path.write_text(WRONG_PLUGIN)
    text = say(f"plugin {path}\n{MASK}apply algsimp")
    assert "✗ verify s0 vs s1: differ on" in text
    assert "first: special, seed 0: x = {" in text
    assert "rewrite 2 of 2, rule mul-zero (zero.py:8)" in text
    assert "- r = f32[4] multiply(x, zz)" in text
    say("apply dce")
    assert "s1: rewrite 2 of 2, rule mul-zero" in say("verify s0")
    say("break verify\ngoto s0")
    assert "stopped at" in say("apply algsimp,cse")
    assert repl.breaks.rows[0].hits == 1


def test_states_that_cannot_be_compared_are_refused(say: Say) -> None:
    say(
        "new <<END\nHloModule m\nENTRY e {\nl = f32[] constant(0)\nh = f32[] constant(1)\n"
        "ROOT r = f32[4] rng(l, h), distribution=rng_uniform\n}\nEND"
    )
    with pytest.raises(hloc.HloError, match="rng draws different numbers"):
        say("verify")
    say("new <<END\nHloModule m\nENTRY e {\nROOT c = f32[99] constant({...})\n}\nEND")
    with pytest.raises(hloc.HloError, match="constant c has no values"):
        say("run")
    assert "out0 = f32[99] {0, 0" in say("set fill-constants=zeros\nrun")


def test_lower_forms_are_shown(say: Say) -> None:
    say(TEXT)
    assert "define void @kernel" in say("emit llvm-ir %n")
    assert "is_scheduled=true" in say("schedule")
    assert "parameters" in say("mem")
    assert "kernel_" in say("asm %n")
    with pytest.raises(hloc.HloError, match="did you mean 'schedule'"):
        say("emit schedul")


def test_targets_of_custom_calls_are_known_to_the_child(say: Say, tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    path.write_text('import hloc\nhloc.register_custom_call("my.twice", lambda x: 2 * x)\n')
    call = 'ROOT r = f32[2] custom-call(x), custom_call_target="my.twice"'
    text = f"HloModule m\nENTRY e {{\nx = f32[2] parameter(0)\n{call}\n}}"
    say(f"plugin {path}\nnew <<END\n{text}\nEND")
    assert "out0 = f32[2] {2, 2}" in say("input x=1\nrun")


@pytest.mark.jax
def test_xla_is_compared_with(say: Say) -> None:
    pytest.importorskip("jaxlib")
    say(TEXT + "apply -O2")
    assert "compare with s0 by XLA" in say("compare xla")
    say("jax lambda x, w: jnp.tanh(x @ w).sum() ; f32[4,8], f32[8,2]")
    assert "OK" in say("compare xla")
    with pytest.raises(hloc.HloError, match="name 'nothing' is not defined"):
        say("jax lambda x: nothing(x) ; f32[2]")


def test_compare_xla_without_jax_is_explained(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloc.jax.xla_program.find_spec", lambda name: None)
    say(TEXT)
    with pytest.raises(hloc.HloError, match="needs the package jax"):
        say("compare xla")


DEVICES = """new <<END
HloModule rows
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY e {
  a = f32[2] parameter(0)
  n = f32[2] negate(a)
  ROOT r = f32[2] all-reduce(n), channel_id=1, use_global_device_ids=true, \
replica_groups=[2,2]<=[4], to_apply=sum
}
END
"""


def test_a_module_for_several_devices_shows_the_values_of_each(say: Say) -> None:
    """Also what stands before the collective, which alone would name no device."""
    say(DEVICES)
    said = say("input a=[1, 2]\nrun\nrun --interp\neval n")
    assert said.count("out0 on devices 0-3 = f32[2] {-2, -4}") == 2
    assert "compare with s0 in the evaluator: OK" in said
    assert "n on devices 0-3 = f32[2] {-1, -2}" in said


def test_random_inputs_differ_between_devices(say: Say) -> None:
    said = say(DEVICES + "run")
    assert "out0 on devices 0-1 = f32[2] {" in said
    assert "out0 on devices 2-3 = f32[2] {" in said
