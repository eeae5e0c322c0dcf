"""The simulation of threads claims the parts that the code claims, and counts their times."""

import itertools
import json
from pathlib import Path

import pytest

from hloc import driver
from hloc.cli import main
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.split_kernel import Estimate, Split
from hloc.codegen.cpu.thread_simulation import (
    Ranges,
    SimulatedRun,
    simulate_threads,
    thread_counts,
    trips_of,
)
from hloc.options import CompileOptions
from tests.unit.codegen.test_side_by_side import SORTED
from tests.unit.runtime.test_thread_parts import ranges

WIDE = """HloModule m
ENTRY e {
  x = f32[4096,4096] parameter(0)
  ROOT y = f32[4096,4096] tanh(x)
}"""
SMALL = WIDE.replace("4096", "16")
LOOP = """HloModule m
c { s = (s32[], f32[400,500]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(TRIPS)
  ROOT l = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[400,500]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[400,500] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[400,500] cosine(x)
  ROOT t = (s32[], f32[400,500]) tuple(j, y) }
ENTRY e { x = f32[400,500] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[400,500]) tuple(z, x)
  w = (s32[], f32[400,500]) while(t), condition=c, body=b
  ROOT r = f32[400,500] get-tuple-element(w), index=1 }"""


def simulated(text: str, threads: int) -> SimulatedRun:
    module = driver.parse_text(text)
    trips = trips_of(module)
    driver.optimise(module, CompileOptions())
    compiled = driver.generate(module, CompileOptions())
    assert isinstance(compiled, CpuModule)
    return simulate_threads(compiled, threads, trips)


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("threads", [2, 3, 64, 100])
@pytest.mark.parametrize(("extent", "grain", "least"), [(1000, 8, 16), (37, 1, 1), (300, 1, 100)])
def test_parts_are_those_of_the_code(
    extent: int, grain: int, least: int, threads: int, is_ordered: bool
) -> None:
    """If the caller runs them all."""
    most = -(-extent // grain)
    split = Split(grain, least, most, 10**6, is_ordered)
    shared = ranges(extent, split, threads, lambda _count, call: call(0))
    model = Ranges(extent, split, min(threads, most))
    claims = list(itertools.takewhile(bool, (model.claim(0) for _ in itertools.count())))
    assert claims == [(part.start, part.stop) for part in shared]


def test_a_wide_kernel_scales_until_memory_is_the_limit() -> None:
    runs = [simulated(WIDE, threads) for threads in (1, 2, 4, 16, 64)]
    times = [run.nanoseconds for run in runs]
    assert times == sorted(times, reverse=True)
    assert 0.5 < times[1] / times[0] < 0.51
    assert 1 / 16 < times[3] / times[0] < 1 / 15
    assert times[4] / times[0] > 1 / 50
    assert runs[0].busy == 1.0
    assert runs[1].forks == 1


def test_a_small_program_takes_the_same_time_on_any_number() -> None:
    one, many = simulated(SMALL, 1), simulated(SMALL, 64)
    assert one.nanoseconds == many.nanoseconds > 0
    assert many.forks == 0


def test_kernels_side_by_side() -> None:
    """Three sorts, the longest of 30,000 elements and two of 20,000, then one of 20,000."""
    one, two, many = (simulated(SORTED, threads).nanoseconds for threads in (1, 2, 8))
    assert 0.62 < two / one < 0.72
    assert 0.52 < many / one < 0.62


@pytest.mark.parametrize("threads", [1, 2])
def test_trips_of_loops_count(threads: int) -> None:
    few, many = (simulated(LOOP.replace("TRIPS", str(n)), threads).nanoseconds for n in (100, 1000))
    assert 9.9 < many / few < 10.1


def test_threads_sleep_behind_a_long_kernel_and_are_woken() -> None:
    """The caller sorts alone for long; to wake takes 5 us, and threads run 40 us later."""
    sort = """HloModule m
    less { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT l = pred[] compare(a, b), direction=LT }
    ENTRY e { x = f32[2000000] parameter(0)
      y = f32[600,600] parameter(1)
      a = f32[2000000] sort(x), dimensions={0}, to_apply=less
      b = f32[1] slice(a), slice={[0:1]}
      c = f32[] reshape(b)
      d = f32[600,600] broadcast(c), dimensions={}
      e = f32[600,600] add(d, y)
      ROOT t = f32[600,600] tanh(e) }"""
    alone = sort.replace("f32[] reshape(b)", "f32[] constant(1)")

    def gain(text: str) -> float:
        one, two = (simulated(text, threads).nanoseconds for threads in (1, 2))
        return one - two

    assert 20_000 < gain(alone) - gain(sort) < 30_000  # two threads make up for half of the 40 us


def test_numbers_of_threads() -> None:
    assert thread_counts(1) == [1]
    assert thread_counts(2) == [1, 2]
    assert thread_counts(6) == [1, 2, 4, 6]
    assert thread_counts(64) == [1, 2, 4, 8, 16, 32, 64]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wide.hlo"
    path.write_text(WIDE.replace("4096", "512"))
    assert main(["bench", str(path), "--repeat=1", "--simulate-threads=3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4].split()[:1] == ["threads"]
    assert [line.split()[0] for line in lines[-3:]] == ["1", "2", "3"]
    words = ["bench", str(path), "--repeat=1", "--simulate-threads=2", "--format=json"]
    assert main(words) == 0
    one, two = json.loads(capsys.readouterr().out)["simulated_threads"]
    assert (one["threads"], two["threads"], two["forks"]) == (1, 2, 1)
    assert two["seconds"] < one["seconds"]


def test_only_memory_is_slower_where_it_is_shared() -> None:
    assert Estimate(moving=10, computing=5, measured=3).slowed(2) == 28
