"""The history of measurements: `benchmarks/history/SUITE.jsonl`, a line per version and machine.

    python benchmarks/history.py RESULTS.json...

adds results of `bench_suite.py` to the line of their commit and machine, so that a suite may be
measured in pieces. A line is one JSON object: `suite`, `date`, `version`, `commit`, `machine`,
`means` (geometric means, or times in ms), `ratios` (hloc / XLA by program) and `rows`: what was
measured, by number of cores and program. Rows that a later line of the machine has are dropped, and
their ratios kept.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness
from hloc import __version__

FOLDER = Path(__file__).resolve().parent / "history"
Record = dict[str, Any]
Ratios = dict[str, float]


def main() -> None:
    """Add the results in the files named on the command line."""
    append_files("suite", [Path(name) for name in sys.argv[1:]], ratios_of_program)


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


def record_of(
    suite: str, content: dict[str, Any], ratios_of: Callable[[dict[str, Any]], Ratios]
) -> Record:
    """Return the line of results that `harness.save_rows` wrote.

    On more than one core the only ratio is `all_cores`, of the run times.
    """
    cores = content["cores"]
    found = {name: ratios_of(row) for name, row in content["rows"].items()}
    ratios = {
        name: {kind: _rounded(r) for kind, r in row.items()}
        if cores == 1
        else {"all_cores": _rounded(row["run"])}
        for name, row in found.items()
        if row
    }
    return record(
        suite,
        content["machine"],
        commit=content["commit"],
        date=content["date"],
        means=means_of(ratios),
        ratios=ratios,
        rows={str(cores): {name: _short(row) for name, row in content["rows"].items()}},
    )


def append_files(
    suite: str, files: Iterable[Path], ratios_of: Callable[[dict[str, Any]], Ratios]
) -> None:
    """Add the results of runs of a suite to its history."""
    for file in files:
        append(record_of(suite, json.loads(file.read_text()), ratios_of))


def means_of(ratios: dict[str, Ratios]) -> Ratios:
    """Return the geometric mean of each kind of ratio over the programs that have it."""
    kinds = sorted({kind for row in ratios.values() for kind in row})
    return {
        kind: _rounded(harness.mean(row[kind] for row in ratios.values() if kind in row))
        for kind in kinds
    }


def append(line: Record, folder: Path = FOLDER) -> Path:
    """Add a line to its file, as part of one of the same commit and machine if there is one."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{line['suite']}.jsonl"
    kept = []
    for old in read(line["suite"], folder):
        if _key(old) == _key(line):
            line = _merged(old, line)
        else:
            kept.append(old)
    kept = [_without_rows_of(line, old) for old in kept]
    file.write_text("".join(json.dumps(one) + "\n" for one in [*kept, line]))
    return file


def read(suite: str, folder: Path = FOLDER) -> list[Record]:
    """Return the lines of a suite, the oldest first."""
    file = folder / f"{suite}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def machines(lines: list[Record]) -> list[str]:
    """Return the processors of which there are rows, the one that was measured last first.

    Those that were simulated (`as_processor.py`) come after those that are there.
    """
    found = dict.fromkeys(x["machine"]["cpu"] for x in reversed(lines) if x.get("rows"))
    return sorted(found, key=lambda cpu: harness.AS in cpu)


def tables(lines: list[Record], order: Iterable[str] = ()) -> list[tuple[Record, Record]]:
    """Return for each machine its newest rows, on one core and on all: maybe none on all."""
    names = list(order)
    by_machine = (
        [line for line in lines if line["machine"]["cpu"] == cpu] for cpu in machines(lines)
    )
    return [(newest(one, order=names), newest_on_all(one, names)) for one in by_machine]


def newest(lines: list[Record], cores: int = 1, order: Iterable[str] = ()) -> dict[str, Any]:
    """Return the newest row of each program, of the lines of the machine that was measured last.

    The form is that of `harness.save_rows`; each row says its `commit`. Programs stand in their
    `order`, if it is given; those that it lacks are left out.
    """
    cpu = next(iter(machines(lines)), "")
    names = list(order)
    head: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    for line in (one for one in lines if one["machine"]["cpu"] == cpu):
        found = line.get("rows", {}).get(str(cores), {})
        chosen = {name: found[name] for name in names or found if name in found}
        if chosen or not rows:
            head = {part: line[part] for part in ("commit", "date", "machine")}
        rows |= {name: row | {"commit": line["commit"]} for name, row in chosen.items()}
    rows = {name: rows[name] for name in names or rows if name in rows}
    return {**head, "cores": cores, "rows": rows}


def newest_on_all(lines: list[Record], order: Iterable[str] = ()) -> dict[str, Any]:
    """Return the same on the most cores that were measured; no rows if that is one."""
    most = max((int(cores) for line in lines for cores in line.get("rows", ())), default=1)
    return newest(lines, most, order) if most > 1 else {"cores": most, "rows": {}}


def _merged(old: Record, new: Record) -> Record:
    """Return `new` with the programs that only `old` has."""
    ratios = {
        name: old.get("ratios", {}).get(name, {}) | new.get("ratios", {}).get(name, {})
        for name in {**old.get("ratios", {}), **new.get("ratios", {})}
    }
    rows = {
        cores: old.get("rows", {}).get(cores, {}) | new.get("rows", {}).get(cores, {})
        for cores in {**old.get("rows", {}), **new.get("rows", {})}
    }
    found = new | {"machine": old["machine"] | new["machine"]}
    if ratios:
        found |= {"means": means_of(ratios), "ratios": ratios}
    return found | ({"rows": rows} if rows else {})


def _without_rows_of(new: Record, old: Record) -> Record:
    """Return `old` without the rows that `new` measured again on its machine."""
    if "rows" not in old or old["machine"]["cpu"] != new["machine"]["cpu"]:
        return old
    again = new.get("rows", {})
    rows = {
        cores: {name: row for name, row in found.items() if name not in again.get(cores, {})}
        for cores, found in old["rows"].items()
    }
    return old | {"rows": rows}


def about(content: dict[str, Any]) -> str:
    """Return what a reader must know of the machine and the versions of the rows."""
    machine, rows, cores = content["machine"], content["rows"], content["cores"]
    loads = sorted(row["load"] for row in rows.values() if "load" in row)
    older = sorted({row["commit"] for row in rows.values()} - {content["commit"]})
    shared = f", shared with a load of {loads[0]:g} to {loads[-1]:g}" if loads else ", shared"
    return (
        f"Machine: {machine['cpu']}, {cores} core{'s' if cores > 1 else ''}, Python "
        f"{machine['python']}{shared}: figures near 1 are even. Version: {content['commit']} of "
        f"{content['date']}" + (", or as a row says" if older else "") + "."
    )


def title(name: str, content: dict[str, Any]) -> str:
    """Return the first cell of a row: the program, and its version if that is another."""
    commit = content["rows"][name]["commit"]
    return name if commit == content["commit"] else f"{name} ({commit})"


def table(lines: Iterable[Record], kinds: dict[str, str]) -> list[str]:
    """Return a table in Markdown: a row per line, a column for each kind of mean and its title."""
    lines = list(lines)
    counted = ["programs"] if any("ratios" in line for line in lines) else []
    titles = [*counted, *kinds.values()]
    rows = ["| date | commit | machine | " + " | ".join(titles) + " |"]
    rows.append("|---|---|---|" + "--:|" * len(titles))
    for line in lines:
        count = [str(len(line.get("ratios", ())))] if counted else []
        means = (_shown(line["means"].get(kind)) for kind in kinds)
        head = f"| {line['date']} | {line['commit']} | {line['machine']['cpu']} | "
        rows.append(head + " | ".join([*count, *means]) + " |")
    return rows


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def ratios_of_program(row: dict[str, Any]) -> Ratios:
    """Return the ratios of a row of `bench_suite.py`, none if it has a fault."""
    if "fault" in row:
        return {}
    run = row["hloc"] / row["xla"]
    return {"run": run, **{kind: row[kind] / row["xla_cold"] for kind in ("cold", "warm")}}


def _short(value: Any) -> Any:
    """Return a figure, or a table of them, with four digits."""
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    return _rounded(value) if isinstance(value, float) and math.isfinite(value) else value


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _key(line: Record) -> tuple[str, str]:
    return line["commit"], line["machine"]["cpu"]


if __name__ == "__main__":
    main()
