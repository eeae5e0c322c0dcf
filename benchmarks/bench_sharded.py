"""Sharded JAX programs run in four ways, each compared with XLA's answer; bytes and times too.

    python -m benchmarks.sharded.dump FOLDER        (once; needs jax)
    python benchmarks/bench_sharded.py FOLDER [NAME|GROUP...] [--ways local,evaluator] [--times]

The ways are those of `benchmarks/sharded/ways.py`. Bytes are what the collectives send per device
and run (rings; loops as often as they run), of hloc's partitioned module beside XLA's.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness
from benchmarks.sharded import ways
from benchmarks.sharded.dumped import can_run, index
from benchmarks.sharded.page import page, right, summaries
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
    parser.add_argument("--times", action="store_true", help="time runs beside XLA (needs jax)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="write the table as Markdown")
    options = parser.parse_args()
    folder = options.folder / options.partitioner
    rows = chosen(folder, options.names)
    for way in options.ways:
        reason = ways.absent(way)
        if reason:
            print(f"{way}: absent, {reason}")
            continue
        for name, row in run_way(way, folder, able(way, rows)):
            rows[name][way] = row
            if not right(row):
                print(f"{way} {name}: {complaint(row)}", flush=True)
    if options.times:
        timeable = [name for name in able("local", rows) if "fault" not in rows[name]]
        for name, row in run_times(folder, timeable):
            rows[name]["times"] = row
    print("\n".join(summaries(rows)))
    if options.json:
        content = {"machine": harness.machine(), "rows": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if options.page:
        options.page.write_text(page(rows))


def chosen(folder: Path, names: list[str]) -> dict[str, Row]:
    """Return the rows of the programs that `names` stand for and that have an answer."""
    return {
        name: row
        for name, row in index(folder).items()
        if can_run(row)
        and (not names or any(fnmatch.fnmatch(p, n) for p in (name, row["group"]) for n in names))
    }


def able(way: str, rows: dict[str, Row]) -> list[str]:
    """Return the programs that can be compared in a way: XLA's text may be wrong, hloc's not."""
    return [n for n, row in rows.items() if way == "partitioned" or not row.get("xla_wrong")]


def run_way(way: str, folder: Path, names: list[str]) -> Iterator[tuple[str, Row]]:
    """Yield the row of each program, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sharded.ways", way, str(folder.resolve())]
    if way == "mpi":
        beside = Path(sys.executable).with_name("mpiexec")
        launcher = str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"
        command = [launcher, "-n", str(PROCESSES), *command]
    environment = os.environ | OPEN_MPI | {"PYTHONPATH": str(ROOT)}
    return rows_of(command, names, environment)


def run_times(folder: Path, names: list[str]) -> Iterator[tuple[str, Row]]:
    """Yield the times of each program."""
    command = [sys.executable, "-m", "benchmarks.sharded.timing", str(folder.resolve())]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    }
    return rows_of(command, names, environment)


def complaint(row: Row) -> str:
    """Return what was wrong."""
    return str(row.get("fault") or f"{row['bad']} elements differ, {row.get('worst', '')}")


if __name__ == "__main__":
    main()
