"""Annotated texts that once ended the partitioner: partitioned now, or refused in words."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.errors import HloError, UnsupportedError
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.sharded_signature import sharded_signature
from hloc.ir.verifier import verify
from hloc.runtime.shards import cut_all, join_all
from tests.inputs import inputs_for

TOKEN_REGION = """HloModule m, num_partitions=2, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>}}

body { ROOT t = token[] parameter(0) }

ENTRY e {
  t = token[] parameter(0)
  local = token[] custom-call(t), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, []>]>",xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}
  r = token[] call(local), to_apply=body
  ROOT w = token[] custom-call(r), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, []>]>"}
}
"""

LISTS = """HloModule m, num_partitions=4

ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]0,1,4,5}
  y = f32[8] negate(x), sharding={devices=[4]<=[4]}
  ROOT z = f32[8] add(y, y), sharding={replicated}
}
"""

INFEED = """HloModule m, num_partitions=2

ENTRY e {
  t = token[] after-all(), sharding={maximal device=0}
  i = ((f32[9,2], f32[2]), token[]) infeed(t), sharding={{devices=[2,1]0,1}, {replicated}, {maximal device=0}}
  ROOT r = (f32[9,2], f32[2]) get-tuple-element(i), index=0, sharding={{devices=[2,1]0,1}, {replicated}}
}
"""

NO_SHARDING_BEFORE = """HloModule m, num_partitions=8

ENTRY e {
  x = f32[8,8] parameter(0)
  local = f32[1,8] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  y = f32[1,8] add(local, local)
  ROOT w = f32[8,8] custom-call(y), custom_call_target="SPMDShardToFullShape", sharding={devices=[8,1]<=[8]}
}
"""

PARTLY_MANUAL = """HloModule m, num_partitions=8

ENTRY e {
  x = s32[8] parameter(0), sharding={devices=[8]<=[8]}
  c = s32[8] copy(x), sharding={devices=[4,2]<=[8] last_tile_dim_replicate}
  local = s32[2] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,4,2]<=[8] last_tile_dims={manual, replicated}}, backend_config="unspecified_dims=[0]"
  p = s32[2] collective-permute(local), channel_id=1, source_target_pairs={{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}
  ROOT w = s32[8] custom-call(p), custom_call_target="SPMDShardToFullShape", sharding={devices=[8]<=[8]}, backend_config="unspecified_dims=[0]"
}
"""


ASYNC = """
called {
  p = f32[8,4] parameter(0)
  ROOT n = f32[8,4] negate(p)
}

ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  s = ((f32[8,4]), f32[8,4], u32[]) async-start(x), calls=called
  u = ((f32[8,4]), f32[8,4], u32[]) async-update(s)
  ROOT d = f32[8,4] async-done(u)
}
"""

SLICE_START = """
ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  s = ((f32[8,4]), f32[2,4], s32[]) slice-start(x), slice={[0:2], [0:4]}
  ROOT d = f32[2,4] slice-done(s)
}
"""

STATE_OF_TUPLES = """
more {
  p = ((s32[], token[]), (f32[8,4], ())) parameter(0)
  a = (s32[], token[]) get-tuple-element(p), index=0
  i = s32[] get-tuple-element(a), index=0
  k = s32[] constant(3)
  ROOT c = pred[] compare(i, k), direction=LT
}

body {
  p = ((s32[], token[]), (f32[8,4], ())) parameter(0)
  a = (s32[], token[]) get-tuple-element(p), index=0
  i = s32[] get-tuple-element(a), index=0
  t = token[] get-tuple-element(a), index=1
  k = s32[] constant(1)
  j = s32[] add(i, k)
  q = (f32[8,4], ()) get-tuple-element(p), index=1
  x = f32[8,4] get-tuple-element(q), index=0
  n = f32[8,4] negate(x)
  v = () tuple()
  b = (s32[], token[]) tuple(j, t)
  r = (f32[8,4], ()) tuple(n, v)
  ROOT s = ((s32[], token[]), (f32[8,4], ())) tuple(b, r)
}

ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  z = s32[] constant(0)
  t = token[] after-all()
  v = () tuple()
  a = (s32[], token[]) tuple(z, t)
  q = (f32[8,4], ()) tuple(x, v)
  p = ((s32[], token[]), (f32[8,4], ())) tuple(a, q)
  w = ((s32[], token[]), (f32[8,4], ())) while(p), condition=more, body=body
  r = (f32[8,4], ()) get-tuple-element(w), index=1
  ROOT n = f32[8,4] get-tuple-element(r), index=0
}
"""

BRANCHES_WITH_TOKENS = """
yes {
  p = f32[8,4] parameter(0)
  k = token[] after-all()
  u = (f32[8,4], token[]) tuple(p, k)
  ROOT t = (f32[8,4], (f32[8,4], token[])) tuple(p, u)
}

no {
  p = f32[8,4] parameter(0)
  n = f32[8,4] negate(p)
  k = token[] after-all()
  u = (f32[8,4], token[]) tuple(n, k)
  ROOT t = (f32[8,4], (f32[8,4], token[])) tuple(n, u)
}

ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  q = pred[] parameter(1), sharding={replicated}
  c = (f32[8,4], (f32[8,4], token[])) conditional(q, x, x), true_computation=yes, false_computation=no, sharding={{devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}, {replicated}}
  d = (f32[8,4], token[]) get-tuple-element(c), index=1
  ROOT r = f32[8,4] get-tuple-element(d), index=0
}
"""

BUFFER = """HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  b = b(f32[8,4]) custom-call(x), custom_call_target="Pin"
  ROOT u = f32[8,4] custom-call(b), custom_call_target="Unpin"
}
"""

COLLECTIVE_OUTSIDE = """HloModule m, num_partitions=4

add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}

ENTRY e {
  x = s32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  y = s32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[1,4]<=[4]}
  ROOT s = s32[8,4] all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
}
"""


@pytest.mark.parametrize("text", [TOKEN_REGION, LISTS, INFEED, BUFFER])
def test_it_is_partitioned(text: str) -> None:
    local = hloc.partition(text)
    verify(local)
    assert local.entry.name.endswith("_spmd")


@pytest.mark.parametrize("text", [ASYNC, SLICE_START, STATE_OF_TUPLES, BRANCHES_WITH_TOKENS])
def test_it_gives_what_the_whole_program_gives(text: str) -> None:
    whole = hloc.parse(f"HloModule m, num_partitions=4\n{text}")
    local = hloc.partition(whole)
    verify(local)
    inputs, signature = inputs_for(whole), sharded_signature(local)
    (found,) = join_all(evaluate_devices(local, cut_all(inputs, signature)), signature)
    np.testing.assert_array_equal(np.asarray(found), hloc.evaluate(whole, *inputs)[0])


def test_collectives_outside_of_regions_take_whole_arrays_of_every_device() -> None:
    """As XLA: each device has the whole array, and four equal ones are summed."""
    local = hloc.partition(COLLECTIVE_OUTSIDE)
    signature = sharded_signature(local)
    x = np.arange(32, dtype=np.int32).reshape(8, 4)
    (found,) = join_all(evaluate_devices(local, cut_all([x], signature)), signature)
    np.testing.assert_array_equal(np.asarray(found), 4 * x)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('f32[8,4] custom-call(), custom_call_target="Sharding", sharding={replicated}', "0 operands, but 1 "),
        ('f32[8,4] custom-call(x, x), custom_call_target="Sharding", sharding={replicated}', "2 operands, but 1 "),
        ('f32[4,8] custom-call(x), custom_call_target="Sharding", sharding={replicated}', r"needs the shape of operand 0"),
        ('f32[8,4] custom-call(), custom_call_target="SPMDFullToShardShape", sharding={manual}', "0 operands, but 1 "),
        ('f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}', "element type and rank"),
        ('f32[8] custom-call(t), custom_call_target="SPMDShardToFullShape", sharding={devices=[4]<=[4]}', r"token\[\]"),
    ],
)  # fmt: skip
def test_custom_calls_that_do_not_fit_are_refused(line: str, words: str) -> None:
    text = (
        "HloModule m, num_partitions=4\n\nENTRY e {\n  t = token[] after-all()\n"
        f"  x = f32[8,4] parameter(0), sharding={{devices=[4,1]<=[4]}}\n  ROOT c = {line}\n}}\n"
    )
    with pytest.raises(HloError, match=words) as fault:
        hloc.partition(text)
    assert ":6:" in str(fault.value)


def test_shardings_that_attributes_have_carried_to_other_instructions_do_not_count() -> None:
    """XLA hands attributes on; Shardy's sharding counts on parameters and custom calls."""
    text = """HloModule m, num_partitions=2, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>}}

    ENTRY e {
      x = f32[4,2] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}, {}]>"}
      ROOT y = f32[8] reshape(x), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@other, [{\\"x\\"}, {}]>"}
    }
    """
    local = hloc.partition(text)
    verify(local)
    assert [p.array.dims for p in local.entry.parameters] == [(2, 2)]


@pytest.mark.parametrize(
    ("sharding", "words"),
    [
        ("{mesh['x'=2,'y'=0], [{'y'}, {}]}", "axis 'y' of the mesh in .* has size 0"),
        ("{mesh['x'=8], [{'x':(0)2}, {}]}", r"axis 'x' of size 8 has no part \(0\)2"),
    ],
)
def test_axes_of_no_size_are_refused(sharding: str, words: str) -> None:
    text = f"HloModule m, num_partitions=8\n\nENTRY e {{\n  ROOT x = f32[8,4] parameter(0), sharding={sharding}\n}}\n"
    with pytest.raises(HloError, match=words):
        hloc.partition(text)


@pytest.mark.parametrize("part", ["(0)2", "(1)3", "(2)0"])
def test_parts_that_an_axis_does_not_have_are_refused(part: str) -> None:
    sharding = f'xla.sdy.sharding="#sdy.sharding<@mesh, [{{\\"x\\":{part}}}, {{}}]>"'
    text = (
        'HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>}}\n\n'
        f"ENTRY e {{\n  ROOT x = f32[8,4] parameter(0), frontend_attributes={{{sharding}}}\n}}\n"
    )
    with pytest.raises(HloError, match="axis 'x' of size 8 has no part"):
        hloc.partition(text)


NUMBERED = """HloModule m, num_partitions=4

ENTRY e {
  x = u32[8] parameter(0), sharding={devices=[4]<=[4]}
  c = u32[8] custom-call(x), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
  p = u32[] partition-id()
  b = u32[8] broadcast(p), dimensions={}
  ROOT s = u32[8] add(c, b)
}
"""


def test_results_that_depend_on_the_number_of_the_device_are_refused() -> None:
    """As XLA: `PartitionId instruction is not supported for SPMD partitioning`."""
    with pytest.raises(UnsupportedError, match=r"p: the results depend .* outside of a manual"):
        hloc.partition(NUMBERED)


def test_shardings_by_named_axes_split_arrays() -> None:
    text = """HloModule m, num_partitions=8

    ENTRY e {
      x = f32[8,4] parameter(0), sharding={mesh['x'=2,'y'=4], [{'y'}, {'x'}]}
      ROOT y = f32[8,4] negate(x), sharding={mesh['x'=2,'y'=4], [{'x'}, {}]}
    }
    """
    local = hloc.partition(text)
    verify(local)
    assert local.entry.parameters[0].array.dims == (2, 2)
    assert local.entry.root.array.dims == (4, 4)


def test_a_region_whose_parts_no_sharding_gives_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"f32\[1,8\].* \[8, 8\]"):
        hloc.partition(NO_SHARDING_BEFORE)


def test_axes_that_are_not_manual_hold_copies() -> None:
    local = hloc.partition(PARTLY_MANUAL)
    signature = sharded_signature(local)
    x = np.arange(8, dtype=np.int32)
    (found,) = join_all(evaluate_devices(local, cut_all([x], signature)), signature)
    np.testing.assert_array_equal(found, [6, 7, 0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("header", "devices", "words"),
    [(4, 6, "over 6 devices, but the module has 4"), (1 << 30, 1 << 30, "more than 1048576")],
)
def test_too_many_devices_are_refused(header: int, devices: int, words: str) -> None:
    text = (
        f"HloModule m, num_partitions={header}\n\nENTRY e {{\n"
        f"  ROOT x = f32[8] parameter(0), sharding={{devices=[{devices}]<=[{devices}]}}\n}}\n"
    )
    with pytest.raises(HloError, match=words):
        hloc.partition(text)
