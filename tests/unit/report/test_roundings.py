"""Differences that roundings explain are forgiven, others stay."""

import numpy as np

import hloc
from hloc.report.roundings import roundings_of

CANCELS = """HloModule m

ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] exponential(x)
  z = f32[2] log(y)
  d = f32[2] subtract(z, x)
  ROOT r = (f32[2], f32[2]) tuple(d, y)
}
"""
LOOP = """HloModule m

below {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(60)
  ROOT r = pred[] compare(i, n), direction=LT
}

step {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  unit = f32[] constant(1)
  rest = f32[] subtract(unit, x)
  rate = f32[] constant(3.9)
  grown = f32[] multiply(rate, x)
  y = f32[] multiply(grown, rest)
  ROOT r = (s32[], f32[]) tuple(next, y)
}

ENTRY e {
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[]) tuple(zero, x)
  end = (s32[], f32[]) while(start), condition=below, body=step
  ROOT r = f32[] get-tuple-element(end), index=1
}
"""


def test_what_cancels_is_forgiven_and_nothing_else() -> None:
    module = hloc.parse(CANCELS)
    inputs = [np.array([0.1, 0.7], np.float32)]
    want = hloc.evaluate(module, *inputs)
    got = [want[0] + np.float32(1e-7), want[1] * np.float32(1.001)]
    first, second = roundings_of(module, inputs, want).forgiven(got, want)
    np.testing.assert_array_equal(first, want[0])
    np.testing.assert_array_equal(second, got[1])


def test_chaos_in_a_loop_is_seen() -> None:
    """Sixty steps of the logistic map leave no digit; the bodies of loops are moved, too."""
    module = hloc.parse(LOOP)
    inputs = [np.array(0.3, np.float32)]
    want = hloc.evaluate(module, *inputs)
    (spread,) = roundings_of(module, inputs, want).spreads.values()
    assert spread > 1e4
