"""`hloc bench --simulate-threads=N`: the time of a program on any number of cores, simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hloc.quantities import duration
from hloc.report.text import aligned

if TYPE_CHECKING:
    from hloc.codegen.cpu.thread_simulation import SimulatedRun

_NANOSECOND = 1e-9


def simulated_lines(runs: Sequence[SimulatedRun]) -> list[str]:
    """Return a table of runs; the first is on one thread."""
    alone = runs[0].nanoseconds
    rows = [("threads", "time", "of one", "speed-up", "busy")]
    for run in runs:
        rows.append(
            (
                str(run.threads),
                duration(run.nanoseconds * _NANOSECOND),
                f"{run.nanoseconds / alone:.2f}" if alone else "-",
                f"{alone / run.nanoseconds:.1f}" if run.nanoseconds else "-",
                f"{run.busy:.0%}",
            )
        )
    head = "simulated by the cost model, on cores with nothing else to do:"
    return [head, *(f"  {line}" for line in aligned(rows, range(5)))]


def simulated_data(runs: Sequence[SimulatedRun]) -> list[dict[str, Any]]:
    """Return the runs as JSON."""
    return [
        {
            "threads": run.threads,
            "seconds": run.nanoseconds * _NANOSECOND,
            "busy": run.busy,
            "forks": run.forks,
        }
        for run in runs
    ]
