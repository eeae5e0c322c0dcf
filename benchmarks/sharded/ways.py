"""Ways to run a sharded program, each compared with XLA's answer.

python -m benchmarks.sharded.ways WAY FOLDER NAME...     a line of JSON per program

local        XLA's partitioned text on devices of one process
mpi          the same on the processes that `mpiexec` has started
evaluator    the same in the evaluator
partitioned  the annotated text, partitioned by hloc, on devices of one process
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hloc
from benchmarks.sharded.dumped import Dumped
from hloc.report.compare import Bounds, compare

Row = dict[str, Any]
WAYS = ("local", "mpi", "evaluator", "partitioned")


def main() -> None:
    """Run programs and print their rows: `bad` elements, or the `fault`."""
    way, folder, *names = sys.argv[1:]
    run = RUN[way]
    for name in names:
        try:
            row = run(Dumped(Path(folder), name))
        except Exception as error:
            row = {"fault": " ".join(f"{type(error).__name__}: {error}".split())[:600]}
        if row is not None:
            print(json.dumps(row), flush=True)


def absent(way: str) -> str:
    """Return why a way cannot be gone here, "" if it can."""
    if way == "mpi" and importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    return ""


def run_local(dumped: Dumped) -> Row:
    results = hloc.compile(dumped.partitioned).run_devices(dumped.parts)
    return verdict(by_device(results), expected(dumped, results))


def run_evaluator(dumped: Dumped) -> Row:
    from hloc.evaluator.devices import evaluate_devices

    results = evaluate_devices(hloc.parse(dumped.partitioned), dumped.parts)
    return verdict(by_device(results), expected(dumped, results))


def run_mpi(dumped: Dumped) -> Row | None:
    """Run on the devices of this process; the first process has the row of all."""
    from mpi4py import MPI

    from hloc.runtime.communicator.mpi.communicator import MpiEngine

    world, count = MPI.COMM_WORLD, dumped.row["devices"]
    mine = range(world.rank * count // world.size, (world.rank + 1) * count // world.size)
    executable = hloc.compile(dumped.partitioned)
    executable.use_engine(MpiEngine())
    results = executable.run_devices([parts[mine.start : mine.stop] for parts in dumped.parts])
    wanted = [leaf[mine.start : mine.stop] for leaf in dumped.result_parts(_shapes(results))]
    row = verdict(by_device(results), [part for leaf in wanted for part in leaf])
    rows = world.gather(row)
    return None if rows is None else {"bad": sum(r["bad"] for r in rows)}


def run_partitioned(dumped: Dumped) -> Row:
    from hloc.analysis.network.sharding_explanation import total_bytes_sent
    from hloc.ir.sharded_signature import sharded_signature
    from hloc.runtime.shards import cut_all, join_all

    text = hloc.partition(dumped.annotated).to_text()
    module = hloc.parse(text)  # verified, and what `hloc run` would read
    theirs = total_bytes_sent(hloc.parse(dumped.partitioned))
    sent = {"bytes": total_bytes_sent(module), "xla_bytes": theirs}
    signature = sharded_signature(module)
    parts = hloc.compile(module).run_devices(cut_all(dumped.wholes, signature))
    found = join_all(parts, signature)
    if any(whole is None for whole in found):
        return sent | {"fault": "parts of a result do not make a whole"}
    return verdict(found, dumped.results) | sent


RUN: dict[str, Callable[[Dumped], Row | None]] = {
    "local": run_local,
    "mpi": run_mpi,
    "evaluator": run_evaluator,
    "partitioned": run_partitioned,
}


def by_device(results: list[list[Any]]) -> list[Any]:
    """Return `[result][device]` as one list."""
    return [part for leaf in results for part in leaf]


def expected(dumped: Dumped, results: list[list[Any]]) -> list[Any]:
    """Return XLA's parts in the order of `by_device`."""
    return [part for leaf in dumped.result_parts(_shapes(results)) for part in leaf]


def _shapes(results: list[list[Any]]) -> list[tuple[int, ...]]:
    return [leaf[0].shape for leaf in results]


def verdict(found: list[Any], wanted: list[Any]) -> Row:
    """Return how many elements differ by more than the tolerance of their type."""
    comparison = compare(found, wanted, Bounds())
    row: Row = {"bad": comparison.bad}
    worst = comparison.worst
    if worst is not None:
        row["worst"] = f"output {worst.output} at {list(worst.index)}: {worst.got}, {worst.want}"
    return row


if __name__ == "__main__":
    main()
