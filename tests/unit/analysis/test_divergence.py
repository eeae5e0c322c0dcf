"""Which computations devices may run unequally often."""

import hloc
from hloc.analysis.divergence import divergent_computations

COUNTED = """
more { s = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3) ROOT c = pred[] compare(i, n), direction=LT }
"""
UNTIL_SMALL = """
more { s = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
  ROOT c = pred[] custom-call(i), custom_call_target="ask" }
"""
BODY = """
inner { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }
body { s = (s32[], f32[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[2] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[2] call(x), to_apply=inner ROOT t = (s32[], f32[2]) tuple(j, y) }
"""
LOOP = """ENTRY main { x = f32[2] parameter(0) zero = s32[] constant(0)
  s = (s32[], f32[2]) tuple(zero, x)
  ROOT w = (s32[], f32[2]) while(s), condition=more, body=body }
"""


def divergent(text: str) -> set[str]:
    return {c.name for c in divergent_computations(hloc.parse(f"HloModule m\n{text}"))}


def test_loops_of_a_known_count_are_the_same_for_all() -> None:
    assert divergent(COUNTED + BODY + LOOP) == set()


def test_loops_that_end_by_their_data_may_differ_and_so_may_what_they_call() -> None:
    assert divergent(UNTIL_SMALL + BODY + LOOP) == {"more", "body", "inner"}


def test_branches_may_differ_unless_their_choice_is_constant() -> None:
    branches = """
left { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }
right { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }
ENTRY main { x = f32[2] parameter(0) p = pred[] PREDICATE
  ROOT c = f32[2] conditional(p, x, x), true_computation=left, false_computation=right }
"""
    assert divergent(branches.replace("PREDICATE", "parameter(1)")) == {"left", "right"}
    assert divergent(branches.replace("PREDICATE", "constant(true)")) == set()


def test_calls_are_as_their_caller() -> None:
    call = """
inner { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }
ENTRY main { x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=inner }
"""
    assert divergent(call) == set()
