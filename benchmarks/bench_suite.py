"""The suite: every program of `benchmarks/suite/` beside XLA:CPU, each in a process of its own.

    python benchmarks/bench_suite.py [NAME|GROUP...] [--cores 1] [--rounds 9] [--json OUT]

Needs jax. Ratios are hloc / XLA, below 1 is faster than XLA. Run times are medians of interleaved
rounds; `limit` is the share of what the machine could do, by its measured bandwidth and multiply
speed. With one core, times are those of the processor, which a busy machine changes less than
the clock's. With more, hloc is measured on one thread too, and what is slower on all is listed.
`as_processor.py avx2 benchmarks/bench_suite.py ...` measures both as on an older processor.
Results are compared too: a program whose answer is wrong is no result.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness

TIME_LIMIT_SECONDS = 300
NOISE = 1.05
"""Times on all cores and on one whose ratio is at most this count as equal."""


def main() -> None:
    """Print a row per program, then the geometric means."""
    parser = argparse.ArgumentParser(description="hloc beside XLA:CPU over the suite")
    parser.add_argument("names", nargs="*", help="programs, groups or patterns; all if none")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker, options.cores, options.rounds)))
        return
    machine = probe(options.cores)
    print(
        f"{'program':24s} {'hloc ms':>9s} {'XLA ms':>9s} {'ratio':>6s} {'limit':>6s}"
        f" {'cold':>6s} {'warm':>6s} {'temp':>6s}"
    )
    rows: dict[str, dict[str, Any]] = {}
    for name in chosen(options.names):
        row = rows[name] = run_worker(name, options.cores, options.rounds, machine)
        print(row_text(name, row), flush=True)
        if options.json:  # after each: a run takes long and may be ended
            harness.save_rows(options.json, options.cores, rows, **machine)
    print(summary(rows))


def chosen(names: list[str]) -> list[str]:
    """Return the programs that `names` (programs, groups, patterns) stand for, in table order."""
    from benchmarks.suite.program import load_all

    return harness.chosen(load_all(), names)


def run_worker(name: str, cores: int, rounds: int, machine: dict[str, float]) -> dict[str, Any]:
    """Measure one program in a process of its own; `fault` in the row says what went wrong.

    `limit` is the share of the time in which `machine` could move its bytes or do its operations.
    """
    command = [sys.executable, __file__, "--worker", name, f"--cores={cores}", f"--rounds={rounds}"]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"HLOC_CACHE_DIR": cache}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS, env=environment
            )
        except subprocess.TimeoutExpired:
            return {"fault": f"took more than {TIME_LIMIT_SECONDS} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"fault": (done.stderr.splitlines() or [f"exit {done.returncode}"])[-1]}
    row: dict[str, Any] = json.loads(lines[-1])
    least = max(
        row["bytes"] / machine["bytes_per_second"], row["flops"] / machine["flops_per_second"]
    )
    return row | {"limit": least / row["hloc"], "load": harness.load()}


# ---------------------------------------------------------------- one program


def measure(name: str, cores: int, rounds: int) -> dict[str, Any]:
    """Compile and run one program with both compilers; times in seconds."""
    harness.use_cores(cores)
    import jax
    import numpy as np

    import hloc
    from benchmarks.suite.program import load_all
    from hloc.analysis.cost import module_cost
    from hloc.report.compare import Bounds, compare

    program = load_all()[name]
    arguments = program.arguments(np.random.default_rng(0))
    with_doubles = any(a.dtype in (np.float64, np.complex128) for a in jax.tree.leaves(arguments))
    jax.config.update("jax_enable_x64", with_doubles)
    clock = time.process_time if cores == 1 else time.perf_counter
    jitted = jax.jit(program.function, keep_unused=True)
    lowered = jitted.lower(*arguments)
    text = lowered.as_text("hlo")
    hloc.compile((harness.ROOT / "examples" / "lstm_scan.hlo").read_text())  # imports, tables
    cold, executable = timed(clock, lambda: hloc.compile(text, threads=cores))
    warm, _ = timed(clock, lambda: hloc.compile(text, threads=cores))
    jax.jit(lambda x: x).lower(np.float32(1)).compile()  # imports
    xla_cold, compiled = timed(clock, lowered.compile)
    flat = [np.asarray(a) for a in jax.tree.leaves(arguments)]
    placed = jax.device_put(arguments)
    results = executable(*flat)
    wanted = [np.asarray(a) for a in jax.tree.leaves(compiled(*placed))]
    found = compare(
        [r.reshape(w.shape) for r, w in zip(results, wanted, strict=True)], wanted, Bounds()
    )
    del results, wanted
    calls = {
        "hloc": lambda: executable(*flat),
        "xla": lambda: jax.block_until_ready(jitted(*placed)),
    }
    if cores > 1:
        alone = hloc.compile(text, threads=1)
        calls["alone"] = lambda: alone(*flat)
    timings = harness.measure(calls, rounds, clock)
    cost = module_cost(executable.compiled.module)
    moved = sum(a.nbytes for a in flat) + sum(spec.shape.size_bytes for spec in executable.outputs)
    return {
        "hloc": timings["hloc"].median,
        "xla": timings["xla"].median,
        "alone": timings["alone"].median if cores > 1 else None,
        "cold": cold,
        "warm": warm,
        "xla_cold": xla_cold,
        "temp": executable.buffers.arena_bytes,
        "xla_temp": compiled.memory_analysis().temp_size_in_bytes,
        "flops": cost.flops,
        "bytes": moved,
        "wrong": found.bad,
    }


def timed(clock: Callable[[], float], action: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long `action` takes, and what it returns."""
    start = clock()
    result = action()
    return clock() - start, result


# ---------------------------------------------------------------- the machine


def probe(cores: int) -> dict[str, float]:
    """Measure what the machine can do: bytes per second copied, FLOP/s of a matrix product."""
    import numpy as np

    harness.use_cores(cores)
    source = np.ones(32 << 20, np.float32)
    target = np.empty_like(source)
    square = np.ones((1024, 1024), np.float32)
    best = {"copy": math.inf, "product": math.inf}
    for _ in range(7):
        best["copy"] = min(
            best["copy"], timed(time.process_time, lambda: np.copyto(target, source))[0]
        )
        best["product"] = min(best["product"], timed(time.process_time, lambda: square @ square)[0])
    return {
        "bytes_per_second": 2 * source.nbytes / best["copy"] * cores,
        "flops_per_second": 2 * 1024**3 / best["product"] * cores,
    }


# ---------------------------------------------------------------- reports


def row_text(name: str, row: dict[str, Any]) -> str:
    """Return the line of one program."""
    if "fault" in row:
        return f"{name:24s} {row['fault']}"
    ratio = row["hloc"] / row["xla"]
    temp = f"{row['temp'] / row['xla_temp']:6.2f}" if row["xla_temp"] else f"{'-':>6s}"
    return (
        f"{name:24s} {row['hloc'] * 1e3:9.4f} {row['xla'] * 1e3:9.4f} {ratio:6.2f}"
        f" {row['limit']:6.0%} {row['cold'] / row['xla_cold']:6.2f}"
        f" {row['warm'] / row['xla_cold']:6.2f} {temp}"
        + (f"  WRONG: {row['wrong']} elements" if row["wrong"] else "")
    )


def summary(rows: dict[str, dict[str, Any]]) -> str:
    """Return the geometric means, and the programs above 1."""
    good = {name: row for name, row in rows.items() if "fault" not in row}
    if not good:
        return "nothing was measured"
    run = {name: row["hloc"] / row["xla"] for name, row in good.items()}
    above = sorted((name for name in run if run[name] > 1), key=lambda name: -run[name])
    lines = [
        f"{len(good)} of {len(rows)} programs: geometric means of the ratios: "
        f"run {harness.mean(run.values()):.2f}, "
        f"cold compile {harness.mean(r['cold'] / r['xla_cold'] for r in good.values()):.2f}, "
        f"warm compile {harness.mean(r['warm'] / r['xla_cold'] for r in good.values()):.2f}"
    ]
    if above:
        lines.append("slower than XLA: " + ", ".join(f"{n} {run[n]:.2f}" for n in above))
    if threads := summary_of_threads(good):
        lines.append(threads)
    return "\n".join(lines)


def summary_of_threads(rows: dict[str, dict[str, Any]]) -> str:
    """Return how all cores compare with one, "" where that was not measured."""
    shared = {n: row["hloc"] / row["alone"] for n, row in rows.items() if row.get("alone")}
    if not shared:
        return ""
    late = sorted((n for n in shared if shared[n] > NOISE), key=lambda n: -shared[n])
    slower = ", ".join(f"{n} {shared[n]:.2f}" for n in late) or "none"
    return f"all cores / one: {harness.mean(shared.values()):.2f}; slower on all: {slower}"


if __name__ == "__main__":
    main()
