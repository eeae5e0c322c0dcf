"""`--links=` and the mesh that it names."""

from pathlib import Path

import pytest

import hloc
from hloc.analysis.network.links import PRESETS, Link, Network, mesh_text, parse_link, parse_links
from hloc.analysis.network.module_mesh import module_mesh
from hloc.cli import main
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


FILE = """default = "nvlink"  # x, unless it has its own

[y]
bandwidth = "25GB"
latency = "5us"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.toml"


@pytest.mark.parametrize(
    ("text", "links"),
    [
        (FILE, ("nvlink", "25GB/5us")),
        ('x = "ici"\ny = "1GB/0us"', ("ici", "1GB/0us")),
        ('y = { latency = "5us", bandwidth = "25GB" }\n"x" = "pcie"\n', ("pcie", "25GB/5us")),
    ],
)
def test_links_of_a_file(file: Path, text: str, links: tuple[str, ...]) -> None:
    file.write_text(text)
    assert parse_links(str(file), MESH) == tuple(map(parse_link, links))


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ('x = "ici"\nz = "ici"', "2:1", "links are for axis 'z', but the mesh is x=4,y=2"),
        ('default = "nvlnk"', "1:1", "expected a link, .*did you mean nvlink"),
        ("x = 3", "1:1", "axis 'x' needs a link in quotes, or bandwidth and latency, found 3"),
        ('x = "ici"\n[y]\nlatency = "5us"', "2:2", "axis 'y' has no bandwidth"),
        ('[y]\nbandwidth = "1GB"\nlatency = 5', "3:1", "latency is written in quotes"),
        ('[y]\nlatency = "5us"\nrate = "1"', "3:1", "bandwidth and latency, found 'rate'"),
        ('[y]\nlatency = "5"\nbandwidth = "1GB"', "1:2", "expected a link.*found '1GB/5'"),
        ("x = ici", "1:5", "invalid value"),
        ("x", "1:2", "expected '=' after a key"),
        ('x = "ici', "1:9", "nterminated string|unexpected|xpected"),
    ],
)
def test_faults_of_a_file_have_a_place(file: Path, text: str, where: str, words: str) -> None:
    file.write_text(text)
    with pytest.raises(HloError, match=words) as found:
        parse_links(str(file), MESH)
    assert f"cluster.toml:{where}: error: " in str(found.value)


def test_a_file_may_leave_an_axis_out_by_mistake(file: Path) -> None:
    with pytest.raises(HloError, match=r"cannot read .*cluster.toml: no such file"):
        parse_links(str(file), MESH)
    file.write_text('x = "ici"')
    with pytest.raises(HloError, match="no link is given for axis 'y'"):
        parse_links(str(file), MESH)
    file.write_bytes(b"x = " + b"[" * 100_000)
    with pytest.raises(HloError):
        parse_links(str(file), MESH)


def test_the_passes_take_a_file(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A collective is split in two where the work beside it is at least a tenth of its time."""
    program = tmp_path / "program.hlo"
    program.write_text("""HloModule m, num_partitions=2
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ENTRY e { x = f32[128,128] parameter(0)
      sum = f32[128,128] all-reduce(x), channel_id=1, replica_groups={{0,1}},
        use_global_device_ids=true, to_apply=add
      n = f32[128,128] negate(x)
      ROOT r = f32[128,128] add(sum, n) }""")
    for link, is_split in (("1GB/5us", False), ("1000GB/0us", True)):
        file.write_text(f'default = "{link}"')
        pipeline = f"--passes=async-collective-creator{{links={file}}}"
        assert main([str(program), pipeline]) == 0
        assert ("all-reduce-start" in capsys.readouterr().out) is is_split


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
