"""Compiled programs send and receive along pairs of devices as the evaluator does."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.dtypes import DTYPES
from hloc.errors import HloError
from tests.unit.runtime.device_programs import (
    CHAIN,
    NEVER_RECEIVED,
    PIPELINE,
    PIPELINE_ENTRY,
    arguments,
    check,
    module_text,
    transfers,
)


@pytest.mark.parametrize("pairs", ["{{0,1},{1,2},{2,3}}", "{{0,1},{1,2},{2,3},{3,0}}"])
def test_transfers_in_a_loop(pairs: str) -> None:
    """In the ring, a schedule that receives before it sends would be a deadlock."""
    text = module_text(PIPELINE_ENTRY, transfers(PIPELINE, pairs), "num_partitions=4")
    args = arguments((DTYPES["f32"], (2,)), devices=4)
    check(text, args, levels=(0, 1, 2, 3))


def test_a_chain_of_devices_each_of_which_needs_the_one_before() -> None:
    text = module_text(transfers(CHAIN, "{{0,1},{1,2},{2,3}}"), header="num_partitions=4")
    check(text, arguments((DTYPES["f32"], (3,)), devices=4), levels=(0, 1, 2, 3))


def test_transfers_beside_a_started_collective() -> None:
    pair = (
        "  b = (f32[3], f32[3]) collective-permute-start(a), channel_id=2, source_target_pairs={{0,1},{1,0}}, control-predecessors={e}\n"
        "  g = f32[3] collective-permute-done(b)\n  ROOT h = f32[3] add(y, g)\n"
    )
    entry = transfers(CHAIN, "{{0,1}}").replace("  ROOT c = f32[3] copy(y)\n", pair)
    text = module_text(entry, header="num_partitions=2")
    check(text, arguments((DTYPES["f32"], (3,)), devices=2), levels=(0, 1, 2, 3))


def test_devices_that_wait_for_each_other_s_data_are_a_deadlock() -> None:
    program = hloc.compile(
        module_text(transfers(CHAIN, "{{0,1},{1,0}}"), header="num_partitions=2")
    )
    ones = [np.ones(3, np.float32)] * 2
    for _ in range(2):
        with pytest.raises(HloError, match=r"device 0 at recv-done 'd'.*waiting for device 1"):
            program.run_devices([ones])


def test_data_that_is_never_received_does_not_reach_the_next_run() -> None:
    text = module_text(transfers(NEVER_RECEIVED, "{{0,1}}"), header="num_partitions=2")
    program = hloc.compile(text)
    for value in (1, 2, 3):
        ones = [np.full(3, value, np.float32)] * 2
        (results,) = program.run_devices([ones])
        assert [r.tolist() for r in results] == [[0, 0, 0], [value] * 3]
