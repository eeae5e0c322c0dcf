"""Recomputation lowers the memory that is really assigned, and changes no value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc import driver
from hloc.codegen.cpu.backend import CpuBackend
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pass_base import PassContext
from hloc.opt.rematerialization import HloRematerialization
from hloc.options import CompileOptions
from tests.unit.memory.random_programs import random_module

IN_A_LOOP = """HloModule loop

condition {
  state = (s32[], f32[1000], f32[1000]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] constant(3)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
  state = (s32[], f32[1000], f32[1000]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  v = f32[1000] get-tuple-element(state), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  w = f32[1000] get-tuple-element(state), index=2
  a = f32[1000] sine(w)
  b = f32[1000] reverse(a), dimensions={0}
  c = f32[1000] multiply(a, b)
  d = f32[1000] reverse(c), dimensions={0}
  e = f32[1000] multiply(c, d)
  f = f32[1000] reverse(e), dimensions={0}
  g = f32[1000] multiply(e, f)
  k = f32[1000] add(g, a)
  h = f32[1000] add(k, v)
  ROOT result = (s32[], f32[1000], f32[1000]) tuple(next, h, w)
}

ENTRY main {
  p = f32[1000] parameter(0)
  zero = s32[] constant(0)
  initial = (s32[], f32[1000], f32[1000]) tuple(zero, p, p)
  loop = (s32[], f32[1000], f32[1000]) while(initial), condition=condition, body=body
  ROOT out = f32[1000] get-tuple-element(loop), index=1
}
"""


def layers(count: int) -> str:
    """A forward and a backward sweep: the latter reads what the former made, last first."""
    lines = ["x0 = f32[500] parameter(0)"]
    for i in range(count):
        lines.append(f"y{i} = f32[500] reverse(x{i}), dimensions={{0}}")
        lines.append(f"x{i + 1} = f32[500] cosine(y{i})")
    lines.append(f"g{count} = f32[500] reverse(x{count}), dimensions={{0}}")
    for i in reversed(range(count)):
        lines.append(f"t{i} = f32[500] multiply(g{i + 1}, y{i})")
        lines.append(f"g{i} = f32[500] reverse(t{i}), dimensions={{0}}")
    return (
        "HloModule layers\nENTRY e {\n  " + "\n  ".join(lines) + "\n  ROOT r = f32[500] abs(g0)\n}"
    )


def limited(module: Module, limit: int) -> tuple[Module, PassContext]:
    context = PassContext(remarks=[])
    copy = clone_module(module)
    HloRematerialization(limit).run(copy, context)
    verify(copy)
    return copy, context


def arena_bytes(module: Module) -> int:
    backend, copy = CpuBackend(share_outputs=False), clone_module(module)
    return backend.plan(copy, CompileOptions(opt_level=0)).plan.assignment.arena_bytes


@pytest.mark.parametrize("text", [layers(8), IN_A_LOOP], ids=["layers", "loop body"])
def test_the_arena_gets_smaller_and_values_stay(text: str) -> None:
    module = hloc.parse(text)
    copy, context = limited(module, 1)
    assert arena_bytes(copy) < arena_bytes(module)
    assert context.remarks
    assert context.remarks[0].kind == "missed"
    (parameter,) = module.entry.parameters
    x = np.linspace(-1, 1, parameter.array.elements, dtype=np.float32)
    (expected,) = driver.compile_as_it_stands(module)(x)
    (found,) = driver.compile_as_it_stands(copy)(x)
    np.testing.assert_array_equal(found, expected)


def test_no_more_is_computed_again_than_the_limit_asks_for() -> None:
    module = hloc.parse(layers(8))
    fixed = 2000
    peak = arena_bytes(module)
    _, gentle = limited(module, fixed + peak - 2000)
    _, harsh = limited(module, 1)
    assert 0 < gentle.rewrites < harsh.rewrites
    assert gentle.remarks
    assert gentle.remarks[0].kind == "passed"


def test_the_rewrite_limit_is_kept() -> None:
    copy = hloc.parse(layers(8))
    context = PassContext(rewrite_limit=1)
    assert HloRematerialization(1).run(copy, context)
    assert context.rewrites == 1
    verify(copy)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_random_programs_keep_their_values(seed: int) -> None:
    module = hloc.parse(random_module(seed))
    copy, _ = limited(module, 1)
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-3, 4, (6, 2, 2)).astype(np.float32) for _ in module.entry.parameters]
    expected = hloc.evaluate(module, *arrays)
    for x, y in zip(driver.compile_as_it_stands(copy)(*arrays), expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_the_memory_limit_of_a_compilation_leads_here() -> None:
    options = CompileOptions(opt_level=0, memory_limit_bytes=4096)
    assert str(driver.pipeline_of(options)) == "hlo-rematerialization{memory-limit-bytes=4096}"
