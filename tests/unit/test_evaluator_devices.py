"""The evaluator on several devices: what meets, what waits, and what is said of a deadlock."""


# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

import _thread
import threading
import time
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.errors import HloError
from hloc.evaluator import evaluate_devices
from tests.unit.runtime.device_programs import PIPELINE, transfers
from tests.waiting import wait_until

SUM = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n"
GLOBAL = "channel_id=1, use_global_device_ids=true"


def run(
    entry: str,
    devices: int,
    called: str = "",
    header: str = "num_partitions={0}",
    shape: str = "f32[2]",
) -> list[Any]:
    """Run `entry` with parameter `a`, which is 10 * device + (1, 2, ...); return lists by device."""
    module = hloc.parse(
        f"HloModule m, {header.format(devices)}\n{SUM}{called}"
        f"ENTRY e {{\n  a = {shape} parameter(0)\n  {entry}\n}}\n"
    )
    (parameter,) = module.entry.parameters
    dims = parameter.array.dims
    start = np.arange(1, 1 + int(np.prod(dims)), dtype=np.float32).reshape(dims)
    arguments = [[start + np.float32(10 * device) for device in range(devices)]]
    results = evaluate_devices(module, arguments)
    leaves = [[part.tolist() for part in leaf] for leaf in results]
    return leaves[0] if len(leaves) == 1 else leaves


EXCHANGES = {
    "all-reduce in two groups": (
        f"ROOT r = f32[2] all-reduce(a), {GLOBAL}, replica_groups={{{{0,3}},{{1,2}}}}, to_apply=sum",
        [[32, 34], [32, 34], [32, 34], [32, 34]],
    ),
    "all-reduce of uneven groups": (
        f"ROOT r = f32[2] all-reduce(a), {GLOBAL}, replica_groups={{{{0,1,2}},{{3}}}}, to_apply=sum",
        [[33, 36], [33, 36], [33, 36], [31, 32]],
    ),
    "all-gather by rank": (
        f"ROOT r = f32[4] all-gather(a), {GLOBAL}, replica_groups={{{{3,0}},{{1,2}}}}, dimensions={{0}}",
        [[31, 32, 1, 2], [11, 12, 21, 22], [11, 12, 21, 22], [31, 32, 1, 2]],
    ),
    "reduce-scatter along a mesh": (
        f"ROOT r = f32[1] reduce-scatter(a), {GLOBAL}, replica_groups=mesh['x'=2,'y'=2] {{'x'}}, dimensions={{0}}, to_apply=sum",
        [[22], [42], [24], [44]],
    ),
    "all-to-all": (
        "ROOT r = f32[2] all-to-all(a), channel_id=1, replica_groups=[2,2]<=[4], dimensions={0}",
        [[1, 11], [2, 12], [21, 31], [22, 32]],
    ),
    "permute that leaves some out": (
        "ROOT r = f32[2] collective-permute(a), channel_id=1, source_target_pairs={{0,1},{1,2}}",
        [[0, 0], [1, 2], [11, 12], [0, 0]],
    ),
    "broadcast that leaves some out": (
        "ROOT r = f32[2] collective-broadcast(a), channel_id=1, replica_groups={{2,0}}",
        [[21, 22], [0, 0], [21, 22], [0, 0]],
    ),
    "async chain": (
        "s = ((f32[2]), f32[4]) async-start(a), calls=gather\n"
        "  u = ((f32[2]), f32[4]) async-update(s)\n  ROOT d = f32[4] async-done(u)",
        [[1, 2, 11, 12], [1, 2, 11, 12], [21, 22, 31, 32], [21, 22, 31, 32]],
    ),
    "start and done": (
        "s = (f32[2], f32[2], u32[], u32[]) collective-permute-start(a), channel_id=1, "
        "source_target_pairs={{0,3},{3,0}}\n  ROOT d = f32[2] collective-permute-done(s)",
        [[31, 32], [0, 0], [0, 0], [1, 2]],
    ),
    "partition-id": (
        "p = u32[] partition-id()\n  f = f32[] convert(p)\n  ROOT r = f32[2] broadcast(f), dimensions={}",
        [[0, 0], [1, 1], [2, 2], [3, 3]],
    ),
}  # fmt: skip
GATHER = (
    "gather { a = f32[2] parameter(0) ROOT g = f32[4] all-gather(a), channel_id=2, "
    "use_global_device_ids=true, replica_groups=[2,2]<=[4], dimensions={0} }\n"
)


@pytest.mark.parametrize("case", EXCHANGES)
def test_each_device_gets_its_part(case: str) -> None:
    entry, expected = EXCHANGES[case]
    assert run(entry, 4, GATHER if "calls=gather" in entry else "") == expected


def test_replicas_and_partitions_have_their_own_numbers() -> None:
    entry = (
        "r = u32[] replica-id()\n  p = u32[] partition-id()\n"
        "  b = f32[2] all-reduce(a), replica_groups={}, to_apply=sum\n"
        "  c = f32[2] all-reduce(a), channel_id=1, replica_groups={{1},{0}}, to_apply=sum\n"
        "  ROOT t = (u32[], u32[], f32[2], f32[2]) tuple(r, p, b, c)"
    )
    replicas, partitions, across, both = run(entry, 6, header="replica_count=2, num_partitions=3")
    assert replicas == [0, 0, 0, 1, 1, 1]
    assert partitions == [0, 1, 2, 0, 1, 2]
    assert across == [[32, 34], [52, 54], [72, 74]] * 2
    assert both == [[33, 36]] * 3 + [[123, 126]] * 3


LOOP = """
below { t = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  n = s32[] get-tuple-element(t), index=1
  v = f32[2] get-tuple-element(t), index=2
  w = f32[2] all-reduce(v), channel_id=1, use_global_device_ids=true, replica_groups=GROUPS, to_apply=sum
  ROOT r = (s32[], s32[], f32[2]) tuple(j, n, w) }
"""
LOOP_ENTRY = """p = u32[] partition-id()
  two = u32[] constant(2)
  h = u32[] divide(p, two)
  n = s32[] convert(h)
  z = s32[] constant(0)
  t = (s32[], s32[], f32[2]) tuple(z, n, a)
  w = (s32[], s32[], f32[2]) while(t), condition=below, body=body
  ROOT r = f32[2] get-tuple-element(w), index=2"""


def test_loops_of_other_groups_have_their_own_counts() -> None:
    called = LOOP.replace("GROUPS", "{{0,1},{2,3},{4,5}}")
    assert run(LOOP_ENTRY, 6, called) == [
        [1, 2], [11, 12], [52, 54], [52, 54], [184, 188], [184, 188],
    ]  # fmt: skip


def test_loop_counts_that_differ_in_a_group_are_a_deadlock() -> None:
    called = LOOP.replace("GROUPS", "{{0,2},{1,3}}")
    with pytest.raises(HloError) as caught:
        run(LOOP_ENTRY, 4, called)
    text = str(caught.value)
    assert "<string>:14:3: error: deadlock: no device can continue past all-reduce 'w'" in text
    assert (
        "note: device 2 at all-reduce 'w' in 'body' (<string>:14:3), waiting for device 0" in text
    )
    assert (
        "note: device 3 at all-reduce 'w' in 'body' (<string>:14:3), waiting for device 1" in text
    )
    assert "note: devices 0-1 at the end of the program" in text


BRANCH = """p = u32[] partition-id()
  one = u32[] constant(1)
  o = u32[] and(p, one)
  k = s32[] convert(o)
  ROOT r = f32[2] conditional(k, a, a), branch_computations={even, odd}"""
EVEN = f"even {{ v = f32[2] parameter(0) ROOT x = f32[2] all-reduce(v), {GLOBAL}, replica_groups={{{{0,1,2,3}}}}, to_apply=sum }}\n"


def test_branches_may_each_have_an_instruction_of_one_rendezvous() -> None:
    odd = (
        EVEN.replace("even", "odd")
        .replace("ROOT x", "x")
        .replace(" }", " ROOT y = f32[2] negate(x) }")
    )
    assert run(BRANCH, 4, EVEN + odd) == [[64, 68], [-64, -68]] * 2


def test_a_branch_without_the_collective_is_a_deadlock() -> None:
    with pytest.raises(HloError) as caught:
        run(BRANCH, 4, EVEN + "odd { v = f32[2] parameter(0) ROOT y = f32[2] negate(v) }\n")
    text = str(caught.value)
    assert (
        "devices 0, 2 at all-reduce 'x' in 'even' (<string>:3:37), waiting for devices 1, 3" in text
    )
    assert "devices 1, 3 at the end of the program" in text


def test_other_opcodes_at_the_same_time_are_a_deadlock() -> None:
    odd = "odd { v = f32[2] parameter(0) ROOT y = f32[2] collective-permute(v), channel_id=1, source_target_pairs={{0,1},{1,0}} }\n"
    with pytest.raises(HloError, match=r"device 1 at collective-permute 'y'.*waiting for device 0"):
        run(BRANCH, 4, EVEN + odd)


def test_other_shapes_at_one_rendezvous_are_named() -> None:
    odd = (
        "odd { v = f32[2] parameter(0) w = f32[1] slice(v), slice={[0:1]} "
        f"x = f32[1] all-reduce(w), {GLOBAL}, replica_groups={{{{0,1,2,3}}}}, to_apply=sum "
        "y = f32[] reshape(x) ROOT z = f32[2] broadcast(y), dimensions={} }\n"
    )
    with pytest.raises(
        HloError, match=r"devices 0 and 1 meet with different operands: f32\[2\] and f32\[1\]"
    ):
        run(BRANCH, 4, EVEN + odd)


def test_other_reducers_at_one_rendezvous_are_named() -> None:
    most = SUM.replace("sum", "most").replace("add", "maximum")
    odd = EVEN.replace("even", "odd").replace("to_apply=sum", "to_apply=most")
    with pytest.raises(HloError, match="meet with different reducers: 'sum' and 'most'"):
        run(BRANCH, 4, most + EVEN + odd)


def test_a_device_in_no_group_is_named() -> None:
    entry = "b = f32[2] all-reduce(a), channel_id=1, replica_groups={}, to_apply=sum\n  ROOT r = f32[2] all-reduce(b), replica_groups={{0}}, to_apply=sum"
    module = hloc.parse(
        f"HloModule m, replica_count=2\n{SUM}ENTRY e {{\n  a = f32[2] parameter(0)\n  {entry}\n}}\n",
        verify=False,
    )
    a = np.ones(2, np.float32)
    with pytest.raises(HloError, match="all-reduce 'r' has no group for device 1"):
        evaluate_devices(module, [[a, a]])


def test_a_fault_of_one_device_is_raised_with_its_number() -> None:
    starts = "p = u32[] partition-id()\n  n = s32[] convert(p)\n  s = s32[2] broadcast(n), dimensions={}\n  one = s32[2] constant({1,1})\n"
    entry = (
        starts
        + "  ROOT r = f32[2] ragged-all-to-all(a, a, s, one, s, one), channel_id=1, replica_groups={{0,1},{2,3}}"
    )
    with pytest.raises(HloError, match=r"do not fit at row 2\n(.*\n)*note: found on device 3"):
        run(entry, 4)


def test_transfers_move_data_along_their_pairs() -> None:
    entry = """z = s32[] constant(0)
  k = token[] after-all()
  t = (s32[], f32[2], token[]) tuple(z, a, k)
  w = (s32[], f32[2], token[]) while(t), condition=below, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1"""
    called = transfers(PIPELINE, "{{0,1},{1,2},{2,3}}")
    assert run(entry, 4, called) == [[0, 0], [0, 0], [1, 2], [11, 12]]


def test_a_receiver_whose_source_does_not_send_is_a_deadlock() -> None:
    pairs = "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}"
    entry = f"""k = token[] after-all()
  r = (f32[2], u32[], token[]) recv(k), channel_id=1, {pairs}
  d = (f32[2], token[]) recv-done(r), channel_id=1, {pairs}
  ROOT x = f32[2] get-tuple-element(d), index=0"""
    with pytest.raises(HloError, match=r"device 1 at recv-done 'd'.*waiting for device 0"):
        run(entry, 2)


def test_arguments_are_one_part_per_device() -> None:
    module = hloc.parse("HloModule m, num_partitions=2\nENTRY e { ROOT a = f32[2] parameter(0) }")
    with pytest.raises(HloError, match="argument 0 has 1 parts, but the module runs on 2 devices"):
        evaluate_devices(module, [[np.ones(2, np.float32)]])


def test_an_interrupt_ends_all_devices() -> None:
    """The loop has no end: without the interrupt the test would not end either."""
    text = (
        f"HloModule m, num_partitions=2\n{SUM}"
        "body { x = f32[2] parameter(0) ROOT y = f32[2] all-reduce(x), channel_id=1, "
        "use_global_device_ids=true, replica_groups={{0,1}}, to_apply=sum }\n"
        "always { x = f32[2] parameter(0) ROOT t = pred[] constant(true) }\n"
        "ENTRY e { a = f32[2] parameter(0) ROOT w = f32[2] while(a), condition=always, body=body }\n"
    )
    module = hloc.parse(text)
    before = threading.active_count()
    start = time.process_time()

    def press() -> None:
        wait_until(lambda: time.process_time() - start > 0.2, "the loop runs")
        _thread.interrupt_main()

    presses = threading.Thread(target=press)
    a = np.ones(2, np.float32)
    presses.start()
    with pytest.raises(KeyboardInterrupt):
        evaluate_devices(module, [[a, a]])
    presses.join()
    assert threading.active_count() == before
