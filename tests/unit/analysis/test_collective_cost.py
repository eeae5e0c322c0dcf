"""Bytes and modelled time of collectives: the ring formulas, axis by axis."""

import pytest

import hloc
from hloc.analysis.network.collective_cost import (
    axes_of,
    bytes_sent,
    exchange_of,
    seconds_of,
    transfers,
)
from hloc.analysis.network.links import Link, Network
from hloc.ir.instruction import Instruction
from hloc.ir.replica_groups import DeviceMesh

_ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""
FAST, SLOW = Link("fast", 1e9, 1e-6), Link("slow", 1e8, 1e-5)
MESH = DeviceMesh((("x", 4), ("y", 2)))
NETWORK = Network(MESH, (SLOW, FAST))

ROWS = "[2,4]<=[4,2]T(1,0)"
"""Groups along x: {0,2,4,6} and {1,3,5,7}."""


def collective(line: str, partitions: int = 8) -> Instruction:
    """Return the root of a module of one collective on `p = f32[64,16]`, 4,096 bytes."""
    text = (
        f"HloModule m, num_partitions={partitions}\n{_ADD}\n"
        f"ENTRY e {{\n  p = f32[64,16] parameter(0)\n  ROOT r = {line}\n}}\n"
    )
    found = exchange_of(hloc.parse(text).entry.root)
    assert found is not None
    return found


CASES = {
    "all-reduce sends 2(n-1)/n": (
        f"f32[64,16] all-reduce(p), channel_id=1, replica_groups={ROWS}, "
        "use_global_device_ids=true, to_apply=add",
        6144,
    ),
    "all-gather sends (n-1) times its operand": (
        f"f32[256,16] all-gather(p), channel_id=1, replica_groups={ROWS}, "
        "use_global_device_ids=true, dimensions={0}",
        12288,
    ),
    "reduce-scatter sends (n-1)/n": (
        f"f32[16,16] reduce-scatter(p), channel_id=1, replica_groups={ROWS}, "
        "use_global_device_ids=true, dimensions={0}, to_apply=add",
        3072,
    ),
    "all-to-all sends (n-1)/n": (
        f"f32[64,16] all-to-all(p), channel_id=1, replica_groups={ROWS}, dimensions={{0}}",
        3072,
    ),
    "a broadcast is handed on by all but the last": (
        f"f32[64,16] collective-broadcast(p), channel_id=1, replica_groups={ROWS}",
        3072,
    ),
    "a permute counts the share of devices that send": (
        "f32[64,16] collective-permute(p), channel_id=1, source_target_pairs={{0,1},{2,3},{4,4}}",
        1024,
    ),
    "one member sends nothing": (
        "f32[64,16] all-reduce(p), channel_id=1, replica_groups=[8,1]<=[8], "
        "use_global_device_ids=true, to_apply=add",
        0,
    ),
}


@pytest.mark.parametrize(("line", "expected"), CASES.values(), ids=CASES)
def test_bytes_by_the_ring_formulas(line: str, expected: int) -> None:
    assert bytes_sent(collective(line)) == expected


@pytest.mark.parametrize("line", [line for line, _ in CASES.values()][:5], ids=list(CASES)[:5])
def test_bytes_along_the_axes_add_up_to_the_ring(line: str) -> None:
    whole = (
        line.replace(ROWS, "[1,8]<=[8]")
        .replace("[256,16]", "[512,16]")
        .replace("f32[16,16]", "f32[8,16]")
    )
    found = collective(whole)
    parts = transfers(found, NETWORK)
    assert {part.axis for part in parts} == {0, 1}
    assert sum(part.size_bytes for part in parts) == bytes_sent(found)


def test_slow_links_carry_the_data_that_fast_ones_have_scattered() -> None:
    found = collective(
        "f32[64,16] all-reduce(p), channel_id=1, replica_groups=[1,8]<=[8], "
        "use_global_device_ids=true, to_apply=add"
    )
    along = [(MESH.axes[t.axis][0], t.size_bytes, t.rounds) for t in transfers(found, NETWORK)]
    assert along == [("y", 2048, 1), ("x", 1536, 2), ("x", 1536, 2), ("y", 2048, 1)]
    expected = 2 * (2048 / 1e9 + 1e-6) + 2 * (1536 / 1e8 + 2e-5)
    assert seconds_of(found, NETWORK) == pytest.approx(expected)


def test_axes_of_groups_that_follow_the_mesh() -> None:
    line = CASES["all-reduce sends 2(n-1)/n"][0]
    assert axes_of(collective(line), NETWORK) == ("x",)
    named = line.replace(ROWS, "mesh['x'=4,'y'=2] {'y'}")
    assert axes_of(collective(named), NETWORK) == ("y",)


def test_groups_that_are_no_box_go_over_their_slowest_link() -> None:
    found = collective(
        "f32[64,16] all-reduce(p), channel_id=1, replica_groups={{0,3,5},{1,2,4},{6},{7}}, "
        "use_global_device_ids=true, to_apply=add"
    )
    assert axes_of(found, NETWORK) == ("x",)
    assert sum(part.size_bytes for part in transfers(found, NETWORK)) == pytest.approx(
        bytes_sent(found), abs=1
    )


def test_a_permute_goes_over_the_slowest_link_of_its_pairs() -> None:
    line = "f32[64,16] collective-permute(p), channel_id=1, source_target_pairs={{0,1},{3,5}}"
    (transfer,) = transfers(collective(line), NETWORK)
    assert (transfer.link, transfer.size_bytes) == (SLOW, 4096)


def test_started_collectives_are_found_behind_async_start() -> None:
    text = f"""HloModule m, num_partitions=8
{_ADD}
body {{
  q = f32[64,16] parameter(0)
  ROOT s = f32[8,16] reduce-scatter(q), channel_id=1, replica_groups=[1,8]<=[8],
    use_global_device_ids=true, dimensions={{0}}, to_apply=add
}}
ENTRY e {{
  p = f32[64,16] parameter(0)
  start = ((f32[64,16]), f32[8,16]) async-start(p), calls=body
  ROOT done = f32[8,16] async-done(start)
}}
"""
    start = hloc.parse(text).entry.root.operands[0]
    found = exchange_of(start)
    assert found is not None
    assert found.is_a("reduce-scatter")
    assert bytes_sent(found) == 3584
