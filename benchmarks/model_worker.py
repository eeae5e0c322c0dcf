"""The process of one model and one engine, for `bench_models.py`.

Prints a line of JSON about the first result, then one about a run for each line of standard input,
and saves a sample of the results. A run that is not counted precedes each: the first one after
other processes' work is slower, on some machines by half. Memory is what the process needs above
weights and inputs: the peak of its resident memory less that before compiling, and what a child
process needs that helps.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness

SAMPLE = 1 << 18
"""Elements of one result that are compared, at most: every n-th of a larger one."""


def main() -> None:
    """Serve one model until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--cores", type=int, required=True)
    options = parser.parse_args()
    harness.use_cores(options.cores)

    from benchmarks.model_engines import ENGINES
    from benchmarks.models.model import load_all

    engine = ENGINES[options.engine](load_all()[options.worker], options.cores)
    gc.collect()
    before = status("VmRSS") + engine.weight_bytes
    forget_peak()
    earlier = children_seconds()
    seconds, results = timed(engine.first)
    compiling = status("VmHWM") - before
    if children_seconds() > earlier:
        compiling += children_peak()
    save(options.results, results)
    del results
    answer({"seconds": seconds, "memory": compiling})
    engine.run()
    once, _ = timed(engine.run)
    calls = max(1, int(harness.ROUND_SECONDS / max(once[1], 1e-7)))
    forget_peak()
    for _ in sys.stdin:
        engine.run()
        seconds, _ = timed(lambda: [engine.run() for _ in range(calls)])
        answer({"seconds": [s / calls for s in seconds], "memory": status("VmHWM") - before})


def answer(row: dict[str, Any]) -> None:
    """Print a line of JSON."""
    print(json.dumps(row), flush=True)


def timed(action: Callable[[], Any]) -> tuple[list[float], Any]:
    """Return processor time, child processes included, and time of the clock; and the result."""
    processor, clock = processor_seconds(), time.perf_counter()
    result = action()
    return [processor_seconds() - processor, time.perf_counter() - clock], result


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return time.process_time() + children_seconds()


def children_seconds() -> float:
    """Return the processor time of the child processes that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def status(name: str) -> int:
    """Return a size in bytes that Linux reports of this process."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) * 1024


def forget_peak() -> None:
    """Let the peak of resident memory be that of now."""
    Path("/proc/self/clear_refs").write_text("5")


def children_peak() -> int:
    """Return the largest resident memory that a child process had, in bytes.

    That of its parent when it started is part of it, so that it is never too small.
    """
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def save(path: Path, results: list[Any]) -> None:
    """Write a sample of each result, as f32, and the shape of the first."""
    import numpy as np

    sampled = []
    for result in results:
        flat = np.asarray(result).reshape(-1)
        sampled.append(flat[:: max(1, flat.size // SAMPLE)].astype(np.float32))
    np.savez(path, *sampled, shape=np.array(np.shape(results[0])))


if __name__ == "__main__":
    main()
