"""Manual regions over some axes of a mesh: along the others arrays in them are split, too.

Answers are worked out in NumPy: the evaluator has no whole-array meaning for a region.
"""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np

import hloc
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.sharded_signature import sharded_signature
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import verify
from hloc.runtime.shards import cut_all, join_all
from tests.inputs import inputs_for
from tests.tolerance import assert_close

FREE_AXIS = r"""HloModule m, num_partitions=8

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[16,8] parameter(0), sharding={devices=[4,2]<=[8]}
  c = f32[16,8] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}, backend_config="unspecified_dims=[0,1]"
  l = f32[4,8] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}
  t = f32[4,8] tanh(l)
  r = f32[4,8] all-reduce(t), channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}}, use_global_device_ids=true, to_apply=add
  p = f32[4,8] collective-permute(r), channel_id=2, source_target_pairs={{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}
  ROOT w = f32[16,8] custom-call(p), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,2]<=[8]}
}
"""

SUMMED_ALONG_FREE_AXIS = r"""HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2]>}}

body {
  l = f32[2,8] parameter(0)
  v = f32[8,6] parameter(1)
  ROOT d = f32[2,6] dot(l, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY e {
  a = f32[4,8] parameter(0), sharding={devices=[2,2]<=[4]}
  b = f32[8,6] parameter(1), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  i = (f32[2,8], f32[8,6]) custom-call(a, b), custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}, {?}]>, <@mesh, [{?}, {?}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>"}
  l = f32[2,8] get-tuple-element(i), index=0
  v = f32[8,6] get-tuple-element(i), index=1
  r = f32[2,6] call(l, v), to_apply=body
  ROOT w = f32[4,6] custom-call(r), custom_call_target="xla.sdy.LocalToGlobalShape", frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}, {?}]>]>"}
}
"""

OTHER_GROUPS = r"""HloModule m, num_partitions=4

ENTRY e {
  x = f32[4,8] parameter(0), sharding={devices=[2,2]<=[4]}
  c = f32[4,8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, backend_config="unspecified_dims=[0,1]"
  l = f32[2,8] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}
  p = f32[2,8] collective-permute(l), channel_id=1, source_target_pairs={{0,2},{2,0}}
  ROOT w = f32[4,8] custom-call(p), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,2]<=[4]}
}
"""

REGION_IN_REGION = r"""HloModule m, num_partitions=4

ENTRY e {
  x = f32[4,8] parameter(0), sharding={devices=[2,2]<=[4]}
  c = f32[4,8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, backend_config="unspecified_dims=[0,1]"
  l = f32[2,8] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}
  n = f32[2,8] negate(l)
  d = f32[2,8] custom-call(n), custom_call_target="Sharding", sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  k = f32[2,4] custom-call(d), custom_call_target="SPMDFullToShardShape", sharding={manual}
  t = f32[2,4] tanh(k)
  o = f32[2,8] custom-call(t), custom_call_target="SPMDShardToFullShape", sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  f = f32[2,8] floor(o)
  ROOT w = f32[4,8] custom-call(f), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,2]<=[4]}
}
"""

LOOP = """HloModule m, num_partitions=4

more {
  p = (s32[], s32[2,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  p = (s32[], s32[2,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = s32[2,8] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  s = s32[2,8] collective-permute(x), channel_id=1, source_target_pairs={{0,2},{2,0},{1,3},{3,1}}
  k = s32[2,8] iota(), iota_dimension=1
  y = s32[2,8] add(s, k)
  ROOT t = (s32[], s32[2,8]) tuple(j, y)
}

ENTRY e {
  x = s32[4,8] parameter(0), sharding={devices=[2,2]<=[4]}
  c = s32[4,8] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, backend_config="unspecified_dims=[0,1]"
  l = s32[2,8] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}
  z = s32[] constant(0)
  s = (s32[], s32[2,8]) tuple(z, l)
  w = (s32[], s32[2,8]) while(s), condition=more, body=body
  r = s32[2,8] get-tuple-element(w), index=1
  ROOT o = s32[4,8] custom-call(r), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,2]<=[4]}
}
"""

USED_AFTER_REGION = r"""HloModule m, allow_spmd_sharding_propagation_to_output={true}, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "z"=2]>}}

ENTRY e {
  x = f32[4,8] parameter(0), sharding={devices=[2,2]<=[4]}
  l = f32[2,8] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}, {?}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>"}
  t = f32[2,8] tanh(l)
  w = f32[4,8] custom-call(t), custom_call_target="xla.sdy.LocalToGlobalShape", frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}, {?}]>]>"}
  n = f32[4,8] negate(w)
  c = f32[] constant(2)
  b = f32[4,8] broadcast(c), dimensions={}
  ROOT y = f32[4,8] multiply(n, b)
}
"""


def partitioned(text: str, *arrays: Any) -> tuple[Module, np.ndarray[Any, Any]]:
    """Return the program of each device, and its joined result."""
    local = hloc.partition(text)
    verify(local)
    signature = sharded_signature(local)
    (found,) = join_all(evaluate_devices(local, cut_all(arrays, signature)), signature)
    return local, np.asarray(found)


def collectives(module: Module) -> list[Instruction]:
    return [inst for inst in all_instructions(module) if inst.opcode.exchange is not None]


def test_collectives_along_the_axis_of_the_region_take_the_parts_along_others() -> None:
    (x,) = inputs_for(hloc.parse(FREE_AXIS))
    local, found = partitioned(FREE_AXIS, x)
    total = np.tanh(x).reshape(4, 4, 8).sum(0)
    assert_close(found, np.tile(total, (4, 1)))
    assert {inst.array.dims for inst in collectives(local)} == {(4, 4)}
    assert len(collectives(local)) == 2


def test_a_product_is_summed_along_the_free_axis() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(dims).astype(np.float32) for dims in ((4, 8), (8, 6)))
    local, found = partitioned(SUMMED_ALONG_FREE_AXIS, a, b)
    assert_close(found, a @ b)
    sent = [(inst.opcode.name, inst.array.dims) for inst in collectives(local)]
    assert ("all-reduce", (2, 6)) in sent
    assert ("all-gather", (8, 6)) not in sent


def test_groups_that_differ_along_the_free_axis_get_whole_arrays() -> None:
    """The devices of one place along it exchange; the others receive nothing."""
    (x,) = inputs_for(hloc.parse(OTHER_GROUPS))
    local, found = partitioned(OTHER_GROUPS, x)
    permute = next(inst for inst in collectives(local) if inst.is_a("collective-permute"))
    assert permute.array.dims == (2, 8)
    np.testing.assert_array_equal(found[:, :4], np.concatenate([x[2:], x[:2]])[:, :4])


def test_a_region_in_a_region_cuts_what_the_outer_one_left_whole() -> None:
    (x,) = inputs_for(hloc.parse(REGION_IN_REGION))
    local, found = partitioned(REGION_IN_REGION, x)
    np.testing.assert_array_equal(found, np.floor(np.tanh(-x)))
    assert not collectives(local)


def test_a_loop_in_a_region_keeps_its_state_split() -> None:
    (x,) = inputs_for(hloc.parse(LOOP))
    local, found = partitioned(LOOP, x)
    wanted = np.concatenate([x[2:], x[:2]]) + 3 * np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(found, wanted)
    assert {inst.array.dims for inst in collectives(local)} == {(2, 4)}


def test_elementwise_users_of_an_open_result_stay_split_along_the_free_axis() -> None:
    (x,) = inputs_for(hloc.parse(USED_AFTER_REGION))
    local, found = partitioned(USED_AFTER_REGION, x)
    assert_close(found, -2 * np.tanh(x))
    assert not collectives(local)
    assert local.entry.root.array.dims == (2, 4)


def test_users_of_a_closed_result_are_whole_along_the_free_axis() -> None:
    closed = USED_AFTER_REGION.replace(
        r'out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}, {?}]>]>"',
        r'out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]>"',
    )
    assert closed != USED_AFTER_REGION
    (x,) = inputs_for(hloc.parse(closed))
    local, found = partitioned(closed, x)
    assert_close(found, -2 * np.tanh(x))
    assert local.entry.root.array.dims == (2, 8)
