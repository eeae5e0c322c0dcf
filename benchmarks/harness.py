"""Measuring: interleaved rounds, medians, spread, and results per machine as JSON.

Two programs are compared in one run, round by round in turn, so that a busy machine slows both.
A round repeats its call until it lasts `ROUND_SECONDS`; the figure is the median round.
"""

import fnmatch
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from benchmarks.as_processor import SIMULATED

ROOT = Path(__file__).resolve().parents[1]
ROUND_SECONDS = 0.02
AS = " as "
"""Stands in the name of a machine before that of the processor that it simulates."""


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median of the rounds, and their 10th and 90th percentile."""

    median: float
    low: float
    high: float


def measure(
    calls: Mapping[str, Callable[[], object]],
    rounds: int = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time every call, `rounds` rounds each, in turn; `clock` gives seconds."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            for _ in range(repeats[name]):
                call()
            seconds[name].append((clock() - start) / repeats[name])
    return {name: _timing(values) for name, values in seconds.items()}


def _repeats(call: Callable[[], object]) -> int:
    """Return how often to call per round; warms up on the way."""
    call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    return max(1, int(ROUND_SECONDS / max(once, 1e-7)))


def _timing(values: list[float]) -> Timing:
    ordered = sorted(values)
    last = len(ordered) - 1
    return Timing(
        statistics.median(ordered), ordered[round(0.1 * last)], ordered[round(0.9 * last)]
    )


def use_cores(count: int) -> None:
    """Keep this process, hloc and XLA alike, on the first `count` cores it may use.

    Call before importing what starts threads.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


class Grouped(Protocol):
    """A program in a table by name, in a group."""

    @property
    def name(self) -> str: ...

    @property
    def group(self) -> str: ...


def chosen(programs: Mapping[str, Grouped], names: list[str]) -> list[str]:
    """Return the programs that `names` (programs, groups, patterns) stand for, in table order.

    All if there are no names; the process ends with a message if none is found.
    """
    return matching({p.name: p.group for p in programs.values()}, names)


def matching(groups: Mapping[str, object], names: list[str]) -> list[str]:
    """Return the same of the programs that `groups` has, with the group of each."""
    found = [
        name
        for name, group in groups.items()
        if not names or any(fnmatch.fnmatch(str(x), n) for x in (name, group) for n in names)
    ]
    if not found:
        sys.exit(f"no program or group is called {' or '.join(names)}")
    return found


def mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean."""
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms))


def machine() -> dict[str, Any]:
    """Return what a reader must know of the machine to judge a figure.

    Its name says which older processor it stands for, if any (`as_processor.py`).
    """
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    if simulated := os.environ.get(SIMULATED):
        model += f"{AS}{simulated}"
    return {"cpu": model, "python": sys.version.split()[0], "system": platform.system()}


def commit() -> str:
    """Return the last commit that changed hloc itself, "-dirty" behind it where files have changed.

    Commits of tests, documents and benchmarks are the same version.
    """
    last = _git("log", "-1", "--format=%h", "--abbrev=8", "--", "hloc")
    return last + "-dirty" * bool(_git("status", "--porcelain", "--", "hloc")) or "unknown"


def _git(*command: str) -> str:
    done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def load() -> float:
    """Return how many processes wanted a core, over the last minute; ours is one of them."""
    return round(os.getloadavg()[0], 1)


def save_rows(path: Path, cores: int, rows: Mapping[str, Mapping[str, Any]], **more: Any) -> None:
    """Write what was measured of each program, with the commit and the machine it is from.

    `more` is said of the machine too: measured speeds, or the name of one that is emulated.
    """
    content = {
        "commit": commit(),
        "date": date.today().isoformat(),
        "machine": machine() | more,
        "cores": cores,
        "rows": rows,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def write_between_marks(path: Path, target: str, text: str) -> None:
    """Put `text`, whole lines that `make TARGET` writes, between the two marks of a page."""
    start, end = f"<!-- written by make {target} -->\n", "<!-- end -->\n"
    before, found, rest = path.read_text().partition(start)
    _, closed, after = rest.partition(end)
    assert found, f"{path.name} lacks the mark {start.strip()}"
    assert closed, f"{path.name} lacks the end of {start.strip()}"
    path.write_text(before + start + text + end + after)


def save(path: Path, cores: int, results: Mapping[str, Mapping[str, Timing]]) -> None:
    """Write results with the machine they are from."""
    rows = {
        case: {name: asdict(timing) for name, timing in timings.items()}
        for case, timings in results.items()
    }
    content = {"machine": machine(), "cores": cores, "seconds_per_call": rows}
    path.write_text(json.dumps(content, indent=2) + "\n")
