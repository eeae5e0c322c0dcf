"""Devices meet in loops and branches, or the run ends with an error; all devices end with it."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.errors import HloError
from hloc.runtime.arena import clear_stops, stop_all
from tests.unit.runtime.device_programs import (
    ALL,
    LOOP,
    LOOP_ENTRY,
    SUM2,
    check,
    loop_arguments,
    module_text,
)
from tests.waiting import again_and_again, all_at_once


def test_loops_of_other_counts_in_other_groups() -> None:
    text = module_text(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    check(text, loop_arguments([2, 2, 5, 5]), levels=(0, 1, 2, 3))


def test_loops_of_other_counts_in_one_group_are_a_deadlock() -> None:
    text = module_text(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    for level in range(4):
        program = hloc.compile(text, opt_level=level)
        with pytest.raises(
            HloError, match="deadlock: no device can continue past all-reduce"
        ) as fault:
            program.run_devices(loop_arguments([2, 2, 5, 4]))
        assert "device 2 at all-reduce" in str(fault.value)
        assert "waiting for device 3" in str(fault.value)
        assert "devices 0-1, 3 at the end of the program" in str(fault.value)
        results = program.run_devices(loop_arguments([1, 1, 1, 1]))  # and works again
        assert [r.tolist() for r in results[0]] == [[1, 2], [1, 2], [5, 2], [5, 2]]


BRANCHES = """
  a = f32[2] parameter(0)
  p = pred[] parameter(1)
  ROOT r = f32[2] conditional(p, a, a), true_computation=yes, false_computation=no
"""


def branch(name: str, work: str) -> str:
    return f"{name} {{ a = f32[2] parameter(0)\n  {work} }}\n"


@pytest.mark.parametrize("predicate", [True, False])
def test_branches_of_scalars_stay_apart(predicate: bool) -> None:
    """A branch that becomes a select would let all devices meet, or none."""
    called = SUM2 + (
        f"yes {{ a = f32[] parameter(0)\n  ROOT r = f32[] all-reduce(a), {ALL}, to_apply=sum }}\n"
        "no { a = f32[] parameter(0)\n  ROOT r = f32[] negate(a) }\n"
    )
    entry = BRANCHES.replace("f32[2]", "f32[]")
    text = module_text(entry, called, "num_partitions=2")
    ones = [np.ones((), np.float32)] * 2
    for level in range(4):
        check(text, [ones, [np.array(predicate)] * 2], levels=(level,))
        program = hloc.compile(text, opt_level=level)
        with pytest.raises(HloError, match="deadlock"):
            program.run_devices([ones, [np.array(predicate), np.array(not predicate)]])


def test_a_branch_that_one_device_does_not_take_is_a_deadlock() -> None:
    called = SUM2 + branch("yes", f"ROOT r = f32[2] all-reduce(a), {ALL}, to_apply=sum")
    called += branch("no", "ROOT r = f32[2] negate(a)")
    text = module_text(BRANCHES, called, "num_partitions=2")
    ones = [np.ones(2, np.float32)] * 2
    for level in range(4):
        program = hloc.compile(text, opt_level=level)
        with pytest.raises(HloError, match="device 0 at all-reduce"):
            program.run_devices([ones, [np.array(True), np.array(False)]])
        check(text, [ones, [np.array(True)] * 2], levels=(level,))


def test_branches_with_an_instruction_each_meet() -> None:
    called = SUM2 + branch("yes", f"ROOT r = f32[2] all-reduce(a), {ALL}, to_apply=sum")
    called += branch(
        "no", f"b = f32[2] negate(a)\n  ROOT r = f32[2] all-reduce(b), {ALL}, to_apply=sum"
    )
    text = module_text(BRANCHES, called, "num_partitions=2")
    args = [[np.ones(2, np.float32)] * 2, [np.array(True), np.array(False)]]
    check(text, args, levels=(0, 1, 2, 3))


def test_another_order_of_collectives_is_a_deadlock() -> None:
    first, second = (
        f"f32[2] all-reduce(%s), channel_id={n}, use_global_device_ids=true, replica_groups={{{{0,1}}}}, to_apply=sum"
        for n in (1, 2)
    )
    called = SUM2 + branch("yes", f"b = {first % 'a'}\n  ROOT r = {second % 'b'}")
    called += branch("no", f"b = {second % 'a'}\n  ROOT r = {first % 'b'}")
    program = hloc.compile(module_text(BRANCHES, called, "num_partitions=2"))
    args = [[np.ones(2, np.float32)] * 2, [np.array(True), np.array(False)]]
    with pytest.raises(HloError, match="deadlock") as fault:
        program.run_devices(args)
    assert "waiting for device 0" in str(fault.value)
    assert "waiting for device 1" in str(fault.value)


def test_devices_that_meet_with_other_shapes_are_an_error() -> None:
    called = SUM2 + branch("yes", f"ROOT r = f32[2] all-reduce(a), {ALL}, to_apply=sum")
    called += branch(
        "no",
        f"b = f32[1,2] reshape(a)\n  c = f32[1,2] all-reduce(b), {ALL}, to_apply=sum\n  ROOT r = f32[2] reshape(c)",
    )
    program = hloc.compile(module_text(BRANCHES, called, "num_partitions=2"), opt_level=0)
    args = [[np.ones(2, np.float32)] * 2, [np.array(True), np.array(False)]]
    with pytest.raises(HloError, match=r"f32\[1,2\]"):
        program.run_devices(args)


def test_a_host_function_that_fails_ends_all_devices() -> None:
    def fail_on_two(x: Any) -> Any:
        if x[0] == 2:
            raise ValueError("no twos")
        return x

    hloc.register_custom_call("fails_on_two", fail_on_two)
    entry = (
        '  a = f32[2] parameter(0)\n  b = f32[2] custom-call(a), custom_call_target="fails_on_two"\n'
        "  ROOT r = f32[2] all-reduce(b), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=sum"
    )
    program = hloc.compile(module_text(entry, SUM2, "num_partitions=4"))
    values = [np.full(2, device, np.float32) for device in range(4)]
    with pytest.raises(ValueError, match="no twos"):
        program.run_devices([values])
    results = program.run_devices([[np.ones(2, np.float32)] * 4])
    assert [r.tolist() for r in results[0]] == [[4, 4]] * 4


def test_ctrl_c_ends_all_devices() -> None:
    text = module_text(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    program = hloc.compile(text)
    with again_and_again(stop_all), pytest.raises(KeyboardInterrupt):
        program.run_devices(loop_arguments([2**31 - 1] * 4))
    clear_stops()
    program.run_devices(loop_arguments([1] * 4))


def test_the_same_bits_whatever_the_threads_do() -> None:
    entry = "  a = f32[5000] parameter(0)\n  ROOT x = f32[5000] all-reduce(a), channel_id=1, replica_groups={}, to_apply=sum"
    program = hloc.compile(module_text(entry, SUM2, "num_partitions=8"))
    rng = np.random.default_rng(0)
    args = [[rng.standard_normal(5000).astype(np.float32) for _ in range(8)]]
    first = program.run_devices(args)[0][0].tobytes()
    for _ in range(50):
        assert {part.tobytes() for part in program.run_devices(args)[0]} == {first}


def test_runs_at_the_same_time_do_not_meet_each_other() -> None:
    text = module_text(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    program = hloc.compile(text)
    faults: list[BaseException] = []

    def work(_: int) -> None:
        try:
            for _ in range(20):
                results = program.run_devices(loop_arguments([3] * 4))
                assert [r.tolist() for r in results[0]] == [[4, 8], [4, 8], [20, 8], [20, 8]]
        except BaseException as fault:
            faults.append(fault)

    all_at_once(3, work)
    assert not faults
