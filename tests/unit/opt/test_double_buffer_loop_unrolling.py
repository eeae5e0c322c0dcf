"""Loops whose state alternates between two buffers copy nothing, and compute the same."""

import numpy as np
import pytest

import hloc
from hloc.codegen.plan.plan import CopyStep, LoopStep
from hloc.ir.verifier import verify
from hloc.opt.pipeline import Pipeline
from tests.unit.memory.random_programs import random_module

UNROLL = "double-buffer-loop-unrolling{min-bytes=1}"

STENCIL = """HloModule stencil

condition {
  s = (s32[], f32[3000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(STEPS)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[3000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3000] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  tail = f32[2999] slice(x), slice={[1:3000]}
  head = f32[1] slice(x), slice={[0:1]}
  rolled = f32[3000] concatenate(tail, head), dimensions={0}
  y = f32[3000] subtract(x, rolled)
  ROOT t = (s32[], f32[3000]) tuple(next, y)
}

ENTRY e {
  x = f32[3000] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[3000]) tuple(zero, x)
  loop = (s32[], f32[3000]) while(t), condition=condition, body=body
  ROOT r = f32[3000] get-tuple-element(loop), index=1
}
"""

WAVE = (
    STENCIL.replace("(s32[], f32[3000])", "(s32[], f32[3000], f32[3000])")
    .replace("tuple(zero, x)", "tuple(zero, x, x)")
    .replace("tuple(next, y)", "tuple(next, z, x)")
    .replace(
        "  ROOT t",
        "  w = f32[3000] get-tuple-element(s), index=2\n  z = f32[3000] subtract(y, w)\n  ROOT t",
    )
)
"""The state is the present array and the one before it, which the next one overwrites."""


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("text", [STENCIL, WAVE], ids=["stencil", "wave"])
def test_no_step_copies_its_state(text: str, steps: int) -> None:
    text = text.replace("STEPS", str(steps))
    x = np.random.default_rng(steps).integers(-9, 10, 3000).astype(np.float32)
    compiled = hloc.compile(text, opt_level=2)
    np.testing.assert_array_equal(compiled(x)[0], hloc.evaluate(hloc.parse(text), x)[0])
    plan = compiled.compiled.plan
    bodies = [
        plan.computations[step.body]
        for computation in plan.computations
        for step in computation
        if isinstance(step, LoopStep)
    ]
    assert len(bodies) == (steps > 1)
    assert not [step for body in bodies for step in body if isinstance(step, CopyStep)]


def test_random_programs_compile_to_the_same() -> None:
    fired = 0
    for seed in range(40):
        module = hloc.parse(random_module(seed))
        rng = np.random.default_rng(seed)
        count = len(module.entry.parameters)
        arrays = list(rng.integers(-3, 4, (count, 6, 2, 2)).astype(np.float32))
        before = hloc.evaluate(module, *arrays)
        fired += Pipeline.parse(UNROLL, check_changed=True).run(module)
        verify(module)
        for level in (0, 2):
            for got, want in zip(
                hloc.compile(module, opt_level=level)(*arrays), before, strict=True
            ):
                np.testing.assert_array_equal(got, want)
    assert fired >= 5
