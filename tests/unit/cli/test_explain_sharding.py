"""`hloc explain-sharding`: terminal, JSON and page of a partitioned module."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hloc.cli import main
from hloc.report.sharding import sharding_plan
from hloc.report.sharding.sharding_advice import Trials

PARTITIONED = """HloModule mlp, num_partitions=8, is_scheduled=true

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main_spmd {
  x = f32[16,256] parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
  w1 = f32[256,256] parameter(1), \
sharding={devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}, metadata={op_name="params['w1']"}
  dot.1 = f32[16,256] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sum = f32[16,256] all-reduce(dot.1), channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}}, \
use_global_device_ids=true, to_apply=add, \
metadata={op_name="jit(mlp)/dot" source_file="mlp.py" source_line=7}
  whole = f32[64,256] all-gather(sum), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), \
use_global_device_ids=true, dimensions={0}
  copied = f32[64,256] copy(whole)
  ROOT y = f32[64,256] tanh(copied)
}
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.hlo").write_text(PARTITIONED)
    return tmp_path


def test_the_report_names_cause_place_bytes_and_time(capsys: Capture) -> None:
    assert main(["explain-sharding", "p.hlo", "--mesh=x=4,y=2", "--links=x=1GB/0us,y=1MB/0us"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "p.hlo: 8 devices, mesh x=4,y=2",
        "  model       links x 1GB/0us, y 1MB/0us; computing on H100",
        "  sends       64.0 KiB per device and run in 2 collectives",
    ]
    table = [re.sub(" +", " ", line).strip() for line in lines[5:14]]
    assert table == [
        "collective along members runs sent time waits",
        "all-gather whole x 4 1 48.0 KiB 49.2 us 49.2 us exposed",
        "y (tanh) needs dimension 0 whole",
        "f32[16,256]: dimension 0 split along x -> dimension 0 whole",
        "line 14",
        "all-reduce sum y 2 1 16.0 KiB 16.4 ms 16.4 ms exposed",
        "dot.1 (dot) sums over a dimension that is split along y",
        "f32[16,256]: partial sums along y -> the same along y",
        "line 13; mlp.py:7; jit(mlp)/dot",
    ]
    assert any(line.startswith("memory per device: ") for line in lines)
    assert [line.split()[-2:] for line in lines if line.startswith(("x ", "params"))] == [
        ["[x,", "-]"],
        ["[-,", "y]"],
    ]


def test_json_has_every_number(capsys: Capture) -> None:
    assert main(["explain-sharding", "p.hlo", "--format=json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["schema"], data["report"]) == (1, "explain-sharding")
    assert data["mesh"] == [["axis_0", 4], ["axis_1", 2]]
    assert data["total_bytes"] == sum(row["size_bytes"] for row in data["collectives"]) == 65536
    first = data["collectives"][0]
    assert first["needed_by"] == "dot.1 (dot)"
    assert first["axes"] == ["axis_1"]
    assert first["group_of"] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert data["memory"]["total_bytes"] >= data["memory"]["parameter_bytes"] == 16384 + 262144


class _Tags(HTMLParser):
    """Checks that tags close in order, and collects them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fills: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.fills += [values["fill"] or ""] if tag == "rect" and "fill" in values else []
        if tag not in ("meta", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_table_of_collectives_fits_800_pixels(folder: Path) -> None:
    """Its last column, the times, was cut off; what is wider still can be scrolled with keys."""
    assert main(["explain-sharding", "p.hlo", "--html=p.html"]) == 0
    page = (folder / "p.html").read_text()
    least = re.search(r"\.collectives \{ min-width: (\d+)rem", page)
    assert least is not None
    assert int(least[1]) * 16 <= 768, "800 pixels less the margins"
    assert 'class="bar" viewBox' in page, "bars shrink"
    assert page.count("class='wide'") == page.count("class='wide' tabindex='0'") >= 2


def test_the_page_draws_groups_and_tiles_in_colours(folder: Path) -> None:
    assert main(["explain-sharding", "p.hlo", "--html=p.html"]) == 0
    page = (folder / "p.html").read_text()
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert "<script" not in page
    grids = [tags.fills[i : i + 8] for i in range(0, len(tags.fills), 8)]
    legend, gather, reduce, x, w1 = grids
    assert len(set(legend)) == 1
    assert "axis_1 →" in page
    assert "axis_0 ↓" in page
    assert len(set(gather)) == 2
    assert gather[0] == gather[2] != gather[1]
    assert len(set(reduce)) == 4
    assert reduce[0] == reduce[1] != reduce[2]
    assert (x, w1) == (reduce, gather)  # x has 4 tiles along x, w1 has 2 along y


def test_devices_that_a_permute_connects_have_one_colour(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.hlo").write_text("""HloModule c, num_partitions=8
    ENTRY e { x = f32[4] parameter(0) ROOT p = f32[4] collective-permute(x), channel_id=1,
      source_target_pairs={{0,1},{1,2},{4,5},{6,6}} }""")
    assert main(["explain-sharding", "c.hlo", "--format=json"]) == 0
    (permute,) = json.loads(capsys.readouterr().out)["collectives"]
    assert permute["group_of"] == [0, 0, 0, -1, 1, 1, 2, -1]
    assert main(["explain-sharding", "c.hlo", "--html=c.html"]) == 0
    assert "3 pairs along" in (folder / "c.html").read_text()


def test_names_of_the_text_are_escaped(folder: Path) -> None:
    Path("q.hlo").write_text(PARTITIONED.replace("jit(mlp)/dot", "<script>alert(1)</script>"))
    assert main(["explain-sharding", "q.hlo", "--html=q.html"]) == 0
    assert "<script" not in (folder / "q.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mesh=x=4"], "the mesh x=4 has 4 devices, but the module is for 8"),
        (["--mesh=4,x"], "expected a mesh such as x=4,y=2 or 4,2, found '4,x'"),
        (["--mesh=x=4,x=2"], "axes of different names"),
        (["--links=z=ici"], "links are for axis 'z'"),
        (["--links=warp"], "expected a link, one of local"),
        (["--chip=abacus"], "unknown device 'abacus'"),
        (["--html=p.txt"], "ends in .html"),
    ],
)
def test_wrong_options_are_refused(options: list[str], words: str, capsys: Capture) -> None:
    assert main(["explain-sharding", "p.hlo", *options]) != 0
    assert words in capsys.readouterr().err


def test_a_module_for_one_device_is_refused(capsys: Capture) -> None:
    Path("one.hlo").write_text("HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n")
    assert main(["explain-sharding", "one.hlo"]) == 1
    assert "the module is for one device: nothing is sharded" in capsys.readouterr().err


def test_a_note_of_the_partitioner_gives_both_shardings(capsys: Capture) -> None:
    note = (
        'frontend_attributes={reshard.after="{replicated}",'
        'reshard.before="{devices=[4,1,2]<=[8] last_tile_dim_replicate}",'
        'reshard.needed_by="tanh.3",reshard.value="h"}'
    )
    Path("n.hlo").write_text(PARTITIONED.replace("dimensions={0}\n", f"dimensions={{0}}, {note}\n"))
    assert main(["explain-sharding", "n.hlo", "--format=json"]) == 0
    (row,) = [r for r in json.loads(capsys.readouterr().out)["collectives"] if r["name"] == "whole"]
    assert (row["value"], row["needed_by"]) == ("h", "tanh.3")
    assert (row["before"], row["after"]) == ("[axis_0, -]", "replicated")


ANNOTATED = """HloModule mlp, num_partitions=8, \
frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=4, "model"=2]>}}

ENTRY main {
  x = f32[64,256] parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
  w1 = f32[256,512] parameter(1), sharding={devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}
  h = f32[64,512] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  w2 = f32[512,256] parameter(2), sharding={devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}
  y = f32[64,256] dot(h, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[64,256] tanh(y), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
}
"""


def test_annotated_text_is_partitioned_and_causes_are_instructions_of_it(capsys: Capture) -> None:
    Path("a.hlo").write_text(ANNOTATED)
    assert main(["explain-sharding", "a.hlo", "--format=json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["mesh"] == [["data", 4], ["model", 2]]
    (row,) = data["collectives"]
    assert (row["opcode"], row["axes"], row["size_bytes"]) == ("all-reduce", ["model"], 16384)
    assert (row["value"], row["before"], row["after"]) == ("y", "partial sums", "[data, -]")
    assert row["text_line"] == 8


_LOOP = """HloModule m, num_partitions=2

body {
  s = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[8,8]) tuple(next, y)
}

condition {
  s = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  p = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
  zero = s32[] constant(0)
  init = (s32[], f32[8,8]) tuple(zero, p)
  loop = (s32[], f32[8,8]) while(init), condition=condition, body=body
  ROOT r = f32[8,8] get-tuple-element(loop), index=1, sharding={devices=[2,1]<=[2]}
}
"""


def test_collectives_of_loops_count_every_iteration(capsys: Capture) -> None:
    Path("l.hlo").write_text(_LOOP)
    assert main(["explain-sharding", "l.hlo", "--format=json"]) == 0
    rows = json.loads(capsys.readouterr().out)["collectives"]
    assert [(row["times"], row["exact"]) for row in rows] == [(5, True)] * len(rows)
    assert rows


def test_one_program_for_any_number_of_devices(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.hlo").write_text(ANNOTATED)
    found = []
    # Annotations are tried in tests of their own: that partitions the module 50 times.
    monkeypatch.setattr(sharding_plan, "advice_for", lambda *_: Trials((), 0))
    for mesh in ("data=4,model=2", "data=16,model=16", "data=64,model=64"):
        assert main(["explain-sharding", "a.hlo", f"--mesh={mesh}", "--format=json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [data["devices"] for data in found] == [8, 256, 4096]
    rows = [data["collectives"] for data in found]
    assert [[(r["opcode"], r["axes"], r["members"]) for r in each] for each in rows] == [
        [("all-reduce", ["model"], n)] for n in (2, 16, 64)
    ]
    # 2(n-1)/n of the part of y on one device: f32[64/data, 256]
    assert [data["total_bytes"] for data in found] == [16384, 7680, 2016]
    local = [data["arguments"][1]["shape"] for data in found]
    assert local == ["f32[256,256]", "f32[256,32]", "f32[256,8]"]


@pytest.mark.slow  # 3 s: the smaller mesh below goes the same way
def test_annotations_are_tried_on_thousands_of_devices(capsys: Capture) -> None:
    Path("a.hlo").write_text(ANNOTATED)
    assert main(["explain-sharding", "a.hlo", "--mesh=data=64,model=64", "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["tried"] > 0


def test_the_first_axis_grows_with_the_number_of_devices(capsys: Capture) -> None:
    Path("a.hlo").write_text(ANNOTATED)
    assert main(["explain-sharding", "a.hlo", "--devices=64", "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["mesh"] == [["data", 32], ["model", 2]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--devices=7"], "7 devices are no multiple of 2"),
        (["--devices=16", "--mesh=data=4,model=8"], "the mesh has 32 devices, but --devices=16"),
        (["--mesh=a=2,b=2,c=4"], "the mesh has 3 axes, but the module's has 2: data=4,model=2"),
        (["--mesh=data=9999999,model=9"], "more than 1048576"),
    ],
)
def test_meshes_that_do_not_fit_are_refused(
    options: list[str], words: str, capsys: Capture
) -> None:
    Path("a.hlo").write_text(ANNOTATED)
    assert main(["explain-sharding", "a.hlo", *options]) == 1
    assert words in capsys.readouterr().err


def test_a_partitioned_program_keeps_its_mesh(capsys: Capture) -> None:
    assert main(["explain-sharding", "p.hlo", "--devices=4096"]) == 1
    assert "give the annotated text" in capsys.readouterr().err


def test_the_annotation_that_removes_most_bytes_is_found_by_trying(capsys: Capture) -> None:
    bad = ANNOTATED.replace("[4,1,2]<=[8] last_tile_dim_replicate}\n  w1", "[1,8]<=[8]}\n  w1")
    Path("b.hlo").write_text(bad)
    assert main(["explain-sharding", "b.hlo", "--format=json"]) == 0
    data = json.loads(capsys.readouterr().out)
    best = data["advice"][0]
    assert data["tried"] > 10
    assert best["saved_bytes"] == data["total_bytes"] - best["size_bytes"] > 0
    where = bad.splitlines().index(next(x for x in bad.splitlines() if f" {best['value']} =" in x))
    tiles = {"[data, -]": "[4,1,2]<=[8] last_tile_dim_replicate", "replicated": ""}
    assert best["sharding"] in tiles, "the fix below must say the same"
    fixed = bad.splitlines()
    head = fixed[where].partition(", sharding=")[0]
    text = tiles[best["sharding"]]
    fixed[where] = f"{head}, sharding=" + (f"{{devices={text}}}" if text else "{replicated}")
    Path("c.hlo").write_text("\n".join(fixed))
    assert main(["explain-sharding", "c.hlo", "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_bytes"] == best["size_bytes"]
