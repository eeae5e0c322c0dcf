"""Copies of tuples and changes of layout between a tuple and its elements."""

import numpy as np
import pytest

import hloc
from hloc.codegen.lower.explicit_copies import make_copies_explicit
from hloc.errors import UnsupportedError
from hloc.ir.verifier import verify


def test_a_copy_of_a_tuple_becomes_copies_of_its_arrays() -> None:
    module = hloc.parse(
        """HloModule m
        ENTRY e {
          p = (f32[2], (s32[], f32[3])) parameter(0)
          ROOT c = (f32[2], (s32[], f32[3])) copy(p)
        }"""
    )
    make_copies_explicit(module)
    verify(module)
    copied = [str(inst.shape) for inst in module.entry.instructions if inst.is_a("copy")]
    assert copied == ["f32[2]{0}", "s32[]", "f32[3]{0}"]
    assert module.entry.root.is_a("tuple")


LAYOUTS = """HloModule m
ENTRY e {
  p = (f32[2,3]{0,1}, f32[2,3]{1,0}) parameter(0)
  a = f32[2,3]{1,0} get-tuple-element(p), index=0
  b = f32[2,3]{0,1} get-tuple-element(p), index=1
  t = (f32[2,3]{0,1}, f32[2,3]{0,1}) tuple(a, b)
  c = f32[2,3]{0,1} get-tuple-element(t), index=0
  d = f32[2,3]{0,1} get-tuple-element(t), index=1
  e = f32[2,3]{0,1} subtract(c, d)
  ROOT r = (f32[2,3]{0,1}, f32[2,3]{1,0}) tuple(e, a)
}"""


def test_an_array_that_changes_its_layout_is_copied() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = x * x
    found = hloc.compile(LAYOUTS, opt_level=0)(x, y)
    np.testing.assert_array_equal(found[0], x - y)
    np.testing.assert_array_equal(found[1], x)


def test_a_module_with_one_layout_stays_as_it_is() -> None:
    module = hloc.parse(LAYOUTS.replace("{0,1}", "{1,0}"))
    before = str(module)
    make_copies_explicit(module)
    assert str(module) == before


def test_a_permute_of_slices_is_refused_in_words() -> None:
    """Its operands are tuples: the buffers, then where the slices begin."""
    at, pair = "(s32[], s32[])", "((s32[], s32[]), (s32[], s32[]))"
    text = f"""HloModule m, num_partitions=2
ENTRY e {{
  a = f32[4,8] parameter(0)
  z = s32[] constant(0)
  o = s32[] constant(2)
  both = (f32[4,8], f32[4,8]) tuple(a, a)
  zero = {at} tuple(z, z)
  two = {at} tuple(o, z)
  starts = {pair} tuple(zero, two)
  ROOT r = (f32[4,8], f32[4,8]) collective-permute(both, both, starts, starts), channel_id=1,
    source_target_pairs={{{{0,1}},{{1,0}}}}, slice_sizes={{{{2,8}},{{2,8}}}}
}}
"""
    with pytest.raises(UnsupportedError, match="slices of a permute are not supported"):
        make_copies_explicit(hloc.parse(text))


def test_a_loop_keeps_its_state_as_its_body_says() -> None:
    """Passes give a loop the layout of its operand; inside it stays what it was."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = hloc.compile(
        """HloModule m
        condition {
          s = (s32[], f32[2,3]{1,0}) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(3)
          ROOT c = pred[] compare(i, n), direction=LT
        }
        body {
          s = (s32[], f32[2,3]{1,0}) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          a = f32[2,3]{1,0} get-tuple-element(s), index=1
          one = s32[] constant(1)
          j = s32[] add(i, one)
          b = f32[2,3]{1,0} add(a, a)
          ROOT r = (s32[], f32[2,3]{1,0}) tuple(j, b)
        }
        ENTRY e {
          x = f32[2,3]{0,1} parameter(0)
          z = s32[] constant(0)
          t = (s32[], f32[2,3]{0,1}) tuple(z, x)
          w = (s32[], f32[2,3]{0,1}) while(t), condition=condition, body=body
          g = f32[2,3]{0,1} get-tuple-element(w), index=1
          ROOT r = f32[2,3]{0,1} negate(g)
        }""",
        opt_level=0,
    )(x)
    np.testing.assert_array_equal(found[0], -8 * x)


def test_a_reshape_that_moves_bytes_becomes_a_copy() -> None:
    module = hloc.parse(
        """HloModule m
        ENTRY e {
          x = f32[3,4]{0,1} parameter(0)
          ROOT r = f32[12] reshape(x)
        }"""
    )
    make_copies_explicit(module)
    verify(module)
    (copy,) = module.entry.root.operands
    assert copy.is_a("copy")
    assert copy.array.layout is None
