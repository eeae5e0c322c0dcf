"""A process that compiles module after module does not grow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/smaps_rollup"), reason="reads the memory of a process from Linux"
)

GROWTH = """
import gc, sys
import numpy as np
import hloc

def used_bytes():
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Anonymous"))

def compile_and_run(i):
    run = hloc.compile(sys.argv[1].replace("NUMBER", str(i)))
    assert run(np.zeros(2, np.float32))[0][1] == i

first, count = int(sys.argv[2]), int(sys.argv[3])
for i in range(1, first):
    compile_and_run(i)
before = used_bytes()
for i in range(first, first + count):
    compile_and_run(i)
print(used_bytes() - before)
"""

ADD = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  c = f32[2] constant({0, NUMBER})
  ROOT y = f32[2] add(x, c)
}"""

OPTIMISED = """HloModule m
largest {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY e {
  x = f32[2] parameter(0)
  c = f32[] constant(NUMBER)
  xs = f32[2,40] broadcast(x), dimensions={0}
  cs = f32[2,40] broadcast(c), dimensions={}
  y = f32[2,40] add(xs, cs)
  t = f32[40,2] transpose(y), dimensions={1,0}
  h = f32[40,2] tanh(t)
  m = f32[40,2] maximum(t, h)
  z = f32[] constant(-inf)
  r = f32[2] reduce(m, z), dimensions={0}, to_apply=largest
  ROOT both = (f32[2], f32[40,2]) tuple(r, m)
}"""
"""LLVM's passes run over a kernel of this, as arrays are large enough and several results leave."""


def growth(text: str, first: int, count: int) -> int:
    """Return the bytes that compiling and running `text` with `count` numbers leaves behind."""
    said = subprocess.run(
        [sys.executable, "-c", GROWTH, text, str(first), str(count)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HLOC_CACHE_DIR": ""},
    )
    return int(said.stdout)


@needs_proc
def test_programs_that_are_gone_leave_nothing() -> None:
    assert growth(ADD, 80, 300) < 300 * 1024, "LLVM's linker alone would keep 9 KB of each"


@needs_proc
def test_the_passes_of_llvm_leave_less_than_they_used() -> None:
    assert growth(OPTIMISED, 80, 300) < 300 * 12 * 1024, "a pass manager alone would keep 46 KB"
