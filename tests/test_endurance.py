"""Long use of one process and one cache: 64 threads, 8 processes, 10,000 compilations.

`pytest -m slow -s tests/test_endurance.py` prints the figures of docs/reliability.md.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hloc
from tests.unit.runtime.test_memory_growth import ADD, OPTIMISED, growth, needs_proc
from tests.waiting import all_at_once

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SECONDS = 60

REDUCE = """HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,256] parameter(0)
  y = f32[64,256] exponential(x)
  z = f32[] constant(0)
  ROOT s = f32[64] reduce(y, z), dimensions={1}, to_apply=add
}"""

WORK = """
import sys
import numpy as np
import hloc
for i in [*range(1, 26), *range(1, 26)]:
    text = (f"HloModule m\\nENTRY e {{ x = f32[{i}] parameter(0)\\n"
            f" e = f32[{i}] exponential(x)\\n ROOT y = f32[{i}] add(e, x) }}")
    assert (hloc.compile(text)(np.zeros(i, np.float32))[0] == 1).all(), i
"""


DRAWN = """
import gc, sys
import hloc
from fuzz.program import random_program

def used_bytes():
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous"))

first, warm, count = map(int, sys.argv[1:])
for i in range(first, first + count):
    hloc.compile(random_program(i).module, opt_level=2, threads=1)
    if i + 1 - first == warm:
        before = used_bytes()
print(before, used_bytes())
"""
"""Compiles modules of the fuzzer, each another; prints the bytes after `warm` and after `count`."""


def test_64_threads_run_one_executable_for_a_minute() -> None:
    run = hloc.compile(REDUCE, threads=2)
    inputs = [np.full((64, 256), i / 64, np.float32) for i in range(64)]
    wanted = [run(x)[0] for x in inputs]
    counts, wrong = [0] * 64, [0] * 64
    end = time.monotonic() + SECONDS

    def work(number: int) -> None:
        while time.monotonic() < end:
            wrong[number] += not np.array_equal(run(inputs[number])[0], wanted[number])
            counts[number] += 1

    all_at_once(64, work)
    print(f"\n{sum(counts)} runs on 64 threads, {sum(wrong)} wrong")
    assert min(counts) > 0
    assert sum(wrong) == 0


def test_8_processes_share_one_cache(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HLOC_CACHE_DIR": str(directory)}
    processes = [
        subprocess.Popen([sys.executable, "-c", WORK], env=environment, stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    said = [process.communicate()[1] for process in processes]
    assert said == [b""] * 8
    names = os.listdir(directory)
    print(f"\n8 processes, 50 programs each: {len(names)} files in the cache")
    assert not [name for name in names if name.startswith("unfinished-")]


@needs_proc
def test_10_000_compilations_leave_nothing() -> None:
    found = growth(ADD, 200, 10_000)
    print(f"\n10,000 compilations and runs: {found / 1024:.0f} KB more memory")
    assert found < 2 << 20


@needs_proc
def test_10_000_kernels_that_llvm_optimises_leave_little() -> None:
    found = growth(OPTIMISED, 500, 10_000)
    print(f"\n10,000 compilations with LLVM's passes: {found / 1024:.0f} KB more memory")
    assert found < 3 << 20, "callbacks of pass builders alone would keep 16 MB"


@needs_proc
def test_10_000_drawn_modules_leave_little() -> None:
    """What stays are caches of shapes and routines that still fill after 1,000 modules."""
    said = subprocess.run(
        [sys.executable, "-c", DRAWN, "16000000", "1000", "10000"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HLOC_CACHE_DIR": ""},
    )
    before, after = map(int, said.stdout.split())
    print(f"\n10,000 drawn modules: {before >> 10} KB after 1,000, {after >> 10} KB at the end")
    assert after < before * 1.06, "callbacks of pass builders alone would make it 1.15"
