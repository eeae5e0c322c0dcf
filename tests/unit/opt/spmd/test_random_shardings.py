"""Random modules with random shardings: partitioned, they give bit for bit what they give whole.

In a manual region over one axis they give what the body of the region gives on each of its parts.
The shardings are lists of devices, iotas and their transposes, mesh axes by name, partial
replication, single devices, and tiles that do not divide; on 2 to 8 devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.module import Module
from hloc.ir.sharded_signature import sharded_signature
from hloc.ir.verifier import verify
from hloc.runtime.shards import cut_all, join_all
from tests.inputs import inputs_for
from tests.unit.opt.spmd.random_regions import RandomRegion, wanted_of
from tests.unit.opt.spmd.random_sharded import RandomSharded
from tests.unit.opt.test_random_modules import same_bits


def check(seed: int, size: int) -> None:
    """Partition the module of `seed`, and compare its answers with those of the whole."""
    text = RandomSharded(seed).annotated(size).to_text(large_constants=True)
    whole, local = hloc.parse(text), hloc.partition(text)
    verify(local)
    assert local.entry.name.endswith("_spmd")
    inputs = inputs_for(whole, seed=seed % 7)
    with np.errstate(all="ignore"):
        wanted = hloc.evaluate(whole, *inputs)
    compare(local, inputs, wanted, text)


def check_region(seed: int, size: int) -> None:
    """The same for a module whose body is in a manual region, and has other axes to itself."""
    text, body = RandomRegion(seed).texts(size)
    local, inputs = hloc.partition(text), inputs_for(hloc.parse(text), seed=seed % 7)
    verify(local)
    with np.errstate(all="ignore"):
        compare(local, inputs, wanted_of(body, inputs), text)


def compare(local: Module, inputs: Sequence[Any], wanted: Sequence[Any], text: str) -> None:
    signature = sharded_signature(local)
    with np.errstate(all="ignore"):
        found = join_all(evaluate_devices(local, cut_all(inputs, signature)), signature)
    for number, (f, w) in enumerate(zip(found, wanted, strict=True)):
        assert same_bits(np.asarray(f), np.asarray(w)), f"result {number} of\n{text}"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([30, 45]))
def test_parts_make_the_whole(seed: int, size: int) -> None:
    check(seed, size)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_parts_of_a_region_make_the_whole(seed: int) -> None:
    check_region(seed, 40)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([30, 45, 70]))
def test_many_parts_make_the_whole(seed: int, size: int) -> None:
    check(seed, size)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([30, 45, 70]))
def test_parts_of_many_regions_make_the_whole(seed: int, size: int) -> None:
    check_region(seed, size)
