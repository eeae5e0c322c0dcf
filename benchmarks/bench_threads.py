"""Threads: fork and join of the pool, and programs on one and two threads, beside the simulation.

    python benchmarks/bench_threads.py [FILE.hlo|NAME...] [--busy 2] [--first] [--turns 8]

Names are those of programs and groups of `benchmarks/suite/` (needs jax); without any, two kernels
are run. Programs without a kernel that threads share are left out. `--busy N` runs N endless loops
beside them, as other programs would. `--first` gives this process the real-time policy SCHED_RR
while it measures, for which it must be root: other programs then wait up to a tenth of a second.

Fork and join are timed by machine code that gives a pool of two threads empty work, 200 times in a
row: `both` if each thread waits until the other has begun, `caller` if none waits. One and two
threads take turns; `simulated` is what `hloc bench --simulate-threads=2` says of their ratio.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness
from benchmarks.bench_run import inputs_for

TURN_SECONDS = 0.05
FORKS = 200

_TEXTS = {
    "tanh": """HloModule tanh
    ENTRY e { x = f32[500,500] parameter(0)
      ROOT y = f32[500,500] tanh(x) }""",
    "product": """HloModule product
    ENTRY e { x = f32[512,512] parameter(0)
      y = f32[512,512] parameter(1)
      ROOT z = f32[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
}

_FORKS = """
define internal void @nothing(ptr %data, i32 %part) nounwind {
  %before = atomicrmw add ptr %data, i32 1 monotonic
  ret void
}

define internal void @meet(ptr %data, i32 %part) nounwind {
entry:
  %before = atomicrmw add ptr %data, i32 1 monotonic
  br label %look
look:
  %looks = phi i32 [ 0, %entry ], [ %more, %pause ]
  %here = load atomic i32, ptr %data monotonic, align 4
  %all = icmp uge i32 %here, 2
  %tired = icmp ugt i32 %looks, 100000
  %ends = or i1 %all, %tired
  br i1 %ends, label %done, label %pause
pause:
  PAUSE
  %more = add i32 %looks, 1
  br label %look
done:
  ret void
}

define internal void @forks(ptr %task, i32 %times) nounwind {
entry:
  %data = alloca [16 x i32], align 64
  %time = getelementptr i32, ptr %data, i32 1
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %more, %next ]
  store i32 0, ptr %data
  store i32 80000, ptr %time
  call void @RUN(ptr null, ptr %task, ptr %data, i32 2)
  %more = add i32 %i, 1
  %left = icmp ult i32 %more, %times
  br i1 %left, label %next, label %done
done:
  ret void
}

define void @bench_caller(i32 %times) nounwind {
  call void @forks(ptr @nothing, i32 %times)
  ret void
}

define void @bench_both(i32 %times) nounwind {
  call void @forks(ptr @meet, i32 %times)
  ret void
}
"""


def main() -> None:
    """Print the time of a fork and join, then a row per program."""
    parser = argparse.ArgumentParser(description="threads of compiled modules")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--turns", type=int, default=8)
    options = parser.parse_args()
    harness.use_cores(2)
    texts = list(texts_of(options.names)) or list(_TEXTS.items())
    with busy_loops(options.busy):
        fork_and_join(options.first)
        programs(texts, options.turns, options.first)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep `count` processes busy while the block runs."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()


@contextmanager
def undisturbed(wanted: bool) -> Iterator[None]:
    """Let no other program interrupt the threads of this process, if `wanted`."""
    if not wanted:
        yield
        return
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    before = {thread: os.sched_getscheduler(thread) for thread in threads}
    for thread in threads:
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        for thread, policy in before.items():
            os.sched_setscheduler(thread, policy, os.sched_param(0))
        time.sleep(2 * TURN_SECONDS)


def fork_and_join(first: bool) -> None:
    """Print nanoseconds per fork and join."""
    from hloc.codegen.cpu.thread_pool import NEEDED, RUN, STOP, pause_text
    from hloc.codegen.llvm.object_file import compile_object
    from hloc.codegen.llvm.target import host_target
    from hloc.runtime.cpu_loader import load_functions
    from hloc.runtime.threads import pool_unit

    target = host_target()
    forks = _FORKS.replace("PAUSE", pause_text(target)[0]).replace("@RUN", f"@{RUN}")
    data = compile_object(pool_unit(target).text + forks, target, 2, NEEDED)
    code = load_functions([data], target, ("bench_caller", "bench_both", STOP), NEEDED)
    for name, address in zip(("caller", "both"), code.addresses, strict=False):
        call = ctypes.CFUNCTYPE(None, ctypes.c_int)(address)
        call(FORKS)
        with undisturbed(first):
            found = sorted(seconds(partial(call, FORKS)) / FORKS for _ in range(300))
        low, middle, high = (found[int(share * len(found))] * 1e9 for share in (0.05, 0.5, 0.9))
        print(f"fork and join, {name}: median {middle:.0f} ns, 5 % {low:.0f}, 90 % {high:.0f}")
    ctypes.CFUNCTYPE(None)(code.addresses[2])()


def seconds(call: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def texts_of(names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and HLO text of files, and of programs and groups of the suite."""
    for name in names:
        if name.endswith(".hlo"):
            yield Path(name).stem, Path(name).read_text()
    if found := [name for name in names if not name.endswith(".hlo")]:
        import jax
        import numpy as np

        from benchmarks.suite.program import load_all

        table = load_all()
        for name in harness.chosen(table, found):
            arguments = table[name].arguments(np.random.default_rng(0))
            jitted = jax.jit(table[name].function, keep_unused=True)
            yield name, jitted.lower(*arguments).as_text("hlo")


def programs(texts: list[tuple[str, str]], turns: int, first: bool) -> None:
    """Print a row per program: times on one and two threads, their ratio, and the simulated one."""
    columns = ("program", "one us", "two us", "least", "median", "mean", "simulated")
    print(f"{columns[0]:26s}" + "".join(f"{column:>11s}" for column in columns[1:]))
    found = []
    for name, text in texts:
        row = measured(text, turns, first)
        if row is None:
            continue
        found.append(row)
        times = "".join(f"{t * 1e6:11.0f}" for t in row[:2])
        print(f"{name:26s}{times}{ratios_text(row[2:])}", flush=True)
    if found:
        _, _, *ratios = zip(*found, strict=True)
        print(f"{'geometric means':48s}{ratios_text([harness.mean(one) for one in ratios])}")


def ratios_text(ratios: Iterable[float]) -> str:
    """Return columns of ratios."""
    return "".join(f"{ratio:11.2f}" for ratio in ratios)


def measured(text: str, turns: int, first: bool) -> tuple[float, ...] | None:
    """Return the least times on one and two threads, ratios, and the simulated ratio.

    The ratios are those of the least times (the 5 % of calls that were the fastest left out), the
    medians and the means. None if no kernel is shared.
    """
    import hloc

    arrays = inputs_for(hloc.parse(text), Path("without stored inputs"))
    runs = {threads: hloc.compile(text, threads=threads) for threads in (1, 2)}
    if runs[2].threads == 1:
        return None
    times: dict[int, list[float]] = {threads: [] for threads in runs}
    for run in runs.values():
        run(*arrays)
    for _ in range(turns):
        with undisturbed(first):
            for threads, run in runs.items():
                run(*arrays)
                end = time.perf_counter() + TURN_SECONDS
                while time.perf_counter() < end:
                    times[threads].append(seconds(partial(run, *arrays)))
    one, two = (sorted(found) for found in times.values())
    low = [found[len(found) // 20] for found in (one, two)]
    middle = [statistics.median(found) for found in (one, two)]
    mean = [statistics.fmean(found) for found in (one, two)]
    return (*low, *(pair[1] / pair[0] for pair in (low, middle, mean)), simulated(text))


def simulated(text: str) -> float:
    """Return the simulated time on two threads over that on one."""
    from hloc import driver
    from hloc.codegen.cpu.backend import CpuModule
    from hloc.codegen.cpu.thread_simulation import simulate_threads, trips_of
    from hloc.options import CompileOptions

    module = driver.parse_text(text)
    trips = trips_of(module)
    driver.optimise(module, CompileOptions())
    compiled = driver.generate(module, CompileOptions())
    assert isinstance(compiled, CpuModule)
    one, two = (simulate_threads(compiled, threads, trips).nanoseconds for threads in (1, 2))
    return two / one


if __name__ == "__main__":
    main()
