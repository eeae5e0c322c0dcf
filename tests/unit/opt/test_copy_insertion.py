"""Copies stand at the boundaries, and the module still means the same."""

import numpy as np
import pytest

import hloc
from hloc.codegen.lower.explicit_copies import make_copies_explicit
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.calls.flatten_call_graph import FlattenCallGraph
from hloc.opt.copy_insertion import CopyInsertion
from hloc.opt.pass_base import PassContext
from tests.unit.memory.random_programs import random_module


def inserted(text: str) -> Module:
    module = hloc.parse(text)
    FlattenCallGraph().run(module, PassContext())
    CopyInsertion().run(module, PassContext())
    return module


def copies(module: Module, computation: str) -> int:
    found = next(c for c in module.computations if c.name == computation)
    return sum(inst.is_a("copy") for inst in found.instructions)


def loop(root: str) -> Module:
    shape = "(s32[], f32[4], f32[4])"
    return inserted(
        f"""HloModule m
        condition {{
          s = {shape} parameter(0)
          i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(3)
          ROOT c = pred[] compare(i, n), direction=LT
        }}
        body {{
          s = {shape} parameter(0)
          i = s32[] get-tuple-element(s), index=0
          a = f32[4] get-tuple-element(s), index=1
          b = f32[4] get-tuple-element(s), index=2
          one = s32[] constant(1)
          j = s32[] add(i, one)
          ab = f32[4] add(a, b)
          ROOT r = {shape} tuple({root})
        }}
        ENTRY main {{
          x = f32[4] parameter(0)
          y = f32[4] negate(x)
          z = s32[] constant(0)
          t = {shape} tuple(z, y, y)
          ROOT w = {shape} while(t), condition=condition, body=body
        }}"""
    )


@pytest.mark.parametrize(
    ("root", "inside", "outside"),
    [
        # outputs that are one array are copied too
        ("j, a, b", 1, 1 + 1),
        ("j, ab, b", 2, 2),
        ("j, ab, ab", 3, 3),
        ("j, b, a", 5, 3),  # old values are saved before new ones are written
    ],
)
def test_loops(root: str, inside: int, outside: int) -> None:
    module = loop(root)
    assert copies(module, "body") == inside
    assert copies(module, "main") == outside
    assert copies(module, "condition") == 0


def test_outputs_are_arrays_of_their_own() -> None:
    module = inserted(
        """HloModule m
        ENTRY main {
          x = f32[4] parameter(0)
          c = f32[4] constant({1, 2, 3, 4})
          n = f32[4] negate(x)
          ROOT t = (f32[4], f32[4], f32[4], f32[4]) tuple(x, c, n, n)
        }"""
    )
    assert copies(module, "main") == 3


def test_layouts_meet_at_a_copy() -> None:
    """A loop that is given its state in another order than it keeps it in."""
    text = """HloModule m
    condition {
      s = (s32[], f32[2,3]{0,1}) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT c = pred[] compare(i, n), direction=LT
    }
    body {
      s = (s32[], f32[2,3]{0,1}) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      a = f32[2,3]{0,1} get-tuple-element(s), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      ROOT r = (s32[], f32[2,3]{0,1}) tuple(j, a)
    }
    ENTRY main {
      x = f32[2,3]{1,0} parameter(0)
      z = s32[] constant(0)
      t = (s32[], f32[2,3]{1,0}) tuple(z, x)
      w = (s32[], f32[2,3]{0,1}) while(t), condition=condition, body=body
      ROOT r = f32[2,3]{0,1} get-tuple-element(w), index=1
    }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(hloc.compile(text, opt_level=0)(x)[0], x)


def test_random_programs_mean_the_same_and_a_second_run_does_nothing() -> None:
    for seed in range(25):
        text = random_module(seed)
        module = hloc.parse(text)
        make_copies_explicit(module)
        CopyInsertion().run(module, PassContext())
        verify(module)
        before = str(module)
        assert not CopyInsertion().run(module, PassContext())
        assert str(module) == before
        rng = np.random.default_rng(seed)
        count = len(module.entry.parameters)
        arrays = list(rng.integers(-3, 4, (count, 6, 2, 2)).astype(np.float32))
        expected = hloc.evaluate(hloc.parse(text), *arrays)
        for x, y in zip(hloc.evaluate(module, *arrays), expected, strict=True):
            np.testing.assert_array_equal(x, y)
