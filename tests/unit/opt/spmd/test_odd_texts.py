"""Annotated texts that once ended the partitioner: partitioned now, or refused in words."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.errors import HloError, UnsupportedError
from hloc.evaluator.devices import evaluate_devices
from hloc.ir.edges import edges_of
from hloc.ir.verifier import verify
from hloc.runtime.shards import cut_all, join_all

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


@pytest.mark.parametrize("text", [TOKEN_REGION, LISTS, INFEED], ids=["token", "list", "infeed"])
def test_it_is_partitioned(text: str) -> None:
    local = hloc.partition(text)
    verify(local)
    assert local.entry.name.endswith("_spmd")


def test_a_region_whose_parts_no_sharding_gives_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"manual region is f32\[8,8\].* \[1, 8\]"):
        hloc.partition(NO_SHARDING_BEFORE)


def test_axes_that_are_not_manual_hold_copies() -> None:
    local = hloc.partition(PARTLY_MANUAL)
    edges = edges_of(local)
    x = np.arange(8, dtype=np.int32)
    (found,) = join_all(evaluate_devices(local, cut_all([x], edges)), edges)
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
