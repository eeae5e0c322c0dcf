"""Sharded JAX programs run in four ways, each compared with XLA's answer; bytes and times too.

    python -m benchmarks.sharded.dump FOLDER        (once; needs jax)
    python benchmarks/bench_sharded.py FOLDER [NAME|GROUP...] [--ways local,evaluator]

The ways are those of `benchmarks/sharded/ways.py`. Bytes are what the collectives send per device
and run (rings; loops as often as they run), of hloc's partitioned module beside XLA's.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.sharded import ways
from benchmarks.sharded.dumped import can_run, index
from benchmarks.sharded.workers import ROOT, rows_of

Row = dict[str, Any]
PROCESSES = 4
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def main() -> None:
    """Run the chosen programs and print what differs, then a summary."""
    parser = argparse.ArgumentParser(description="sharded programs in four ways beside XLA")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="programs, groups or patterns; all if none")
    parser.add_argument("--ways", default=",".join(ways.WAYS), type=lambda text: text.split(","))
    parser.add_argument("--partitioner", choices=("shardy", "gspmd"), default="shardy")
    options = parser.parse_args()
    folder = options.folder / options.partitioner
    rows = chosen(folder, options.names)
    for way in options.ways:
        reason = ways.absent(way)
        if reason:
            print(f"{way}: absent, {reason}")
            continue
        for name, row in run_way(way, folder, list(rows)):
            rows[name][way] = row
            if not right(row):
                print(f"{way} {name}: {complaint(row)}", flush=True)
        print(summary(way, rows), flush=True)


def chosen(folder: Path, names: list[str]) -> dict[str, Row]:
    """Return the rows of the programs that `names` stand for and that have an answer."""
    return {
        name: row
        for name, row in index(folder).items()
        if can_run(row)
        and (not names or any(fnmatch.fnmatch(p, n) for p in (name, row["group"]) for n in names))
    }


def run_way(way: str, folder: Path, names: list[str]) -> Any:
    """Yield the row of each program, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sharded.ways", way, str(folder.resolve())]
    if way == "mpi":
        beside = Path(sys.executable).with_name("mpiexec")
        launcher = str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"
        command = [launcher, "-n", str(PROCESSES), *command]
    environment = os.environ | OPEN_MPI | {"PYTHONPATH": str(ROOT)}
    return rows_of(command, names, environment)


def right(row: Row) -> bool:
    """Return whether a program ran and gave XLA's answer."""
    return "fault" not in row and row["bad"] == 0


def complaint(row: Row) -> str:
    """Return what was wrong."""
    return str(row.get("fault") or f"{row['bad']} elements differ, {row.get('worst', '')}")


def summary(way: str, rows: dict[str, Row]) -> str:
    """Return how many programs are right, and the bytes where they are known."""
    done = {name: row for name, row in rows.items() if way in row}
    text = f"{way}: {sum(right(row[way]) for row in done.values())} of {len(done)} right"
    counted = {n: r for n, r in done.items() if "bytes" in r[way] and r["bytes"] is not None}
    if not counted:
        return text
    own = sum(row[way]["bytes"] for row in counted.values())
    xla = sum(row["bytes"] for row in counted.values())
    above = [n for n, r in counted.items() if r[way]["bytes"] > 1.1 * r["bytes"]]
    return f"{text}; {own:,} bytes, XLA {xla:,}; above XLA's by 10 %: {', '.join(above) or 'none'}"


if __name__ == "__main__":
    main()
