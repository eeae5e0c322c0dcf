"""`hloc partition` and `hloc.partition`: the program of each device, as text that hloc runs."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.cli import main

PRODUCT = """HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}
  y = f32[16,6] parameter(1), sharding={devices=[4,1]<=[4]}
  ROOT p = f32[8,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
}
"""

REGION = """HloModule m, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}

sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }

body {
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum
}

ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  local = f32[2] custom-call(x), custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}
  r = f32[2] call(local), to_apply=body
  ROOT w = f32[2] custom-call(r), custom_call_target="xla.sdy.LocalToGlobalShape", frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{}]>]>"}
}
"""


def test_the_text_runs_on_the_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, local = tmp_path / "whole.hlo", tmp_path / "local.hlo"
    whole.write_text(PRODUCT)
    assert main(["partition", str(whole), "-o", str(local)]) == 0
    text = local.read_text()
    assert "f32[8,4]{1,0} parameter(0)" in text
    assert "all-reduce(" in text
    assert main(["run", str(local), "--devices=4", "--random=0", "--compare-with=interp"]) == 0
    assert "OK" in capsys.readouterr().err


def test_an_annotated_program_is_partitioned_by_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "whole.hlo"
    file.write_text(PRODUCT)
    assert main(["run", str(file), "--devices=4", "--random=0", "--compare-with=interp"]) == 0
    assert "on 4 devices" in capsys.readouterr().err


def test_a_manual_region_is_run_as_it_is_written() -> None:
    local = hloc.partition(REGION)
    run = hloc.compile(local, threads=1)
    (found,) = run(np.arange(8, dtype=np.float32))
    np.testing.assert_array_equal(found, [12, 16])


def test_a_module_without_shardings_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one.hlo"
    file.write_text("HloModule m\n\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n")
    assert main(["partition", str(file)]) == 0
    assert "nothing to partition" in capsys.readouterr().err


def test_replicas_beside_partitions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "both.hlo"
    file.write_text(PRODUCT.replace("num_partitions=4", "replica_count=2, num_partitions=4"))
    assert main(["partition", str(file)]) == 3
    assert "several replicas" in capsys.readouterr().err


def test_results_that_one_instruction_makes_are_whole_arrays() -> None:
    """The sharding of the results stands on the root, which nothing may take away."""
    text = """HloModule m, num_partitions=4

best {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=GT
  v = f32[] select(c, a, b)
  p = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(v, p)
}

ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  i = s32[8] iota(), iota_dimension=0
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  r = (f32[], s32[]) reduce(x, i, low, zero), dimensions={0}, to_apply=best
  v = f32[] get-tuple-element(r), index=0
  p = s32[] get-tuple-element(r), index=1
  ROOT t = (f32[], s32[]) tuple(v, p), sharding={{replicated}, {replicated}}
}
"""
    run = hloc.compile(hloc.partition(text), threads=1)
    value, place = run(np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32))
    assert (float(value), int(place)) == (9, 5)
