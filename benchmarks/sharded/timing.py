"""Time of a run on the devices of one process: hloc beside XLA:CPU, on the same partitioned text.

    python -m benchmarks.sharded.timing FOLDER NAME...     a line of JSON per program

Both are in one process, on the same cores, and run in turn. `xla` and `hloc` are the median seconds
of the processor per run, all threads together; `xla_wall` and `hloc_wall` those of the clock.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.sharded.dumped import Dumped

CORES = 2
ROUNDS = 9
ROUND_SECONDS = 0.02


def main() -> None:
    """Time programs and print their rows."""
    from benchmarks import harness
    from benchmarks.sharded.program import load_all

    harness.use_cores(CORES)
    folder, *names = sys.argv[1:]
    programs = load_all()
    for name in names:
        try:
            row = timed(Dumped(Path(folder), name), programs[name])
        except Exception as error:
            row = {"fault": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
        print(json.dumps(row), flush=True)


def timed(dumped: Dumped, program: Any) -> dict[str, Any]:
    """Return the times of one program."""
    import jax

    import hloc

    executable = hloc.compile(dumped.partitioned, threads=CORES)
    parts = [list(leaf) for leaf in dumped.parts]
    jax.config.update("jax_enable_x64", program.wide())
    mesh = jax.set_mesh(program.jax_mesh()) if program.mesh else contextlib.nullcontext()
    with mesh:
        jitted = jax.jit(program.function, keep_unused=True)
        shardings = jitted.lower(*program.placed()).compile().input_shardings[0]
        fed = [jax.device_put(a, s) for a, s in zip(program.arrays(), shardings, strict=True)]
        calls = {
            "hloc": lambda: executable.run_devices(parts),
            "xla": lambda: jax.block_until_ready(jitted(*fed)),
        }
        return measured(calls)


def measured(calls: dict[str, Callable[[], object]]) -> dict[str, Any]:
    """Return the median times per call, of rounds in turn."""
    repeats = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, int(ROUND_SECONDS / (time.perf_counter() - start)))
    spent: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            wall, processor = time.perf_counter(), time.process_time()
            for _ in range(repeats[name]):
                call()
            done = time.process_time() - processor, time.perf_counter() - wall
            for key, seconds in zip((name, f"{name}_wall"), done, strict=True):
                spent.setdefault(key, []).append(seconds / repeats[name])
    return {key: statistics.median(seconds) for key, seconds in spent.items()}


if __name__ == "__main__":
    main()
