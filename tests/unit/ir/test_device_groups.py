"""Groups of collectives as flattened ids: four modes, every written form, permutes, transfers."""

from __future__ import annotations

import pytest

import hloc
from hloc.errors import HloError
from hloc.ir.device_groups import DeviceCounts, device_groups, device_pairs, module_devices
from hloc.ir.instruction import Instruction

SUM = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n"


def collective(line: str, replicas: int = 1, partitions: int = 1, name: str = "r") -> Instruction:
    """Return the instruction `name` of an entry that has `line`; `a` is f32[8], `t` a token."""
    module = hloc.parse(
        f"HloModule m, replica_count={replicas}, num_partitions={partitions}\n{SUM}ENTRY e {{\n"
        f"  a = f32[8] parameter(0)\n  t = token[] after-all()\n  {line}\n}}\n",
        verify=False,
    )
    return next(inst for inst in module.entry.instructions if inst.name == name)


def reduced(attributes: str, replicas: int = 1, partitions: int = 1) -> Instruction:
    return collective(
        f"ROOT r = f32[8] all-reduce(a), {attributes}, to_apply=sum", replicas, partitions
    )


GLOBAL = "channel_id=1, use_global_device_ids=true, "
MODES = {
    # 2 replicas x 3 partitions: flattened id = 3 * replica + partition
    "replicas": ("replica_groups={{1,0}}", ((3, 0), (4, 1), (5, 2))),
    "all replicas": ("replica_groups={}", ((0, 3), (1, 4), (2, 5))),
    "both": ("channel_id=1, replica_groups={{1},{0}}", ((3, 4, 5), (0, 1, 2))),
    "both, all": ("channel_id=1, replica_groups={}", ((0, 1, 2, 3, 4, 5),)),
    "flattened": (GLOBAL + "replica_groups={{5,0},{1,2,3,4}}", ((5, 0), (1, 2, 3, 4))),
    "channel 0 is none": ("channel_id=0, replica_groups={}", ((0, 3), (1, 4), (2, 5))),
}


@pytest.mark.parametrize("case", MODES)
def test_mode_decides_who_meets(case: str) -> None:
    attributes, expected = MODES[case]
    assert device_groups(reduced(attributes, 2, 3)) == expected


def test_opcodes_without_global_ids_meet_partitions_of_one_replica() -> None:
    line = (
        "ROOT r = f32[8] all-to-all(a), channel_id=1, replica_groups={{2,0},{1,3}}, dimensions={0}"
    )
    expected = ((2, 0), (6, 4), (1, 3), (5, 7))
    assert device_groups(collective(line, 2, 4)) == expected


FORMS = {
    # iota forms: what jaxlib 0.10.2 lists in StableHLO; mesh forms: what its 8 devices gather
    "[2,4]<=[8]": ((0, 1, 2, 3), (4, 5, 6, 7)),
    "[2,4]<=[4,2]T(1,0)": ((0, 2, 4, 6), (1, 3, 5, 7)),
    "[4,2]<=[2,2,2]T(2,0,1)": ((0, 2), (4, 6), (1, 3), (5, 7)),
    "mesh['x'=2,'y'=4] {'y'}": ((0, 1, 2, 3), (4, 5, 6, 7)),
    "mesh['x'=2,'y'=4] {'x'}": ((0, 4), (1, 5), (2, 6), (3, 7)),
    "mesh['x'=2,'y'=4] {'y','x'}": ((0, 4, 1, 5, 2, 6, 3, 7),),
    "mesh['x'=2,'y'=4] {'y':(2)2}": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "mesh['x'=2,'y'=4] {'y':(1)2}": ((0, 2), (1, 3), (4, 6), (5, 7)),
    "mesh['x'=8] {'x':(4)2,'x':(1)2}": ((0, 4, 1, 5), (2, 6, 3, 7)),
    "mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'x'}": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y':(2)2}": ((0, 2), (4, 6), (1, 3), (5, 7)),
    "mesh['x'=2,'y'=4], device_ids=(7,6,5,4,3,2,1,0) {'y'}": ((7, 6, 5, 4), (3, 2, 1, 0)),
    "mesh['u'=1,'x'=8] {'u','x':(1)4}": ((0, 2, 4, 6), (1, 3, 5, 7)),
}


@pytest.mark.parametrize("form", FORMS)
def test_written_forms_are_lists(form: str) -> None:
    assert device_groups(reduced(f"{GLOBAL}replica_groups={form}", 1, 8)) == FORMS[form]


def test_a_permute_meets_along_its_pairs_only() -> None:
    pairs = "channel_id=1, source_target_pairs={{3,1},{0,2},{2,0}}"
    inst = collective(f"ROOT r = f32[8] collective-permute(a), {pairs}", 2, 5)
    assert device_pairs(inst) == ((3, 1), (8, 6), (0, 2), (5, 7), (2, 0), (7, 5))
    assert device_groups(inst) == ((0, 2), (1, 3), (5, 7), (6, 8))


def test_a_chain_of_pairs_is_one_group() -> None:
    line = "ROOT r = f32[8] collective-permute(a), source_target_pairs={{0,1},{2,3},{1,2},{4,4}}"
    assert device_groups(collective(line, 6)) == ((0, 1, 2, 3), (4,))


def test_transfers_have_their_pairs_in_frontend_attributes() -> None:
    pairs = "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}"
    line = f"ROOT r = (f32[8], u32[], token[]) send(a, t), channel_id=2, {pairs}"
    assert device_pairs(collective(line, 1, 4)) == ((0, 1), (1, 2))
    host = "ROOT r = (f32[8], u32[], token[]) send(a, t), channel_id=2, is_host_transfer=true"
    assert device_pairs(collective(host, 1, 4)) == ()


def test_a_wrapped_collective_has_the_groups_of_its_own_attributes() -> None:
    module = hloc.parse(
        "HloModule m, num_partitions=4\n"
        "wrapped { a = f32[8] parameter(0) ROOT g = f32[16] all-gather(a), channel_id=1, "
        "replica_groups=[2,2]<=[4], dimensions={0}, use_global_device_ids=true }\n"
        "ENTRY e {\n  a = f32[8] parameter(0)\n"
        "  s = ((f32[8]), f32[16]) async-start(a), calls=wrapped\n"
        "  ROOT d = f32[16] async-done(s)\n}\n"
    )
    (wrapped,) = (c for c in module.computations if c.name == "wrapped")
    assert device_groups(wrapped.root) == ((0, 1), (2, 3))


UNCOUNTED = {
    # the header says nothing: replicas, partitions that the collective names
    "flattened": (GLOBAL + "replica_groups=[2,4]<=[8]", (1, 8)),
    "replicas": ("replica_groups={{0,1},{2}}", (3, 1)),
    "both": ("channel_id=1, replica_groups={{0},{1}}", (2, 1)),
    "nobody": ("replica_groups={}", (1, 1)),
}


@pytest.mark.parametrize("case", UNCOUNTED)
def test_a_text_without_counts_has_the_devices_that_it_names(case: str) -> None:
    attributes, (replicas, partitions) = UNCOUNTED[case]
    inst = reduced(attributes)
    assert module_devices(inst.computation.module) == DeviceCounts(replicas, partitions)
    assert {i for group in device_groups(inst) for i in group} == set(range(replicas * partitions))


WRONG = {
    "id beyond": (reduced, "replica_groups={{0,4}}", "names replica 4"),
    "no groups of flattened ids": (reduced, GLOBAL + "replica_groups={}", "need replica_groups"),
    "too many": (
        reduced,
        GLOBAL + "replica_groups=[1,1073741824]<=[1073741824]",
        "more than 1048576",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_groups_that_cannot_be_are_refused(case: str) -> None:
    make, attributes, message = WRONG[case]
    with pytest.raises(HloError, match=message):
        device_groups(make(attributes, 4, 1))


def test_a_module_for_a_million_devices_and_more_is_refused() -> None:
    with pytest.raises(HloError, match="more than 1048576"):
        device_groups(reduced("replica_groups={}", 1 << 30, 1 << 30))


def test_collectives_of_a_shard_map_share_a_channel() -> None:
    """Two opcodes and a transfer on channel 1: XLA accepts it."""
    hloc.parse(
        f"HloModule m, num_partitions=4\n{SUM}ENTRY e {{\n  a = f32[8] parameter(0)\n"
        "  t = token[] after-all()\n  s = (f32[8], u32[], token[]) send(a, t), channel_id=1\n"
        "  d = token[] send-done(s), channel_id=1\n"
        f"  b = f32[8] all-reduce(a), {GLOBAL}replica_groups={{{{0,1,2,3}}}}, to_apply=sum\n"
        "  ROOT c = f32[8] collective-permute(b), channel_id=1, source_target_pairs={{0,1}}\n}\n"
    )
