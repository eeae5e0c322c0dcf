"""Copies that XLA's buffers need after passes have changed a module: where they are put."""

import numpy as np

from hloc import driver
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.jax.buffers import keep_buffers_apart
from hloc.opt.pipeline import Pipeline

SWAP = """HloModule swap

body {
  p = (s32[], f32[2], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[2] get-tuple-element(p), index=1
  b = f32[2] get-tuple-element(p), index=2
  ca = f32[2] copy(a)
  cb = f32[2] copy(b)
  ROOT r = (s32[], f32[2], f32[2]) tuple(next, cb, ca)
}

condition {
  p = (s32[], f32[2], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}

ENTRY e {
  zero = s32[] constant(0)
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  cx = f32[2] copy(x)
  cy = f32[2] copy(y)
  start = (s32[], f32[2], f32[2]) tuple(zero, cx, cy)
  ROOT w = (s32[], f32[2], f32[2]) while(start), condition=condition, body=body
}
"""


def _without_copies() -> Module:
    """Return the loop after a rule has removed all its copies, and hloc has put its own in."""
    module = driver.parse_text(SWAP)
    assert Pipeline.parse("algsimp").run(module)
    assert "copy" not in module.opcodes
    keep_buffers_apart(module, tuple(module.log.events))
    verify(module)
    return module


def test_leaves_that_change_places_are_copied_twice_and_in_order() -> None:
    """One copy would be overwritten by the other: both are read before either is written."""
    module = _without_copies()
    (loop,) = [i for i in module.entry.instructions if i.is_a("while")]
    first, second = loop.called[1].root.operands[1:]
    for written, other in ((first, second), (second, first)):
        assert written.is_a("copy")
        assert written.operands[0].is_a("copy")
        assert other.operands[0] in written.control_predecessors


def test_a_loop_does_not_begin_in_memory_of_others() -> None:
    module = _without_copies()
    (loop,) = [i for i in module.entry.instructions if i.is_a("while")]
    assert [leaf.opcode.name for leaf in loop.operands[0].operands] == ["copy"] * 3


def test_the_answer_stays() -> None:
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    want = driver.evaluate(SWAP, x, y)
    for got, expected in zip(driver.evaluate(_without_copies(), x, y), want, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_value_that_is_two_results_becomes_two() -> None:
    module = driver.parse_text(
        """HloModule twice
ENTRY e {
  x = f32[2] parameter(0)
  n = f32[2] negate(x)
  m = f32[2] negate(x)
  ROOT r = (f32[2], f32[2], f32[2]) tuple(n, m, x)
}
"""
    )
    assert Pipeline.parse("cse").run(module)
    keep_buffers_apart(module, tuple(module.log.events))
    results = module.entry.root.operands
    assert len(set(results)) == 3
    assert not any(result.is_a("parameter") for result in results)


def test_an_unchanged_module_stays_as_it_is() -> None:
    module = driver.parse_text(SWAP)
    before = module.to_text()
    keep_buffers_apart(module, ())
    assert module.to_text() == before
