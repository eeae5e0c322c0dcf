"""`--links=` and the mesh that it names."""

import pytest

import hloc
from hloc.analysis.links import PRESETS, Link, Network, mesh_text, parse_link, parse_links
from hloc.analysis.module_mesh import module_mesh
from hloc.errors import HloError
from hloc.ir.replica_groups import DeviceMesh
from hloc.options import DEFAULT_LINK, LINKS

MESH = DeviceMesh((("x", 4), ("y", 2)))


def test_the_option_names_the_presets() -> None:
    assert tuple(PRESETS) == LINKS
    assert DEFAULT_LINK in LINKS


def test_one_link_stands_for_all_axes() -> None:
    assert parse_links("ici", MESH) == (PRESETS["ici"],) * 2


def test_links_by_axis_in_any_order() -> None:
    found = parse_links("y=nvlink, x=25GB/5us", MESH)
    assert found == (Link("25GB/5us", 25e9, 5e-6), PRESETS["nvlink"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nvlnk", "expected a link, one of local, .*found 'nvlnk'; did you mean nvlink"),
        ("0GB/1us", "expected a link"),
        ("25GB", "expected a link"),
        ("z=ici", "links are for axis 'z', but the mesh is x=4,y=2"),
        ("x=ici", "no link is given for axis 'y'"),
    ],
)
def test_wrong_links_are_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(HloError, match=words):
        parse_links(text, MESH)


def test_units_are_powers_of_1000() -> None:
    assert parse_link("400MB/s/10ns") == Link("400MB/s/10ns", 4e8, 1e-8)


def test_groups_are_boxes_of_the_mesh_or_not() -> None:
    network = Network(MESH, parse_links("ici", MESH))
    assert network.spans((0, 2, 4, 6)) == (4, 1)
    assert network.spans((0, 1, 2, 3)) == (2, 2)
    assert network.spans((0, 3)) is None


def test_devices_of_a_permuted_mesh_lie_where_it_says() -> None:
    mesh = DeviceMesh((("x", 2), ("y", 2)), (0, 2, 1, 3))
    network = Network(mesh, parse_links("ici", mesh))
    assert network.spans((0, 1)) == (2, 1)


_MODULE = """HloModule m, num_partitions=8{header}

ENTRY e {{
  p = f32[8,8] parameter(0){sharding}
  ROOT g = f32[16,8] all-gather(p), channel_id=1, replica_groups={groups},
    use_global_device_ids=true, dimensions={{0}}
}}
"""


@pytest.mark.parametrize(
    ("header", "sharding", "groups", "expected"),
    [
        ("", "", "{{0,1},{2,3},{4,5},{6,7}}", "axis_0=4,axis_1=2"),
        ("", "", "{{0,4},{1,5},{2,6},{3,7}}", "axis_0=2,axis_1=4"),
        ("", "", "[4,2]<=[2,2,2]T(0,2,1)", "axis_0=2,axis_1=2,axis_2=2"),
        ("", "", "mesh['data'=4,'model'=2] {'model'}", "data=4,model=2"),
        (
            "",
            ", sharding={devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
            "{{0,4},{1,5},{2,6},{3,7}}",
            "axis_0=2,axis_1=2,axis_2=2",
        ),
        (
            ', frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=2, "b"=4]>}}',
            "",
            "{{0,1},{2,3},{4,5},{6,7}}",
            "a=2,b=4",
        ),
    ],
)
def test_the_mesh_of_a_module(header: str, sharding: str, groups: str, expected: str) -> None:
    module = hloc.parse(_MODULE.format(header=header, sharding=sharding, groups=groups))
    assert mesh_text(module_mesh(module)) == expected
