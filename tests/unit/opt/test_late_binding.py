"""Started computations whose operands come with updates: run everywhere, refused where wrong."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.errors import HloError

LATE = """HloModule m

work {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  s = f32[4] negate(a)
  ROOT m = f32[4] multiply(s, b)
}

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  start = ((f32[4]), (), s32[]) async-start(x), calls=work
  held = ((f32[4]), (), s32[]) opt-barrier(start)
  more = ((f32[4], f32[4]), f32[4], s32[]) async-update(held, y)
  done = f32[4] async-done(more)
  s = ((f32[4]), (), u32[]) dot-start(done), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  u = ((f32[4], f32[4]), (), u32[]) dot-update(s, y)
  product = f32[] dot-done(u)
  ROOT t = (f32[4], f32[]) tuple(done, product)
}
"""

LOOP = """HloModule m

more {
  s = (s32[], ((s32[8]), s32[8], u32[])) parameter(0)
  ROOT l = pred[] compare(s#0, s32[] constant(3)), direction=LT
}

step {
  s = (s32[], ((s32[8]), s32[8], u32[])) parameter(0)
  n = s32[] add(s#0, s32[] constant(1))
  d = s32[8] negate-done(s#1)
  e = s32[8] add(d, d)
  a = ((s32[8]), s32[8], u32[]) negate-start(e)
  h = ((s32[8]), s32[8], u32[]) opt-barrier(a)
  ROOT t = (s32[], ((s32[8]), s32[8], u32[])) tuple(n, h)
}

ENTRY main {
  x = s32[8] parameter(0)
  z = s32[] constant(0)
  a = ((s32[8]), s32[8], u32[]) negate-start(x)
  i = (s32[], ((s32[8]), s32[8], u32[])) tuple(z, a)
  w = (s32[], ((s32[8]), s32[8], u32[])) while(i), condition=more, body=step
  ROOT d = s32[8] negate-done(w#1)
}
"""


@pytest.mark.parametrize("level", range(4))
def test_operands_that_come_late_are_those_of_the_computation(level: int) -> None:
    x, y = np.arange(8, dtype=np.float32).reshape(2, 4)
    values, product = hloc.compile(LATE, opt_level=level)(x, y)
    np.testing.assert_array_equal(values, -x * y)
    assert product == (-x * y * y).sum()
    expected = hloc.evaluate(hloc.parse(LATE), x, y)
    np.testing.assert_array_equal(expected[0], values)


@pytest.mark.parametrize("level", range(4))
def test_a_chain_goes_on_through_the_state_of_a_loop_and_a_barrier(level: int) -> None:
    x = np.arange(8, dtype=np.int32)
    (found,) = hloc.compile(LOOP, opt_level=level)(x)
    np.testing.assert_array_equal(found, 8 * x)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("async-update(held, y)", "async-update(held)", "element 0 of the result"),
        ("async-done(more)", "async-done(held)", r"which has operands \(f32\[4\]\), but 'work'"),
        ("f32[4] async-done(more)", "f32[5] async-done(more)", r"f32\[5\], but gives f32\[4\]"),
        ("async-update(held, y)", "async-update(y, y)", "must be an async-start"),
        ("held = ((f32[4]), (), s32[]) opt-barrier(start)",
         "held = ((f32[4]), (), s32[]) tuple(tuple(x), tuple(), s32[] constant(0))",
         "async-start or async-update, not tuple"),
        ("((f32[4], f32[4]), f32[4], s32[]) async-update(held, y)",
         "((s32[4], f32[4]), f32[4], s32[]) async-update(held, y)", "perhaps more, not"),
        ("async-start(x), calls", "async-start(x, y, y), calls", "element 0 of the result"),
    ],
)  # fmt: skip
def test_links_that_do_not_fit_are_refused(old: str, new: str, message: str) -> None:
    assert old in LATE
    with pytest.raises(HloError, match=message):
        hloc.parse(LATE.replace(old, new))


def test_one_computation_starts_another_once() -> None:
    text = LATE.replace(
        "ROOT t", "again = ((f32[4]), (), s32[]) async-start(x), calls=work\n  ROOT t"
    )
    with pytest.raises(HloError, match="called by more than one async-start"):
        hloc.parse(text)


def test_operands_bound_across_a_loop_are_refused_when_it_is_compiled() -> None:
    text = LOOP.replace("negate-start(e)", "async-start(e), calls=work")
    text = text.replace("negate-start(x)", "async-start(x), calls=work").replace(
        "negate-", "async-"
    )
    text = text.replace("((s32[8]), s32[8], u32[])", "((s32[8]), (), u32[])").replace(
        "more {", "work {\n  w = s32[8] parameter(0)\n  ROOT v = s32[8] negate(w)\n}\n\nmore {", 1
    )
    with pytest.raises(HloError, match="bound across a loop"):
        hloc.compile(text)
