"""Guards of the passes over loops and conditionals, and the analyses that they rest on."""

import json
import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.analysis.liveness import analyse_liveness
from hloc.analysis.trip_count import STEPS, TripCount, trip_count
from hloc.analysis.value_range import decided
from hloc.dtypes import S8, U8
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline

ALL = (
    "while-loop-simplifier,while-loop-constant-sinking,while-loop-invariant-code-motion,"
    "hlo-module-dce,conditional-simplifier,conditional-to-select"
)


def counter(
    dtype: str, start: float, limit: float, step: str, direction: str, flip: bool = False
) -> Module:
    """Return a module with a loop over one counter; `step` computes `next` from `i` and `one`."""
    operands = "n, i" if flip else "i, n"
    return hloc.parse(f"""HloModule m
cond {{
  s = ({dtype}[]) parameter(0)
  i = {dtype}[] get-tuple-element(s), index=0
  n = {dtype}[] constant({limit})
  ROOT c = pred[] compare({operands}), direction={direction}
}}
body {{
  s = ({dtype}[]) parameter(0)
  i = {dtype}[] get-tuple-element(s), index=0
  {step}
  ROOT t = ({dtype}[]) tuple(next)
}}
ENTRY e {{
  z = {dtype}[] constant({start})
  t = ({dtype}[]) tuple(z)
  ROOT l = ({dtype}[]) while(t), condition=cond, body=body
}}""")


def the(module: Module, opcode: str) -> Instruction:
    """Return the one instruction of the entry with `opcode`."""
    (found,) = (inst for inst in module.entry.instructions if inst.is_a(opcode))
    return found


def steps_of(dtype: str, start: int, limit: int, step: int, direction: str) -> int | None:
    """Return how often the loop runs, found by running it; None if it never ends."""
    low, size = (-128, 256) if dtype == "s8" else (0, 256)
    holds: Callable[[int, int], bool] = {
        "LT": operator.lt,
        "LE": operator.le,
        "GT": operator.gt,
        "GE": operator.ge,
        "EQ": operator.eq,
        "NE": operator.ne,
    }[direction]
    value = start
    for count in range(2 * size):
        if not holds(value, limit):
            return count
        value = (value + step - low) % size + low
    return None


# ---------------------------------------------------------------- trip counts


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_trip_counts_are_those_of_the_loop(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["s8", "u8"]))
    low, high = (-128, 127) if dtype == "s8" else (0, 255)
    numbers = st.one_of(
        st.integers(low, high),
        st.sampled_from([low, low + 1, high - 1, high]),
    )
    start, limit, amount = data.draw(numbers), data.draw(numbers), data.draw(numbers)
    direction = data.draw(st.sampled_from(["LT", "LE", "GT", "GE", "EQ", "NE"]))
    opcode = data.draw(st.sampled_from(["add", "subtract"]))
    flip = data.draw(st.booleans())
    written = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}.get(direction, direction)
    step = f"one = {dtype}[] constant({amount})\n  next = {dtype}[] {opcode}(i, one)"
    module = counter(dtype, start, limit, step, written if flip else direction, flip)
    found = trip_count(the(module, "while"))
    signed = -amount if opcode == "subtract" else amount
    want = steps_of(dtype, start, limit, signed, direction)
    if found is None:
        assert want is None or want > STEPS
        return
    assert found.count == want
    if found.variable is not None:
        type_ = S8 if dtype == "s8" else U8
        size = 1 << type_.bits
        assert (found.final(type_) - start - signed * found.count) % size == 0
        assert low <= found.final(type_) <= high
        if found.count:
            assert low <= found.range[0] <= found.range[1] <= high


def test_steps_are_followed_for_floats() -> None:
    step = "one = f32[] constant(0.25)\n  next = f32[] add(i, one)"
    assert trip_count(the(counter("f32", 0, 1, step, "LT"), "while")) == TripCount(4)


def test_narrow_floats_and_functions_that_round_are_not_followed() -> None:
    step = "one = bf16[] constant(0.25)\n  next = bf16[] add(i, one)"
    assert trip_count(the(counter("bf16", 0, 1, step, "LT"), "while")) is None
    step = "next = f32[] exponential(i)"
    assert trip_count(the(counter("f32", 0, 5, step, "LT"), "while")) is None


def test_following_ends_where_the_loop_does_not() -> None:
    assert (
        trip_count(the(counter("s32", 0, 5, "next = s32[] multiply(i, i)", "LT"), "while")) is None
    )
    step = "one = s32[] constant(3)\n  next = s32[] xor(i, one)"
    assert trip_count(the(counter("s32", 0, 5, step, "LT"), "while")) is None


@given(
    st.sampled_from(["LT", "LE", "GT", "GE", "EQ", "NE"]),
    *[st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted) for _ in range(2)],
)
def test_compares_of_ranges(direction: str, left: list[int], right: list[int]) -> None:
    compare = {
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
        "EQ": np.equal,
        "NE": np.not_equal,
    }[direction]
    answers = {
        bool(compare(x, y))
        for x in range(left[0], left[1] + 1)
        for y in range(right[0], right[1] + 1)
    }
    want = answers.pop() if len(answers) == 1 else None
    assert decided(direction, (left[0], left[1]), (right[0], right[1])) is want


# ---------------------------------------------------------------- loops that must go or stay


def test_a_loop_without_end_goes_if_nobody_needs_its_result() -> None:
    """XLA removes it too, so programs with one end."""
    module = hloc.parse("""HloModule m
cond { s = (s32[], f32[4]) parameter(0) ROOT c = pred[] constant(true) }
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  i1 = s32[] add(i, i)
  ROOT t = (s32[], f32[4]) tuple(i1, x)
}
ENTRY e {
  x = f32[4] parameter(0)
  i = s32[] parameter(1)
  t = (s32[], f32[4]) tuple(i, x)
  l = (s32[], f32[4]) while(t), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(l), index=1
}""")
    Pipeline.parse("while-loop-simplifier,dce", check_changed=True).run(module)
    assert module.entry.root.is_a("parameter")
    assert not [i for i in module.entry.instructions if i.is_a("while")]


def test_a_loop_over_nothing_goes() -> None:
    module = hloc.parse("""HloModule m
cond { s = () parameter(0) ROOT c = pred[] constant(true) }
body { s = () parameter(0) ROOT t = () tuple() }
ENTRY e { t = () tuple() ROOT l = () while(t), condition=cond, body=body }""")
    Pipeline.parse("while-loop-simplifier,dce", check_changed=True).run(module)
    assert module.entry.root.is_a("tuple")


def test_counting_away_from_the_limit_ends_by_wrapping_around() -> None:
    module = hloc.parse("""HloModule m
cond { s = s32[] parameter(0) n = s32[] constant(100) ROOT c = pred[] compare(s, n), direction=LT }
body { s = s32[] parameter(0) k = s32[] constant(-1) ROOT r = s32[] add(s, k) }
ENTRY e { z = s32[] constant(42) ROOT l = s32[] while(z), condition=cond, body=body }""")
    Pipeline.parse("while-loop-simplifier,dce", check_changed=True).run(module)
    assert [int(x) for x in hloc.evaluate(module)] == [2**31 - 1]


EFFECT = """HloModule m
cond {{
  s = (s32[], token[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({limit})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], token[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = token[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  y = f32[4] get-tuple-element(s), index=3
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  x1 = f32[4] add(x, x)
  y1 = f32[4] add(y, y)
  o = token[] outfeed(x1, k), outfeed_shape=f32[4]
  ROOT t = (s32[], token[], f32[4], f32[4]) tuple(i1, {token}, x1, y1)
}}
ENTRY e {{
  x = f32[4] parameter(0)
  z = s32[] constant(0)
  k = token[] after-all()
  t = (s32[], token[], f32[4], f32[4]) tuple(z, k, x, x)
  l = (s32[], token[], f32[4], f32[4]) while(t), condition=cond, body=body
  k1 = token[] get-tuple-element(l), index=1
  ROOT o = token[] outfeed(x, k1), outfeed_shape=f32[4]
}}"""


@pytest.mark.parametrize("token", ["o", "k"])
def test_what_an_effect_in_the_body_needs_stays(token: str) -> None:
    """Also the token that the effect behind the loop waits for, even if the body hands it on."""
    module = hloc.parse(EFFECT.format(limit=5, token=token))
    Pipeline.parse(f"fixpoint({ALL},tuple-simplifier,dce)").run(module)
    verify(module)
    loop = the(module, "while")
    assert str(loop.shape) in ("(s32[], token[], f32[4]{0})",)
    assert [i for i in loop.called[1].instructions if i.is_a("outfeed")]
    token_behind = the(module, "outfeed").operands[1]
    assert token_behind.is_a("get-tuple-element")
    assert token_behind.operands[0] is loop


def test_an_effect_in_a_loop_that_runs_once_happens_once() -> None:
    module = hloc.parse(EFFECT.format(limit=1, token="o"))
    Pipeline.parse(f"fixpoint({ALL},tuple-simplifier,dce)").run(module)
    verify(module)
    assert sum(i.is_a("outfeed") for i in module.entry.instructions) == 2


def test_an_effect_in_an_inner_loop_keeps_the_outer_one() -> None:
    """The inner loop is written anew first; the new one has an effect as the old one had."""
    module = hloc.parse("""HloModule m
icond {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
ibody {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  y = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  y1 = f32[4] add(y, y)
  k = token[] after-all()
  o = token[] outfeed(x, k), outfeed_shape=f32[4]
  ROOT t = (s32[], f32[4], f32[4]) tuple(i1, x, y1)
}
cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  z = s32[] constant(0)
  t0 = (s32[], f32[4], f32[4]) tuple(z, x, x)
  l = (s32[], f32[4], f32[4]) while(t0), condition=icond, body=ibody
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  ROOT t = (s32[], f32[4]) tuple(i1, x)
}
ENTRY e {
  x = f32[4] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[4]) tuple(z, x)
  l = (s32[], f32[4]) while(t), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(l), index=1
}""")
    Pipeline.parse(f"fixpoint({ALL},tuple-simplifier,dce)").run(module)
    verify(module)
    outer = the(module, "while")
    (inner,) = (i for i in outer.called[1].instructions if i.is_a("while"))
    assert [i for i in inner.called[1].instructions if i.is_a("outfeed")]
    assert module.entry.root.is_a("parameter")


DEAD = """HloModule m
cond {{
  s = (s32[], {type}, {type}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], {type}, {type}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {type} get-tuple-element(s), index=1
  y = {type} get-tuple-element(s), index=2
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  x1 = {type} add(x, x)
  y1 = {type} add(y, x)
  ROOT t = (s32[], {type}, {type}) tuple(i1, x1, y1){in_body}
}}
ENTRY e {{
  x = {type} parameter(0)
  z = s32[] constant(0)
  t = (s32[], {type}, {type}) tuple(z, x, x)
  l = (s32[], {type}, {type}) while(t), condition=cond, body=body{common}
  ROOT r = {type} get-tuple-element(l), index=1
}}"""


@pytest.mark.parametrize(
    ("kind", "common", "in_body"),
    [
        ("f32[<=4]", "", ""),
        ("f32[4]", ", control-predecessors={x}", ""),
        ("f32[4]", "", ", control-predecessors={y1}"),
    ],
)
def test_loops_left_alone(kind: str, common: str, in_body: str) -> None:
    """Dynamic dimensions and control dependencies."""
    module = hloc.parse(DEAD.format(type=kind, common=common, in_body=in_body))
    assert not Pipeline.parse(ALL, check_changed=True).run(module)


def test_attributes_that_list_leaves_go_with_the_leaves() -> None:
    common = (
        ", sharding={{replicated}, {replicated}, {replicated}}"
        ', backend_config={"known_induction_variable":{"tuple_index":"0"}}'
        ', metadata={op_name="loop"}'
    )
    module = hloc.parse(DEAD.format(type="f32[4]", common=common, in_body=""))
    Pipeline.parse("while-loop-simplifier,dce").run(module)
    verify(module)
    loop = the(module, "while")
    assert str(loop.shape) == "(s32[], f32[4]{0})"
    assert loop.common.sharding is None
    assert loop.common.backend_config is None
    assert loop.common.metadata is not None
    assert loop.common.metadata.op_name == "loop"


def test_a_body_that_two_loops_share_is_not_changed_for_one() -> None:
    text = DEAD.format(type="f32[4]", common="", in_body="")
    text = text.replace(
        "ROOT r = f32[4] get-tuple-element(l), index=1",
        """a = f32[4] get-tuple-element(l), index=1
  m = (s32[], f32[4], f32[4]) while(t), condition=cond, body=body
  b = f32[4] get-tuple-element(m), index=2
  ROOT r = f32[4] subtract(a, b)""",
    )
    module = hloc.parse(text)
    x = np.array([1, 2, 3, 4], np.float32)
    (want,) = hloc.evaluate(module, x)
    Pipeline.parse(f"fixpoint({ALL},tuple-simplifier,cse,dce)").run(module)
    verify(module)
    np.testing.assert_array_equal(hloc.evaluate(module, x)[0], want)


def test_the_rewrite_limit_is_kept() -> None:
    text = DEAD.format(type="f32[4]", common="", in_body="")
    for limit in range(4):
        context = PassContext(rewrite_limit=limit)
        module = hloc.parse(text)
        Pipeline.parse(f"fixpoint({ALL},while-loop-unroller)", check_changed=True).run(
            module, context
        )
        assert context.rewrites <= limit
        verify(module)


def test_annotations_are_the_texts_of_xla() -> None:
    module = counter("s32", 2, 9, "one = s32[] constant(3)\n  next = s32[] add(i, one)", "LT")
    Pipeline.parse("while-loop-trip-count-annotator", check_changed=True).run(module)
    config = the(module, "while").common.backend_config
    assert json.loads(config or "") == {
        "known_trip_count": {"n": "3"},
        "known_init_step": {"init": "2", "step": "3"},
        "known_induction_variable": {"tuple_index": "0"},
    }


# ---------------------------------------------------------------- liveness and conditionals


def test_results_that_only_the_condition_needed_are_not_live() -> None:
    module = hloc.parse(DEAD.format(type="f32[4]", common="", in_body=""))
    loop = the(module, "while")
    liveness = analyse_liveness(module)
    assert [liveness.is_live(loop, (n,)) for n in range(3)] == [False, True, False]


def test_state_that_goes_round_through_two_loops_is_dead() -> None:
    """The outer element feeds the inner one and the inner one the outer; nobody else reads it."""
    text = DEAD.format(type="f32[4]", common="", in_body="")
    inner, _, entry = text.partition("ENTRY")
    inner = inner.partition("\n")[2]
    outer = inner.replace("cond {", "ocond {").replace("body {", "obody {")
    outer = outer.replace(
        "x1 = f32[4] add(x, x)",
        """z = s32[] constant(0)
  u = (s32[], f32[4], f32[4]) tuple(z, x, y)
  w = (s32[], f32[4], f32[4]) while(u), condition=cond, body=body
  x1 = f32[4] get-tuple-element(w), index=1""",
    )
    outer = outer.replace("add(y, x)", "get-tuple-element(w), index=2")
    entry = entry.replace("condition=cond, body=body", "condition=ocond, body=obody")
    module = hloc.parse(f"HloModule m\n{inner}{outer}ENTRY{entry}")
    Pipeline.parse("hlo-module-dce,dce", check_changed=True).run(module)
    verify(module)
    loop = the(module, "while")
    (within,) = (i for i in loop.called[1].instructions if i.is_a("while"))
    assert str(loop.shape) == str(within.shape) == "(s32[], f32[4]{0})"


CONDITIONAL = """HloModule m
on_true {{
  s = f32[4] parameter(0)
  k = token[] after-all()
  {effect}
  ROOT r = (f32[4], f32[4]) tuple(s, s)
}}
on_false {{
  s = f32[4] parameter(0)
  n = f32[4] negate(s)
  ROOT r = (f32[4], f32[4]) tuple(n, s)
}}
ENTRY e {{
  p = pred[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] parameter(2)
  c = (f32[4], f32[4]) conditional(p, x, y), true_computation=on_true, false_computation=on_false
  ROOT r = f32[4] get-tuple-element(c), index=1
}}"""


def test_a_branch_with_an_effect_keeps_the_conditional() -> None:
    effect = "o = token[] outfeed(s, k), outfeed_shape=f32[4]"
    module = hloc.parse(CONDITIONAL.format(effect=effect))
    Pipeline.parse(f"fixpoint({ALL},dce)", check_changed=True).run(module)
    verify(module)
    the(module, "conditional")


def test_results_that_no_branch_computes_are_picked() -> None:
    module = hloc.parse(CONDITIONAL.format(effect=""))
    Pipeline.parse("conditional-simplifier,dce", check_changed=True).run(module)
    verify(module)
    assert module.entry.root.is_a("select")


def test_the_unroller_says_why_it_does_not() -> None:
    context = PassContext(remarks=[])
    module = counter("s32", 0, 99, "one = s32[] constant(1)\n  next = s32[] add(i, one)", "LT")
    Pipeline.parse("while-loop-unroller").run(module, context)
    assert [r.text for r in context.remarks or ()] == ["it runs 99 times, more than 16"]


def test_a_loop_that_sends_is_left_to_the_target_to_refuse() -> None:
    """`maps-only` asks for the sizes of operands; what a send makes is no array and has none."""
    module = hloc.parse("""HloModule m
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  t = token[] after-all()
  sent = (f32[8], u32[], token[]) send(x, t), channel_id=1
  context = u32[] get-tuple-element(sent), index=1
  done = token[] send-done(sent), channel_id=1
  ROOT r = (s32[], f32[8]) tuple(next, x)
}
cond {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[8]) tuple(zero, x)
  ROOT w = (s32[], f32[8]) while(start), condition=cond, body=body
}
""")
    before = module.to_text()
    Pipeline.parse("while-loop-unroller{maps-only=true}").run(module)
    assert module.to_text() == before
