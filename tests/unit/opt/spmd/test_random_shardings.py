"""Random modules with random shardings: partitioned, they give bit for bit what they give whole.

The shardings are lists of devices, iotas and their transposes, partial replication, single devices,
and tiles that do not divide; on 2 to 8 devices.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.edges import edges_of
from hloc.ir.verifier import verify
from hloc.runtime.shards import cut_all, join_all
from tests.inputs import inputs_for
from tests.unit.opt.spmd.random_sharded import RandomSharded
from tests.unit.opt.test_random_modules import same_bits


def check(seed: int, size: int) -> None:
    """Partition the module of `seed`, and compare its answers with those of the whole."""
    text = RandomSharded(seed).annotated(size).to_text(large_constants=True)
    whole, local = hloc.parse(text), hloc.partition(text)
    verify(local)
    assert local.entry.name.endswith("_spmd")
    inputs, edges = inputs_for(whole, seed=seed % 7), edges_of(local)
    with np.errstate(all="ignore"):
        wanted = hloc.evaluate(whole, *inputs)
        found = join_all(evaluate_devices(local, cut_all(inputs, edges)), edges)
    for number, (f, w) in enumerate(zip(found, wanted, strict=True)):
        assert same_bits(np.asarray(f), np.asarray(w)), f"result {number} of\n{text}"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([30, 45]))
def test_parts_make_the_whole(seed: int, size: int) -> None:
    check(seed, size)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([30, 45, 70]))
def test_many_parts_make_the_whole(seed: int, size: int) -> None:
    check(seed, size)
