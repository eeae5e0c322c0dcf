"""A child of a process that compiles on another thread can compile itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import os, signal, threading
import numpy as np
import hloc
from tests.waiting import PATIENCE

TEXT = "HloModule m\\nENTRY e { x = f32[SIZE] parameter(0)\\n ROOT y = f32[SIZE] exponential(x) }"

def compile_and_run(size):
    run = hloc.compile(TEXT.replace("SIZE", str(size)))
    return run(np.zeros(size, np.float32))[0].sum() == size

done = threading.Event()
turns = threading.Semaphore(0)

def compile_on():
    size = 100
    while not done.is_set():
        compile_and_run(size)
        turns.release()
        size += 1

compile_and_run(1)
thread = threading.Thread(target=compile_on)
thread.start()
codes = []
for size in range(2000, 2000 + CHILDREN):
    turns.acquire()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        os._exit(0 if compile_and_run(size) else 1)
    codes.append(os.waitpid(child, 0)[1])
done.set()
thread.join()
print(codes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_compiles_whatever_other_threads_were_doing() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("CHILDREN", "8")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HLOC_CACHE_DIR": ""},
    )
    assert said.stdout == f"{[0] * 8}\n", "without the locks half of the children hang"
