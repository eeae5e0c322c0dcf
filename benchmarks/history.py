"""The history of measurements: `benchmarks/history/SUITE.jsonl`, a line per version and machine.

    python benchmarks/history.py RESULTS.json [ALL_CORES.json]

appends the results of `bench_suite.py`. A line is one JSON object: `suite`, `date`, `version`,
`commit`, `machine`, `means` (geometric means, or times in ms) and `ratios` (hloc / XLA by program).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness
from hloc import __version__

FOLDER = Path(__file__).resolve().parent / "history"
Record = dict[str, Any]


def main() -> None:
    """Append the results in the files named on the command line."""
    contents = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    append(suite_record(*contents))


def record(suite: str, machine: dict[str, Any], **measured: Any) -> Record:
    """Return a line for this version, today; `measured` may name another commit."""
    return {
        "suite": suite,
        "date": date.today().isoformat(),
        "version": __version__,
        "commit": harness.commit(),
        "machine": machine,
        **measured,
    }


def suite_record(alone: dict[str, Any], together: dict[str, Any] | None = None) -> Record:
    """Return the line of a run of the suite on one core, and of one on all cores if there is."""
    ratios = {name: _ratios(row) for name, row in _measured(alone).items()}
    for name, row in _measured(together or {"rows": {}}).items():
        ratios.setdefault(name, {})["all_cores"] = _rounded(row["hloc"] / row["xla"])
    return record("suite", alone["machine"], means=means_of(ratios), ratios=ratios)


def means_of(ratios: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the geometric mean of each kind of ratio over the programs that have it."""
    kinds = sorted({kind for row in ratios.values() for kind in row})
    return {
        kind: _rounded(harness.mean(row[kind] for row in ratios.values() if kind in row))
        for kind in kinds
    }


def append(line: Record, folder: Path = FOLDER) -> Path:
    """Add a line to its file, in place of one of the same commit and machine."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{line['suite']}.jsonl"
    kept = [old for old in read(line["suite"], folder) if _key(old) != _key(line)]
    file.write_text("".join(json.dumps(one) + "\n" for one in [*kept, line]))
    return file


def read(suite: str, folder: Path = FOLDER) -> list[Record]:
    """Return the lines of a suite, the oldest first."""
    file = folder / f"{suite}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def table(lines: Iterable[Record], kinds: dict[str, str]) -> list[str]:
    """Return a table in Markdown: a row per line, a column for each kind of mean and its title."""
    rows = ["| date | commit | machine | " + " | ".join(kinds.values()) + " |"]
    rows.append("|---|---|---|" + "--:|" * len(kinds))
    for line in lines:
        means = (_shown(line["means"].get(kind)) for kind in kinds)
        head = f"| {line['date']} | {line['commit']} | {line['machine']['cpu']} | "
        rows.append(head + " | ".join(means) + " |")
    return rows


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _measured(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: row for name, row in content["rows"].items() if "fault" not in row}


def _ratios(row: dict[str, Any]) -> dict[str, float]:
    return {
        "run": _rounded(row["hloc"] / row["xla"]),
        "cold": _rounded(row["cold"] / row["xla_cold"]),
        "warm": _rounded(row["warm"] / row["xla_cold"]),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _key(line: Record) -> tuple[str, str]:
    return line["commit"], line["machine"]["cpu"]


if __name__ == "__main__":
    main()
