"""Run the programs of all libraries, each in a process of its own, and write the table.

python -m benchmarks.libraries [PACKAGE...] [--page docs/libraries.md] [--seconds 240]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.libraries.compare import AREAS
from benchmarks.libraries.program import PROGRAMS

_ERROR = re.compile(r"[\w.]+(Error|Exception)\b")


def run(package: str, seconds: int) -> dict[str, Any]:
    """Return the verdict on one program, or why there is none."""
    command = [sys.executable, "-m", "benchmarks.libraries.compare", package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"package": package, "fault": f"not done after {seconds} s"}
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if _ERROR.match(line)]
        return {"package": package, "fault": (errors or ["no message"])[-1][:200]}
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def said(row: dict[str, Any]) -> str:
    """Return the verdict in words."""
    if "fault" in row:
        return str(row["fault"])
    if row["equal"]:
        return "equal"
    if not row["judge"]:
        return "differs, in integers only"
    ours, theirs = row["judge"]
    return f"differs; from doubles: hloc {ours:.1e}, XLA {theirs:.1e}"


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page of docs."""
    equal = sum(row.get("equal", False) for row in rows)
    areas = ", ".join(f"`{area.__name__.rsplit('.', 1)[-1]}`" for area in AREAS)
    lines = [
        "# Programs of JAX libraries",
        "",
        "Written by `make libraries`: a program of each package of PyPI (`benchmarks/libraries/`:",
        f"{areas}), lowered by JAX, compiled by hloc at -O2 and by XLA,",
        "and compared. `apart` is the largest difference relative to the largest number of a",
        "result. Results are equal up to 2e-4 in f32 and 1e-9 in f64, integers exactly; XLA with",
        "doubles judges the others.",
        "",
        f"{equal} of {len(rows)} programs are equal.",
        "",
        "| package | version | results | apart | verdict |",
        "|---|---|--:|--:|---|",
    ]
    for row in rows:
        counts = f"{row['results']} | {row['apart']:.1e}" if "results" in row else " | "
        lines.append(f"| {row['package']} | {version(row['package'])} | {counts} | {said(row)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run, print a line for each, write the page; 1 if a program could not be compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help="default: all")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--seconds", type=int, default=240, help="for one program")
    options = parser.parse_args()
    rows = []
    for package in options.packages or sorted(PROGRAMS):
        rows.append(run(package, options.seconds))
        print(f"{package:20s} {said(rows[-1])}", flush=True)
    if options.page:
        options.page.write_text(page(rows))
    return int(any("fault" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
