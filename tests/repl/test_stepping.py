"""Single rewrites, breakpoints, the pipeline with its cursor, and why rules do not fire."""

import pytest

import hloc
import hloc.opt.pipeline
from hloc.ir.verifier import verify
from repl.commands import execute
from repl.expressions import condition
from repl.session import Session
from repl.walk import Walk
from tests.repl.conftest import Say

TEXT = """new <<END
HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] negate(x)
  b = f32[4] negate(a)
  c = f32[4] negate(y)
  d = f32[4] negate(c)
  s = f32[4] add(b, d)
  t = f32[4] add(b, d)
  ROOT r = f32[4] multiply(s, t)
}
END
"""


@pytest.fixture(autouse=True)
def loaded(say: Say) -> None:
    say(TEXT)


def test_steps_are_the_rewrites_of_the_whole_pass(repl: Session, say: Say) -> None:
    whole = Session()
    whole.load_module(repl.current.module)
    list(execute(whole, "apply algsimp"))
    assert "rewrite 1/2" in say("step algsimp")
    assert repl.current.label == "s0+1"
    verify(repl.current.module)
    assert "rewrite 2/2" in say("step")
    assert repl.current.label == "s0+2"
    assert repl.current.module.to_text() == whole.current.module.to_text()
    assert "no rewrite is left" in say("step")
    say("continue")
    assert repl.current.label == "s1"
    assert repl.current.parent is repl.states[0]


def hloc_pipeline(text: str) -> hloc.opt.pipeline.Pipeline:
    return hloc.opt.pipeline.Pipeline.parse(text)


def test_a_step_is_taken_back(repl: Session, say: Say) -> None:
    say("step 2 algsimp")
    assert repl.current.label == "s0+2"
    say("step -b")
    assert repl.current.label == "s0+1"
    assert "rewrite 2/2" in say("step")
    say("step -b\nstep -b")
    assert repl.current.label == "s0"
    with pytest.raises(hloc.HloError, match="no rewrite to undo"):
        say("step -b")


def test_a_state_in_the_middle_of_a_pass_is_a_state(repl: Session, say: Say) -> None:
    say("step algsimp\napply dce,cse")
    assert repl.current.label == "s1"
    assert repl.current.parent is repl.state("s0+1")
    assert [entry.state.label for entry in repl.tree.entries()] == ["s0", "s0+1", "s1"]
    say("goto s0+1")
    assert "rewrite 2/2" in say("step")
    say("goto s0\nstep cse")
    assert repl.current.label == "s0+1", "the newer state has the label"


def test_rewrites_are_listed_with_rule_place_and_size(say: Say) -> None:
    text = say("rewrites algsimp")
    assert "algebraic-simplifier on s0: 2 rewrites" in text
    assert "1 algebraic-simplifier/negate-negate %b -2" in text
    say("step algsimp")
    assert "✓ 1 algebraic-simplifier/negate-negate" in say("rewrites")
    say("apply dce\napply cse")
    assert "cse on" in say("rewrites")


def test_rules_are_listed_and_disabled(repl: Session, say: Say) -> None:
    assert "negate-negate negate arithmetic.py:" in say("rules algsimp")
    assert "negate-negate" not in say("disable negate-negate\nrewrites algsimp").split("\n", 1)[1]
    assert "disabled" in say("missed algsimp %b")
    assert "negate-negate" in say("enable all\nrewrites algsimp")
    with pytest.raises(hloc.HloError, match="did you mean 'negate-negate'"):
        say("disable negat-negate")
    with pytest.raises(hloc.HloError, match="cse has no rules"):
        say("rules cse")


def test_missed_explains_guards_patterns_and_exactness(say: Say) -> None:
    text = say("missed algsimp %r")
    assert "its pattern has another form" in text
    lines = "x = f32[] parameter(0)\ne = f32[] exponential(x)\nROOT l = f32[] log(e)"
    say(f"new <<END\nHloModule m\nENTRY c {{\n{lines}\n}}\nEND")
    assert "assumes-finite: needs set fast-math=on" in say("missed algsimp")
    say("set fast-math=on")
    assert "fast-math" not in say("missed algsimp")


def test_missed_after_a_pass_names_the_state_on_which_it_ran(say: Say) -> None:
    lines = "x = f32[4] parameter(0)\ne = f32[4] exponential(x)\n"
    lines += "s = f32[4] sort(e), dimensions={0}, to_apply=less\nROOT n = f32[4] negate(s)"
    less = "a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = pred[] compare(a, b), "
    less = f"less {{\n{less}direction=LT\n}}\n"
    say(f"new <<END\nHloModule m\n{less}ENTRY c {{\n{lines}\n}}\nEND")
    reason = "s reads it, and this sort is not fused with what it reads"
    assert reason in say("missed fusion")
    assert reason in say("missed fusion %s"), "asked of the reader that is named"
    assert say("missed fusion %n") == "fusion reported no missed optimisations of n in s0"
    say(
        "new <<END\nHloModule m\nENTRY c {\nx = f32[4] parameter(0)\ne = f32[4] exponential(x)\n"
        "ROOT n = f32[4] negate(e)\n}\nEND\napply fusion"
    )
    assert say("missed fusion").endswith("in s1; it ran on s0: ask there, after goto s0")


def test_breakpoints_stop_inside_passes(repl: Session, say: Say) -> None:
    say("break rule negate-negate\nbreak pass cse")
    assert "stopped at s0+1" in say("apply algsimp,cse,dce")
    assert "stopped at s0+2" in say("continue")
    assert "stopped at s1: breakpoint 2 pass cse, before it runs" in say("continue")
    assert "s2 cse" in say("continue")
    assert "hit 2 times" in say("info break")
    say("delete 1\ndelete 2")
    assert say("info break") == "no breakpoints"
    with pytest.raises(hloc.HloError, match="nothing to continue"):
        say("continue")


@pytest.mark.parametrize(
    ("where", "stop"),
    [
        ("op add", "s0+1"),
        ("%c", "s0+2"),
        ("if instructions < 8", "s0+1"),
        ('if "rewrites == 2 and count(negate) < 1"', "s0+2"),
        ("if 1 > 2", "s1"),
    ],
)
def test_breakpoints_look_at_rewrites(where: str, stop: str, repl: Session, say: Say) -> None:
    say(f"break {where}\napply algsimp")
    assert repl.current.label == stop


WRONG_BREAKS = {
    "break": "break where",
    "break pas cse": "cannot read",
    "break pass cs": "there is no pass",
    "break op ad": "there is no opcode",
    "break if __import__('os')": "a condition has no",
    "break if x.y > 3": "a condition has no",
    "break if instrutions > 1": "there is no count",
    "break if 1 +": "cannot read the condition",
    "break if 2 ** 9": "a condition has no",
    "delete 7": "there is no breakpoint 7",
}


@pytest.mark.parametrize("line", WRONG_BREAKS)
def test_wrong_breakpoints_are_explained(line: str, repl: Session, say: Say) -> None:
    with pytest.raises(hloc.HloError, match=WRONG_BREAKS[line]):
        say(line)
    assert not repl.breaks.rows


def test_conditions_are_never_python(repl: Session) -> None:
    module = repl.current.module
    assert condition("instructions == 9 and not computations > 1")(module, 0)
    assert condition("2 * instructions - 1 > 16 or flops < 0")(module, 0)
    for text in ("(" * 150, "[1]", "lambda: 1", "count(x)(y)", "'a' * 9", "1" * 300):
        with pytest.raises(hloc.HloError):
            condition(text)(module, 0)


def test_the_pipeline_has_a_cursor(repl: Session, say: Say) -> None:
    text = say("pipeline dce,fixpoint(algsimp,cse),dce")
    assert text.splitlines()[1] == "→ dce"
    assert "fixpoint (at most 25 rounds)" in text
    assert "next: algebraic-simplifier" in say("until algsimp")
    assert "next: cse" in say("next")
    say("undo")
    assert "→ algebraic-simplifier" in say("pipeline"), "the cursor goes back as well"
    say("redo")
    assert "the pipeline is finished" in say("finish")
    with pytest.raises(hloc.HloError, match="is finished"):
        say("next")
    assert "→ cse" in say("goto s0\npipeline algsimp,cse,dce\nuntil cse\npipeline")


def test_a_walk_is_the_pipeline() -> None:
    pipeline = hloc_pipeline("fixpoint{limit=3}(dce,fixpoint(cse),algsimp),dce")
    walk = Walk.of("x", pipeline.passes)
    names = []
    for changed in (False, True, False, False, False, False, False, True):
        assert walk.upcoming is not None
        names.append(walk.upcoming.name)
        walk = walk.advanced(changed)
    assert names == [
        "dce", "cse", "cse", "algebraic-simplifier",
        "dce", "cse", "algebraic-simplifier", "dce",
    ]  # fmt: skip
    assert walk.upcoming is None
