"""Optimised random modules give bit for bit what the plain ones give.

The modules are full of 0, -0, 1, infinities, NaN and the ends of integer types, so that a rule
that forgets one of them is caught, and of views and broadcasts, so that fusion is put to the test.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pipeline import Pipeline
from hloc.opt.pipelines import PIPELINES
from tests.inputs import inputs_for
from tests.unit.opt.random_modules import RandomModule


def optimised(module: Module, level: int) -> Module:
    copy = clone_module(module)
    Pipeline.parse(",".join(PIPELINES[level]), check_changed=True).run(copy)
    verify(copy)
    return copy


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal, signs of zeros included; any NaN equals any other."""
    if a.dtype.kind != "f":
        return bool((a == b).all())
    nan = np.isnan(a) & np.isnan(b)
    return bool((nan | ((a == b) & (np.signbit(a) == np.signbit(b)))).all())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([15, 30, 60]), st.sampled_from([1, 2]))
def test_results_are_the_same(seed: int, size: int, level: int) -> None:
    module = RandomModule(seed).grown(size)
    verify(module)
    inputs = inputs_for(module, seed=seed % 7)
    want = hloc.evaluate(module, *inputs)
    got = hloc.evaluate(optimised(module, level), *inputs)
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        assert same_bits(g, w), f"result {number}: {g} instead of {w}\n{module}"


@pytest.mark.parametrize("seed", range(5))
def test_same_module_same_text(seed: int) -> None:
    first, second = (optimised(RandomModule(seed).grown(40), 2) for _ in range(2))
    assert str(first) == str(second)
