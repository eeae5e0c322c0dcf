"""`hloc run --devices=N`: whole arrays in and out, or those of each device; what is refused."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.errors import HloError
from hloc.ir.sharded_signature import sharded_signature

SUM = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n"
GLOBAL = "channel_id=1, use_global_device_ids=true, replica_groups=[2,2]<=[4]"

# As XLA prints what it has partitioned: no sharding on the result.
ROWS = f"""HloModule rows, num_partitions=4
{SUM}
ENTRY main_spmd {{
  a = f32[2,3] parameter(0), sharding={{devices=[2,2]<=[4]}}
  ROOT r = f32[2,3] all-reduce(a), {GLOBAL}, to_apply=sum
}}
"""
JOINED = ROWS.replace(
    "to_apply=sum\n", "to_apply=sum, sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}\n"
)
WHOLE = """HloModule twice, num_partitions=4
ENTRY main {
  a = f32[5] parameter(0), sharding={devices=[4]<=[4]}
  ROOT b = f32[5] add(a, a), sharding={devices=[4]<=[4]}
}
"""


@dataclass(frozen=True)
class Found:
    code: int
    out: str
    err: str


Run: TypeAlias = Callable[..., Found]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs `hloc` with some words."""

    def hloc_with(*words: object) -> Found:
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return Found(code, said.out, said.err)

    return hloc_with


@pytest.fixture
def arguments(tmp_path: Path) -> str:
    """Return an archive with arg0 of `f32[4,6]`."""
    path = tmp_path / "in.npz"
    np.savez(path, arg0=np.arange(24, dtype=np.float32).reshape(4, 6))
    return str(path)


def test_a_module_for_several_devices_is_not_run_on_one(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.hlo"
    file.write_text(ROWS)
    found = run("run", file)
    assert found.code == 1
    assert "module rows runs on 4 devices that work together" in found.err
    assert "--devices=4" in found.err
    assert found.out == ""


def test_results_of_unknown_sharding_are_shown_by_device(
    run: Run, tmp_path: Path, arguments: str
) -> None:
    file = tmp_path / "rows.hlo"
    file.write_text(ROWS)
    found = run(
        "run",
        file,
        "--devices=4",
        f"--inputs={arguments}",
        "--print-output=6",
        "--compare-with=interp",
    )
    assert found.code == 0
    assert "compare with interp: OK" in found.err
    assert found.out == (
        "out0 on devices 0-1 = f32[2,3] {3, 5, 7, 15, 17, 19}\n"
        "out0 on devices 2-3 = f32[2,3] {27, 29, 31, 39, 41, 43}\n"
    )


def test_whole_arrays_go_in_and_come_out(run: Run, tmp_path: Path, arguments: str) -> None:
    file, output = tmp_path / "joined.hlo", tmp_path / "out.npz"
    file.write_text(JOINED)
    found = run("run", file, "--mesh=2,2", f"--inputs={arguments}", f"--output={output}")
    assert found.code == 0, found.err
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    with np.load(output) as stored:
        assert np.array_equal(stored["out0"], whole[:, :3] + whole[:, 3:])


def test_arrays_of_each_device_are_stacked(run: Run, tmp_path: Path) -> None:
    file, output, inputs = tmp_path / "joined.hlo", tmp_path / "out.npz", tmp_path / "in.npz"
    file.write_text(JOINED)
    stacked = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    np.savez(inputs, arg0=stacked)
    found = run(
        "run", file, "--devices=4", "--per-device", f"--inputs={inputs}", f"--output={output}"
    )
    assert found.code == 0, found.err
    sums = [stacked[0] + stacked[1]] * 2 + [stacked[2] + stacked[3]] * 2
    with np.load(output) as stored:
        assert np.array_equal(stored["out0"], np.stack(sums))


def test_a_global_program_runs_whole_and_is_cut_for_the_devices(run: Run, tmp_path: Path) -> None:
    file, output, inputs = tmp_path / "whole.hlo", tmp_path / "out.npz", tmp_path / "in.npz"
    file.write_text(WHOLE)
    np.savez(inputs, arg0=np.array([1, 2, 3, 4, 5], np.float32))
    found = run("run", file, "--devices=4", f"--inputs={inputs}", "--print-output")
    assert found.code == 0, found.err
    assert found.out == "out0 = f32[5] {2, 4, 6, 8, 10}\n"
    np.savez(inputs, arg0=np.array([[1, 2], [3, 4], [5, 0], [0, 0]], np.float32))
    found = run(
        "run", file, "--devices=4", "--per-device", f"--inputs={inputs}", f"--output={output}"
    )
    with np.load(output) as stored:
        assert stored["out0"].tolist() == [[2, 4], [6, 8], [10, 0], [0, 0]]


def test_the_evaluator_runs_all_devices(run: Run, tmp_path: Path, arguments: str) -> None:
    file = tmp_path / "rows.hlo"
    file.write_text(ROWS)
    words = ("run", file, "--devices=4", f"--inputs={arguments}", "--print-output=6")
    found = run(*words, "--backend=interp", "--compare-with=O0")
    assert found.code == 0, found.err
    assert "compare with O0: OK" in found.err
    assert found.out == run(*words).out


def test_the_evaluator_runs_one_device(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "one.hlo"
    file.write_text("HloModule m\nENTRY e { c = f32[] constant(2) ROOT n = f32[] negate(c) }\n")
    assert run("run", file, "--backend=interp").out == "out0 = f32[] -2\n"


def test_another_number_of_devices_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.hlo"
    file.write_text(ROWS)
    found = run("run", file, "--devices=8")
    assert found.code == 1
    assert "is for 4 devices (replica_count=1, num_partitions=4), but was given 8" in found.err
    assert run("run", file, "--devices=8", "--mesh=2,2").code == 2


def test_a_text_that_counts_no_devices_runs_on_those_it_is_given(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "number.hlo"
    file.write_text("HloModule m\nENTRY e { ROOT p = u32[] partition-id() }\n")
    found = run("run", file, "--devices=3")
    assert found.out == "".join(f"out0 on device {i} = u32[] {i}\n" for i in range(3))
    assert run("run", file, "--devices=2").out.count("\n") == 2


def test_a_deadlock_is_an_error_of_the_run(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "stuck.hlo"
    file.write_text(
        f"HloModule m, num_partitions=2\n{SUM}"
        f"one {{ v = f32[] parameter(0) ROOT x = f32[] all-reduce(v), channel_id=1, use_global_device_ids=true, replica_groups={{{{0,1}}}}, to_apply=sum }}\n"
        "two { v = f32[] parameter(0) ROOT y = f32[] negate(v) }\n"
        "ENTRY e { a = f32[] parameter(0) p = u32[] partition-id() k = s32[] convert(p) "
        "ROOT r = f32[] conditional(k, a, a), branch_computations={one, two} }\n"
    )
    found = run("run", file, "--devices=2")
    assert found.code != 0
    assert "deadlock" in found.err
    assert "'x'" in found.err


def test_the_profile_has_a_line_per_collective(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.hlo"
    file.write_text(ROWS)
    found = run("run", file, "--devices=4", "--profile", "--repeat=2")
    assert found.code == 0, found.err
    assert "profile: 1 collective" in found.err
    assert "all-reduce" in found.err


def test_an_executable_takes_and_gives_whole_arrays() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    for module in (JOINED, hloc.parse(JOINED)):
        (result,) = hloc.compile(module)(whole)
        assert np.array_equal(result, whole[:, :3] + whole[:, 3:])


def test_an_executable_says_when_parts_make_no_whole() -> None:
    executable = hloc.compile(ROWS)
    with pytest.raises(HloError, match="does not say how their parts of result 0 make a whole"):
        executable(np.ones((4, 6), np.float32))


# A shard_map as JAX writes it: the body has the shapes of one device.
MANUAL = r"""HloModule rows, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
body {
  a = f32[1,3] parameter(0)
  ROOT r = f32[1,3] all-reduce(a), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=sum
}
ENTRY main {
  a = f32[4,3] parameter(0), sharding={devices=[4,1]<=[4]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {}]>"}
  l = f32[1,3] custom-call(a), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>"}
  b = f32[1,3] call(l), to_apply=body
  g = f32[1,3] custom-call(b), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{}, {}]>]>"}
  ROOT t = f32[1,3] custom-call(g), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {}]>]>"}
}
"""


def test_manual_regions_run_on_all_devices(run: Run, tmp_path: Path) -> None:
    file, inputs = tmp_path / "manual.hlo", tmp_path / "in.npz"
    file.write_text(MANUAL)
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(inputs, arg0=whole)
    assert "--devices=4" in run("run", file).err
    found = run("run", file, "--devices=4", f"--inputs={inputs}", "--compare-with=interp")
    assert found.code == 0, found.err
    assert found.out == "out0 = f32[1,3] {18, 22, 26}\n"
    (result,) = hloc.compile(MANUAL)(whole)
    assert result.tolist() == [[18, 22, 26]]


def test_a_program_without_exchanges_takes_whole_arrays_too() -> None:
    """A manual region in which each device works alone."""
    alone = MANUAL.replace(
        "all-reduce(a), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=sum",
        "negate(a)",
    )
    alone = alone.replace("f32[1,3] custom-call(b)", "f32[4,3] custom-call(b)").replace(
        "[<@mesh, [{}, {}]>]", r"[<@mesh, [{\"x\"}, {}]>]"
    )
    alone = alone.replace("ROOT t = f32[1,3]", "ROOT t = f32[4,3]")
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    (result,) = hloc.compile(alone)(whole)
    assert np.array_equal(result, -whole)


def test_results_that_come_out_of_a_loop_are_joined() -> None:
    """The loop itself becomes the root, and keeps the sharding of the tuple that was it."""
    text = """HloModule m, num_partitions=4
below { t = (f32[8], s32[]) parameter(0) i = s32[] get-tuple-element(t), index=1 n = s32[] constant(3) ROOT c = pred[] compare(i, n), direction=LT }
body { t = (f32[8], s32[]) parameter(0) x = f32[8] get-tuple-element(t), index=0 y = f32[8] add(x, x)
  i = s32[] get-tuple-element(t), index=1 one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (f32[8], s32[]) tuple(y, j) }
ENTRY main { a = f32[8] parameter(0), sharding={devices=[4]<=[4]} z = s32[] constant(0) t = (f32[8], s32[]) tuple(a, z)
  w = (f32[8], s32[]) while(t), condition=below, body=body
  x = f32[8] get-tuple-element(w), index=0 i = s32[] get-tuple-element(w), index=1
  ROOT r = (f32[8], s32[]) tuple(x, i), sharding={{devices=[4]<=[4]}, {replicated}} }
"""
    results = sharded_signature(hloc.partition(text)).results
    assert [leaf.whole.dims for leaf in results] == [(8,), ()]
    assert all(leaf.placement is not None for leaf in results)
