"""Measure hloc on modules that nobody here wrote, and fail if it does worse than recorded.

    python tests/conformance_gate.py [--conformance DIR] [--minutes 25] [--update] [GROUP...]

Runs the corpus's own scoring tool on each group below and compares the pass rates with
tests/conformance_floors.json. `--update` raises floors to what was measured; it never lowers one.
Floors are per cent of the modules scored, a little under the measured rate where a slow machine
may time out. Each group has a share of the time; one that does not come to its end counts with
what it did finish.

Every row that differs has its cause and who is right in tests/conformance_causes.json, which
docs/numerics.md shows. An answer that differs and is not listed there fails the gate; rows that end
by time, memory or a refusal are named only, since a slower machine may have more of them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ROOT / "tests" / "conformance_floors.json"
CAUSES = ROOT / "tests" / "conformance_causes.json"
JOBS = min(2, os.cpu_count() or 1)
RUN_GOOD = ("exact", "close")
WRONG_ANSWERS = ("mismatch", "shape", "dtype")
DIGEST = 10
"""Digits of a row's digest in the list of causes."""
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Group:
    """One call of the scoring tool.

    Attributes:
        name: on the command line.
        share: its part of the whole time.
        stride: every how many modules one is taken.
        adapter: what the tool drives, a file beside this one; "" for its own for hloc.
    """

    name: str
    corpus_group: str
    stages: str
    share: float
    stride: int = 1
    adapter: str = ""


# jaxlib is not installed where this runs, so the round trip (which needs it) is left out.
GROUPS = (
    Group("jax", "jax", "parse,run", share=0.25),
    Group("models", "models", "parse", share=0.25),
    Group("modules", "modules", "parse,run", share=0.5),
    # Code for GPUs in the PTX interpreter, whose time is that of a sample.
    Group("gpu-jax", "jax", "run", 0.04, adapter="conformance_nvptx.py"),
    Group("gpu-modules", "modules", "run", 0.08, stride=23, adapter="conformance_nvptx.py"),
)


@dataclass(frozen=True)
class Rate:
    """How many of `total` passed."""

    passed: int
    total: int

    @property
    def percent(self) -> float:
        return 100.0 * self.passed / self.total if self.total else 0.0


def rates_of(rows: Rows, stages: str = "parse,run") -> dict[str, Rate]:
    """Return the pass rate per measure of `stages`, of what the rows hold.

    parse: legal texts that are read; reject: illegal texts that are refused; run: results equal.
    """
    counts: dict[str, list[bool]] = {"parse": [], "reject": [], "run": []}
    for row in rows:
        legal = row["oracle_parse"] == "ok"
        if legal:
            counts["parse"].append(row.get("parse") == "ok")
        else:
            counts["reject"].append(row.get("parse") == "reject")
        if legal and row["has_run"]:
            counts["run"].append(row.get("run") in RUN_GOOD)
    asked = {"parse": "parse", "reject": "parse", "run": "run"}
    return {
        name: Rate(sum(passed), len(passed))
        for name, passed in counts.items()
        if passed and asked[name] in stages.split(",")
    }


def score(group: Group, conformance: Path, results: Path, seconds: float) -> tuple[Rows, bool]:
    """Run the scoring tool; return its rows and whether it came to its end."""
    command = [sys.executable, str(conformance / "conformance.py")]
    command += ["--corpus", str(conformance / "corpus" / "visible")]
    command += [
        "--group",
        group.corpus_group,
        "--what",
        group.stages,
        "--stride",
        str(group.stride),
    ]
    command += ["--jobs", str(JOBS), "--repeat", "0", "--quiet", "--json", str(results)]
    if group.adapter:
        command += ["--adapter", str(ROOT / "tests" / group.adapter)]
    # Workers are this interpreter with this checkout first, whatever else is installed.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with open(results.with_suffix(".log"), "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()  # its workers end when their input closes
            process.wait()
    rows = [json.loads(line) for line in _lines(results)]
    finished = process.returncode in (0, 1)  # 1: some module failed, which the floors judge
    if not rows:
        tail = "\n".join(_lines(results.with_suffix(".log"))[-20:])
        raise SystemExit(f"conformance: group {group.name} gave no result\n{tail}")
    return rows, finished


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file; a line cut off in writing is left out."""
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def table(measured: dict[str, dict[str, Rate]], floors: dict[str, dict[str, float]]) -> list[str]:
    """Return the lines of the table of rates beside their floors."""
    lines = [f"{'group':10s} {'measure':8s} {'passed':>12s} {'rate':>8s} {'floor':>8s}"]
    for group, rates in measured.items():
        for name, rate in rates.items():
            floor = floors.get(group, {}).get(name, 0.0)
            verdict = "" if rate.percent >= floor else "  BELOW ITS FLOOR"
            passed = f"{rate.passed}/{rate.total}"
            lines.append(
                f"{group:10s} {name:8s} {passed:>12s} {rate.percent:7.1f}% {floor:7.1f}%{verdict}"
            )
    return lines


def below(measured: dict[str, dict[str, Rate]], floors: dict[str, dict[str, float]]) -> list[str]:
    """Return what fell: every floor of a group that was run must be met."""
    fallen = []
    for group, rates in measured.items():
        for name, floor in floors.get(group, {}).items():
            rate = rates.get(name, Rate(0, 0))
            if rate.percent < floor:
                fallen.append(f"{group} {name}: {rate.percent:.1f}% is below {floor:.1f}%")
    return fallen


def raised(
    measured: dict[str, dict[str, Rate]], floors: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    """Return the floors, each at least as high as before and as the measured rate less 0.5.

    The half per cent is for modules near their time limit on a slower machine.
    """
    result = {group: dict(old) for group, old in floors.items()}
    for group, rates in measured.items():
        for name, rate in rates.items():
            new = max(0.0, round(rate.percent - 0.5, 1))
            row = result.setdefault(group, {})
            row[name] = max(row.get(name, 0.0), new)
    return result


def failures(rows: Rows, limit: int = 5) -> list[str]:
    """Return the first `limit` failing rows of each kind, to look at."""
    lines: list[str] = []
    for stage, good in (("parse", ("ok",)), ("run", RUN_GOOD)):
        asked = [
            r for r in rows if r["oracle_parse"] == "ok" and (stage == "parse" or r["has_run"])
        ]
        bad = [r for r in asked if r.get(stage) not in (*good, "not_reached")]
        for row in bad[:limit]:
            error = " ".join(str(row.get(f"{stage}_error") or "").split())
            lines.append(f"  {stage} {row.get(stage)}: {row['id']}: {error[:150]}")
        if len(bad) > limit:
            lines.append(f"  {stage}: {len(bad) - limit} more")
    return lines


def explained() -> dict[str, str]:
    """Return the cause of each row of the list, by the start of its digest or its name."""
    causes = json.loads(CAUSES.read_text())
    keys = ("rows", "rows_at_0", "rows_at_2")
    return {row: cause["name"] for cause in causes for key in keys for row in cause.get(key, ())}


def unexplained(rows: Rows, causes: dict[str, str]) -> tuple[str, list[str], list[str]]:
    """Return a line that counts rows that differ, wrong answers without a cause, and other rows."""
    differ = [r for r in rows if r["has_run"] and r.get("run") not in (*RUN_GOOD, "not_reached")]
    left = [r for r in differ if r["id"] not in causes and r["id"][:DIGEST] not in causes]
    wrong = [f"{r['id']} {r['run']}" for r in left if r["run"] in WRONG_ANSWERS]
    other = [f"{r['id']} {r['run']}" for r in left if r["run"] not in WRONG_ANSWERS]
    verdict = "all explained" if not left else f"{len(left)} without a cause"
    return f"{len(differ)} differ, {verdict}", wrong, other


def measure(
    groups: Iterable[Group], conformance: Path, keep: Path, minutes: float
) -> tuple[dict[str, dict[str, Rate]], list[str]]:
    """Score the groups one after the other within the time, each with its share of what is left.

    Returns the rates, and the rows of code for CPUs with a wrong answer that has no known cause.
    """
    measured: dict[str, dict[str, Rate]] = {}
    wrong_rows: list[str] = []
    causes = explained()
    todo = list(groups)
    left, shares = minutes * 60, sum(group.share for group in todo)
    for group in todo:
        start = time.monotonic()
        rows, finished = score(
            group, conformance, keep / f"{group.name}.jsonl", left * group.share / shares
        )
        wall = time.monotonic() - start
        left, shares = left - wall, shares - group.share
        end = "" if finished else ", out of time"
        print(f"{group.name}: {len(rows)} modules in {wall:.0f} s{end}", flush=True)
        print("\n".join(failures(rows)), flush=True)
        if "run" in group.stages and not group.adapter:
            line, wrong, other = unexplained(rows, causes)
            print("\n  ".join([f"{group.name}: {line}", *wrong, *other]), flush=True)
            wrong_rows += wrong
        for name in sorted({row["group"] for row in rows}):  # `jax` holds `jaxopt` as well
            found = rates_of([row for row in rows if row["group"] == name], group.stages)
            if found:
                measured[f"gpu-{name}" if group.adapter else name] = found
    return measured, wrong_rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, return 1 if a rate fell or an answer differs without a cause."""
    parser = argparse.ArgumentParser(description="conformance gate")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="default: all")
    parser.add_argument("--conformance", type=Path, default=ROOT.parent / "shared" / "conformance")
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument(
        "--update", action="store_true", help="raise the floors to what is measured"
    )
    parser.add_argument("--keep", type=Path, help="folder for the rows of every module")
    options = parser.parse_args(arguments)
    if not (options.conformance / "conformance.py").exists():
        print(f"conformance: {options.conformance} is not there, nothing to measure")
        return 0
    unknown = set(options.groups) - {group.name for group in GROUPS}
    if unknown:
        parser.error(f"unknown group: {', '.join(sorted(unknown))}")
    chosen = [group for group in GROUPS if not options.groups or group.name in options.groups]
    floors = json.loads(FLOORS.read_text())
    with tempfile.TemporaryDirectory() as folder:
        keep = options.keep or Path(folder)
        keep.mkdir(parents=True, exist_ok=True)
        measured, wrong = measure(chosen, options.conformance, keep, options.minutes)
    print("\n".join(table(measured, floors)))
    fallen = below(measured, floors)
    fallen += [f"no cause in {CAUSES.name}: {row}" for row in wrong]
    if options.update:
        FLOORS.write_text(json.dumps(raised(measured, floors), indent=2) + "\n")
    for line in fallen:
        print(f"conformance: {line}")
    print("conformance: FAILED" if fallen else "conformance: OK")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
