"""Passes over loops and conditionals keep what random modules compute."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.ir.verifier import verify
from hloc.opt.pipeline import Pipeline
from tests.unit.opt.random_loops import RandomLoop

PASSES = (
    "while-loop-simplifier",
    "fixpoint(while-loop-simplifier,tuple-simplifier,cse,dce)",
    "while-loop-invariant-code-motion",
    "while-loop-constant-sinking",
    "while-loop-trip-count-annotator",
    "while-loop-unroller",
    "hlo-module-dce",
    "conditional-simplifier",
    "conditional-to-select",
    "double-buffer-loop-unrolling{min-bytes=1}",
    "while-loop-dot-batching{min-work=1},while-loop-invariant-code-motion",
    "while-loop-dot-sinking{min-bytes=1},while-loop-simplifier",
    "while-loop-unroller,fixpoint(tuple-simplifier,constant-folding,conditional-simplifier,dce)",
    "while-loop-invariant-code-motion,while-loop-constant-sinking,while-loop-unroller,"
    "conditional-to-select,hlo-module-dce,while-loop-simplifier,conditional-simplifier,dce",
)
INPUTS = [np.array([0.5, -1.5, 2.0], np.float32) * np.float32(1 + n) for n in range(3)]


@pytest.mark.parametrize("passes", PASSES)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_stay(passes: str, seed: int) -> None:
    module = RandomLoop(seed).module_with_loop()
    verify(module)
    before = hloc.evaluate(module, *INPUTS)
    Pipeline.parse(passes, check_changed=True).run(module)
    verify(module)
    for got, want in zip(hloc.evaluate(module, *INPUTS), before, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("passes", PASSES[:8])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_passes_come_to_rest(passes: str, seed: int) -> None:
    """In a row with `dce` each pass stops changing the module soon."""
    module = RandomLoop(seed).module_with_loop()
    pipeline = Pipeline.parse(f"{passes},tuple-simplifier,cse,dce", check_changed=True)
    for _ in range(12):
        if not pipeline.run(module):
            return
    raise AssertionError(f"{passes} still changes the module after 12 rounds")
