"""Shardings in the words of a mesh."""

import pytest

import hloc
from hloc.analysis.network.sharding_axes import sharding_text
from hloc.ir.replica_groups import DeviceMesh

MESH = DeviceMesh((("x", 4), ("y", 2)))


@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        ("{replicated}", "replicated"),
        ("{maximal device=3}", "on device 3"),
        ("{devices=[4,2]<=[8]}", "[x, y]"),
        ("{devices=[2,4]<=[4,2]T(1,0)}", "[y, x]"),
        ("{devices=[8,1]<=[8]}", "[x*y, -]"),
        ("{devices=[8,1]<=[4,2]T(1,0)}", "[y*x, -]"),
        ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "[x, -]"),
        ("{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}", "[-, y]"),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "[x, -]"),
        ("{devices=[4,1]<=[4]}", "{devices=[4,1]<=[4]}"),
    ],
)
def test_shardings_name_the_axes_that_split_each_dimension(sharding: str, expected: str) -> None:
    module = hloc.parse(
        f"HloModule m\n\nENTRY e {{\n  ROOT p = f32[16,8] parameter(0), sharding={sharding}\n}}\n"
    )
    assert sharding_text(module.entry.root.common.sharding, MESH) == expected
