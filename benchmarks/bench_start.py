"""What commands cost to start: processor time of whole processes, children included.

    python benchmarks/bench_start.py [--rounds 7]

Prints medians in ms and appends them to `benchmarks/history/start.jsonl`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, history

EXAMPLE = "examples/softmax_relu.hlo"
RUN = (EXAMPLE, "--run", "--random=0", "-q")
COMMANDS: dict[str, tuple[str, ...]] = {
    "version": ("--version",),
    "explain": ("explain", "HLOC0312"),
    "parse": ("parse", EXAMPLE, "-q"),
    "optimise": (EXAMPLE, "-O2", "-q"),
    "run": RUN,
    "run again": RUN,  # with the cache that one run has filled
}


def main() -> None:
    """Measure all commands."""
    parser = argparse.ArgumentParser(description="processor time of commands")
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    found: dict[str, float] = {}
    for name, words in COMMANDS.items():
        found[name] = round(median_ms(words, rounds, keeps_cache=name == "run again"), 1)
        print(f"{name:10s} {found[name]:8.1f} ms  hloc {' '.join(words)}", flush=True)
    history.append(history.record("start", harness.machine(), means=found))


def median_ms(words: tuple[str, ...], rounds: int, *, keeps_cache: bool) -> float:
    """Return the median processor time of `hloc WORDS`, one run before them left out."""
    with tempfile.TemporaryDirectory() as folder:
        times = []
        for i in range(rounds + 1):
            cache = Path(folder) / ("cache" if keeps_cache else f"cache{i}")
            times.append(processor_ms(words, cache))
        return statistics.median(times[1:])


def processor_ms(words: tuple[str, ...], cache: Path) -> float:
    """Return the processor time of one process of hloc.

    Raises:
        RuntimeError: the command fails.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [sys.executable, "-m", "hloc", *words],
        cwd=harness.ROOT,
        env=environment | {"HLOC_CACHE_DIR": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"hloc {' '.join(words)} ends with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e3


if __name__ == "__main__":
    main()
