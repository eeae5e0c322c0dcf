"""Modules that once did not compile or gave wrong results: machine code against the evaluator.

Each text is the smallest that showed its fault.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.driver import parse_text
from tests.inputs import inputs_for
from tests.tolerance import bounds

SCALAR_FUSION = """HloModule scalar_parameter_as_root

body {
  ROOT p = f32[] parameter(0)
}

ENTRY e {
  x = f32[] parameter(0)
  ROOT r = f32[] fusion(x), kind=kLoop, calls=body
}
"""

VECTOR_OF_STARTS = """HloModule older_form_of_start_indices

ENTRY e {
  x = f32[5,7] parameter(0)
  at = s32[2] parameter(1)
  s = f32[2,3] dynamic-slice(x, at), dynamic_slice_sizes={2,3}
  n = f32[2,3] negate(s)
  u = f32[5,7] dynamic-update-slice(x, n, at)
  ROOT r = (f32[2,3], f32[5,7]) tuple(s, u)
}
"""

EMPTY_GATHER = """HloModule gather_of_nothing

ENTRY e {
  x = f32[0,2] parameter(0)
  i = s32[3] parameter(1)
  ROOT g = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={0,2}
}
"""

ALL_REDUCE_PAIR = """HloModule operand_and_result_of_an_all_reduce

add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}

ENTRY e {
  x = f32[3,2] parameter(0)
  s = (f32[3,2], f32[3,2]) all-reduce-start(x), replica_groups={}, to_apply=add
  d = f32[3,2] all-reduce-done(s)
  ROOT n = f32[3,2] negate(d)
}
"""

MAPPED_CONDITIONAL = """HloModule conditional_in_a_mapped_function

double {
  p = (f32[], f32[]) parameter(0)
  a = f32[] get-tuple-element(p), index=0
  ROOT r = f32[] add(a, a)
}

second {
  p = (f32[], f32[]) parameter(0)
  ROOT r = f32[] get-tuple-element(p), index=1
}

choose {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  less = pred[] compare(a, b), direction=LT
  t = (f32[], f32[]) tuple(a, b)
  ROOT r = f32[] conditional(less, t, t), true_computation=double, false_computation=second
}

ENTRY e {
  x = f32[37] parameter(0)
  y = f32[37] parameter(1)
  ROOT m = f32[37] map(x, y), dimensions={0}, to_apply=choose
}
"""

MAPPED_SWITCH = """HloModule switch_in_a_mapped_function

zero {
  p = s32[] parameter(0)
  ROOT r = s32[] constant(100)
}

one {
  p = s32[] parameter(0)
  ROOT r = s32[] negate(p)
}

rest {
  p = s32[] parameter(0)
  ROOT r = s32[] multiply(p, p)
}

choose {
  a = s32[] parameter(0)
  ROOT r = s32[] conditional(a, a, a, a), branch_computations={zero, one, rest}
}

ENTRY e {
  x = s32[37] parameter(0)
  ROOT m = s32[37] map(x), dimensions={0}, to_apply=choose
}
"""

REDUCER_WITH_LOOP = """HloModule loop_in_a_reducer

more {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}

step {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = s32[] add(x, i)
  ROOT r = (s32[], s32[]) tuple(j, y)
}

combine {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  s = s32[] add(a, b)
  z = s32[] constant(0)
  t = (s32[], s32[]) tuple(z, s)
  w = (s32[], s32[]) while(t), condition=more, body=step
  ROOT r = s32[] get-tuple-element(w), index=1
}

ENTRY e {
  x = s32[5,6] parameter(0)
  z = s32[] constant(0)
  ROOT r = s32[5] reduce(x, z), dimensions={1}, to_apply=combine
}
"""

FUSED_LOOP = """HloModule loop_in_a_fusion

more {
  p = (f32[5]) parameter(0)
  x = f32[5] get-tuple-element(p), index=0
  a = f32[1] slice(x), slice={[0:1]}
  s = f32[] reshape(a)
  n = f32[] constant(100)
  ROOT r = pred[] compare(s, n), direction=LT
}

step {
  p = (f32[5]) parameter(0)
  x = f32[5] get-tuple-element(p), index=0
  k = f32[] constant(9)
  b = f32[5] broadcast(k), dimensions={}
  y = f32[5] add(x, b)
  ROOT r = (f32[5]) tuple(y)
}

body {
  x = f32[5] parameter(0)
  t = (f32[5]) tuple(x)
  ROOT w = (f32[5]) while(t), condition=more, body=step
}

ENTRY e {
  x = f32[5] parameter(0)
  ROOT f = (f32[5]) fusion(x), kind=kLoop, calls=body
}
"""

FUSED_DOTS = """HloModule two_products_and_a_branch_in_a_fusion

yes {
  p = f32[3,3] parameter(0)
  ROOT r = f32[3,3] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

no {
  p = f32[3,3] parameter(0)
  ROOT r = f32[3,3] negate(p)
}

inner {
  x = f32[3,4] parameter(0)
  y = f32[4,3] parameter(1)
  ROOT d = f32[3,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

outer {
  x = f32[3,4] parameter(0)
  y = f32[4,3] parameter(1)
  c = pred[] parameter(2)
  a = f32[3,3] fusion(x, y), kind=kCustom, calls=inner
  b = f32[3,3] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = f32[3,3] conditional(c, b, b), true_computation=yes, false_computation=no
  ROOT s = f32[3,3] add(a, k)
}

ENTRY e {
  x = f32[3,4] parameter(0)
  y = f32[4,3] parameter(1)
  c = pred[] parameter(2)
  ROOT f = f32[3,3] fusion(x, y, c), kind=kCustom, calls=outer
}
"""

UNUSED_FOREIGN_RESULT = """HloModule result_that_nobody_reads

body {
  x = f32[4] parameter(0)
  d = f32[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  w = u8[16] custom-call(), custom_call_target="nobody_knows_this"
  ROOT t = (f32[], u8[16]) tuple(d, w)
}

ENTRY e {
  x = f32[4] parameter(0)
  f = (f32[], u8[16]) fusion(x), kind=kCustom, calls=body
  ROOT r = f32[] get-tuple-element(f), index=0
}
"""

READ_THROUGH_BITCAST = """HloModule operand_and_its_bitcast

body {
  x = f32[12] parameter(0)
  y = f32[12] parameter(1)
  r = f32[12] reverse(y), dimensions={0}
  ROOT s = f32[12] add(x, r)
}

ENTRY e {
  p = f32[3,4] parameter(0)
  n = f32[3,4] negate(p)
  a = f32[12] bitcast(n)
  b = f32[12] reshape(n)
  ROOT f = f32[12] fusion(a, b), kind=kLoop, calls=body
}
"""

OUTPUTS_OF_TWO_SIZES = """HloModule outputs_of_two_sizes

body {
  x = f32[12] parameter(0)
  n = f32[12] negate(x)
  h = f32[5] slice(x), slice={[7:12]}
  e = f32[5] exponential(h)
  ROOT t = (f32[12], f32[5]) tuple(n, e)
}

ENTRY e {
  p = f32[12] parameter(0)
  a = f32[12] abs(p)
  f = (f32[12], f32[5]) fusion(a), kind=kLoop, calls=body
  x = f32[12] get-tuple-element(f), index=0
  y = f32[5] get-tuple-element(f), index=1
  ROOT t = (f32[12], f32[5]) tuple(x, y)
}
"""

NARROW_PRODUCT = """HloModule product_of_narrow_floats

mul {
  p = f16[] parameter(0)
  q = f16[] parameter(1)
  ROOT r = f16[] multiply(p, q)
}

ENTRY e {
  x = f16[64] parameter(0)
  one = f16[] constant(1)
  ROOT r = f16[] reduce(x, one), dimensions={0}, to_apply=mul
}
"""

TEXTS = {
    text.split()[1]: text
    for text in (
        SCALAR_FUSION,
        VECTOR_OF_STARTS,
        EMPTY_GATHER,
        ALL_REDUCE_PAIR,
        MAPPED_CONDITIONAL,
        MAPPED_SWITCH,
        REDUCER_WITH_LOOP,
        FUSED_LOOP,
        FUSED_DOTS,
        READ_THROUGH_BITCAST,
        OUTPUTS_OF_TWO_SIZES,
    )
}


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_machine_code_agrees_with_the_evaluator(text: str, level: int) -> None:
    module = parse_text(text)
    arguments = inputs_for(module, special=False)
    expected = hloc.evaluate(module, *arguments)
    wanted = expected if isinstance(expected, (tuple, list)) else [expected]
    found = hloc.compile(module, opt_level=level)(*arguments)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, **bounds("f32 short sum"))


@pytest.mark.parametrize("level", [0, 2])
def test_what_only_an_unused_result_needs_is_not_asked_for(level: int) -> None:
    (found,) = hloc.compile(UNUSED_FOREIGN_RESULT, opt_level=level)(np.ones(4, np.float32))
    assert found == 4.0


@pytest.mark.parametrize("level", [0, 2])
def test_partial_products_of_narrow_floats_stay_in_range(level: int) -> None:
    """Large and small factors in turn: some of the partial products overflow f16."""
    x = np.tile(np.array([8.0, 8.0, 0.125, 0.125], np.float16), 16)
    (found,) = hloc.compile(NARROW_PRODUCT, opt_level=level)(x)
    assert found == 1.0
