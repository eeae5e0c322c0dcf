"""Kernels are counted alike in modules before and after fusion."""

import hloc
from hloc.analysis.kernel_count import kernel_counts

TEXT = """
HloModule m

double {
  x = f32[4] parameter(0)
  ROOT s = f32[4] add(x, x)
}

body {
  state = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[4] get-tuple-element(state), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  twice = f32[4] fusion(x), kind=kLoop, calls=double
  ROOT t = (s32[], f32[4]) tuple(next, twice)
}

condition {
  state = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  ten = s32[] constant(10)
  ROOT c = pred[] compare(i, ten), direction=LT
}

ENTRY e {
  x = f32[2,2] parameter(0)
  flat = f32[4] reshape(x)
  zero = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero, flat)
  w = (s32[], f32[4]) while(start), condition=condition, body=body
  y = f32[4] get-tuple-element(w), index=1
  ROOT r = f32[4] negate(y)
}
"""


def test_loops_count_once_and_what_moves_no_bytes_not_at_all() -> None:
    counts = kernel_counts(hloc.parse(TEXT))
    assert counts == {"add": 1, "fusion": 1, "compare": 1, "negate": 1}
