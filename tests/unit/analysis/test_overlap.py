"""Which collectives the model hides: started ones behind the work between start and done."""

import pytest

import hloc
from hloc.analysis.compute_time import compute_times, find_device
from hloc.analysis.gpu_devices import DeviceSpec
from hloc.analysis.network.links import Link, Network
from hloc.analysis.network.overlap import CollectiveTiming, Timeline, timeline
from hloc.analysis.run_counts import RunCount, run_counts
from hloc.errors import HloError
from hloc.ir.print_order import instruction_order
from hloc.ir.replica_groups import DeviceMesh

DEVICE = DeviceSpec(1, 1e9, 1e12, 1e12)
"""A gigabyte per second: an elementwise f32[1000] of one operand takes 8 us."""

NETWORK = Network(DeviceMesh((("x", 2),)), (Link("wire", 1e9, 0.0),))

_ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
_GROUPS = "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add"


def model(body: str) -> Timeline:
    """Return the model of a scheduled entry of `p = f32[1000]`; an all-reduce takes 4 us."""
    text = (
        "HloModule m, is_scheduled=true, num_partitions=2\n\n" + _ADD + "\nENTRY e {\n"
        f"  p = f32[1000] parameter(0)\n{body}}}\n"
    )
    module = hloc.parse(text)
    return timeline(module, compute_times(module, DEVICE), NETWORK, instruction_order)


def only(found: Timeline) -> CollectiveTiming:
    (timing,) = found.collectives
    return timing


def test_work_between_start_and_done_hides_the_collective() -> None:
    found = model(
        f"  s = f32[1000] all-reduce-start(p), {_GROUPS}\n"
        "  n = f32[1000] negate(p)\n"
        "  d = f32[1000] all-reduce-done(s)\n"
        "  ROOT r = f32[1000] add(d, n)\n"
    )
    assert only(found).seconds == pytest.approx(4e-6)
    assert only(found).exposed_seconds == 0.0
    assert only(found).is_async
    assert found.seconds == pytest.approx(8e-6 + 12e-6)


def test_without_work_between_them_all_of_it_is_exposed() -> None:
    found = model(
        f"  s = f32[1000] all-reduce-start(p), {_GROUPS}\n"
        "  d = f32[1000] all-reduce-done(s)\n"
        "  n = f32[1000] negate(p)\n"
        "  ROOT r = f32[1000] add(d, n)\n"
    )
    assert only(found).exposed_seconds == pytest.approx(4e-6)
    assert only(found).slack_seconds == pytest.approx(8e-6)


def test_collectives_that_are_started_share_the_network() -> None:
    found = model(
        f"  s = f32[1000] all-reduce-start(p), {_GROUPS}\n"
        f"  t = f32[1000] all-reduce-start(p), {_GROUPS}\n"
        "  d = f32[1000] all-reduce-done(s)\n"
        "  f = f32[1000] all-reduce-done(t)\n"
        "  ROOT r = f32[1000] add(d, f)\n"
    )
    assert [m.exposed_seconds for m in found.collectives] == [pytest.approx(4e-6)] * 2


def test_a_collective_that_is_not_split_waits_and_knows_its_slack() -> None:
    found = model(
        f"  s = f32[1000] all-reduce(p), {_GROUPS}\n"
        "  n = f32[1000] negate(p)\n"
        "  m = f32[1000] negate(s)\n"
        "  ROOT r = f32[1000] add(m, n)\n"
    )
    assert only(found).exposed_seconds == pytest.approx(4e-6)
    assert only(found).slack_seconds == pytest.approx(8e-6)


_LOOP = (
    """HloModule m, num_partitions=2

"""
    + _ADD
    + """
body {
  s = (s32[], f32[1000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1000] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[1000] all-reduce(x), GROUPS
  ROOT t = (s32[], f32[1000]) tuple(next, y)
}

condition {
  s = (s32[], f32[1000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(12)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  p = f32[1000] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[1000]) tuple(zero, p)
  loop = (s32[], f32[1000]) while(init), condition=condition, body=body
  ROOT r = f32[1000] get-tuple-element(loop), index=1
}
"""
).replace("GROUPS", _GROUPS)


def test_loops_count_as_often_as_they_run() -> None:
    module = hloc.parse(_LOOP)
    found = timeline(module, lambda _: 0.0, NETWORK, instruction_order)
    (timing,) = found.collectives
    assert run_counts(module)[timing.inst.computation] == RunCount(12, True)
    assert found.seconds == pytest.approx(12 * 4e-6)


def test_a_loop_of_unknown_length_counts_once_and_says_so() -> None:
    module = hloc.parse(_LOOP.replace("zero = s32[] constant(0)", "zero = s32[] parameter(1)"))
    body = module.entry.root.operands[0].called[1]
    assert run_counts(module)[body] == RunCount(1, False)


def test_a_trip_count_that_the_text_gives_is_taken() -> None:
    text = _LOOP.replace("zero = s32[] constant(0)", "zero = s32[] parameter(1)").replace(
        "body=body", 'body=body, backend_config={"known_trip_count":{"n":"7"}}'
    )
    module = hloc.parse(text)
    body = module.entry.root.operands[0].called[1]
    assert run_counts(module)[body] == RunCount(7, True)


def test_devices_are_found_by_product_and_by_chip() -> None:
    assert find_device("h100") == find_device("sm_90")
    assert find_device("A100-80GB").bytes_per_second > find_device("a100").bytes_per_second
    with pytest.raises(HloError, match=r"unknown device 'h900': expected one of A100"):
        find_device("h900")
