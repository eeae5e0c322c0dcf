"""The page of the sharded programs: docs/sharded.md."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.sharded.ways import WAYS

Row = dict[str, Any]

_HEAD = """# Sharded programs beside XLA

Written by `make sharded` (`benchmarks/bench_sharded.py`): the JAX programs of
`benchmarks/sharded/`, for 4 or 8 devices, each run in four ways and compared with XLA:CPU's answer
on as many virtual devices, by the tolerances of `hloc run --compare-with`.

- `local`: XLA's partitioned text on the devices of one process
- `mpi`: the same in four processes
- `evaluator`: the same in the evaluator
- `partitioned`: the annotated text, partitioned by hloc

Bytes are what the collectives send per device and run (rings; loops as often as they run), in the
text of hloc's partitioner and of XLA's. Times are of XLA's partitioned text, hloc beside XLA:CPU in
one process on two cores, in turn: the median run, in microseconds of the processor, all threads
together. Below 1 hloc is faster.

`-`: not run. Where XLA:CPU cannot run a program, or its answer is wrong, the answer is NumPy's.
"""


def page(rows: dict[str, Row]) -> str:
    """Return the page for rows that hold a row per way, and `times`."""
    lines = [_HEAD, *summaries(rows), ""]
    lines += [
        "| program | mesh | " + " | ".join(WAYS) + " | bytes | XLA bytes | us | XLA us | ratio |",
        "|---|---|" + "---|" * len(WAYS) + "--:|" * 5,
    ]
    for name, row in rows.items():
        mesh = "x".join(map(str, row["mesh"].values())) or str(row["devices"])
        verdicts = [verdict(row.get(way)) for way in WAYS]
        cells = [name, mesh, *verdicts, *map(_count, _sent(row)), *_times(row.get("times", {}))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def summaries(rows: dict[str, Row]) -> list[str]:
    """Return a line per way, one for the bytes and one for the times."""
    lines = []
    for way in WAYS:
        done = [row[way] for row in rows.values() if way in row]
        if done:
            lines.append(f"- {way}: {sum(map(right, done))} of {len(done)} right")
    counted = {n: _sent(row) for n, row in rows.items() if None not in _sent(row)}
    if counted:
        own, xla = (sum(sent[side] for sent in counted.values()) for side in (0, 1))
        above = [n for n, (ours, theirs) in counted.items() if ours > 1.1 * theirs]
        lines.append(
            f"- bytes: {own:,}, XLA {xla:,}; more than 10 % above XLA's: "
            f"{len(above)} ({', '.join(above) or 'none'})"
        )
    timed = {n: r["times"] for n, r in rows.items() if "xla" in r.get("times", {})}
    if timed:
        for kind, key in (("processor", ""), ("wall", "_wall")):
            ratios = {n: t[f"hloc{key}"] / t[f"xla{key}"] for n, t in timed.items()}
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            slow = [f"{n} {ratio:.2f}" for n, ratio in ratios.items() if ratio > 1]
            lines.append(
                f"- {kind} time, hloc / XLA: {mean:.2f} in geometric mean over {len(ratios)}; "
                f"above 1: {', '.join(slow) or 'none'}"
            )
    return lines


def right(row: Row) -> bool:
    """Return whether a program ran and gave the right answer."""
    return "fault" not in row and row["bad"] == 0


def verdict(row: Row | None) -> str:
    """Return the cell of a way."""
    if row is None:
        return "-"
    return "yes" if right(row) else "fault" if "fault" in row else f"{row['bad']} differ"


def _sent(row: Row) -> tuple[Any, Any]:
    """Return the bytes that the collectives of both partitioners send, None if not known."""
    found = row.get("partitioned", {})
    return found.get("bytes"), found.get("xla_bytes")


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _times(times: Row) -> list[str]:
    if "xla" not in times:
        return ["-"] * 3
    own, xla = times["hloc"], times["xla"]
    return [f"{own * 1e6:.0f}", f"{xla * 1e6:.0f}", f"{own / xla:.2f}"]
