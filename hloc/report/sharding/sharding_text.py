"""The explanation of a sharded module as text for a terminal, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from hloc.analysis.network.sharding_explanation import (
    Advice,
    CollectiveRow,
    DeviceMemory,
    ShardingExplanation,
)
from hloc.errors import printable
from hloc.quantities import duration, size_text
from hloc.report.text import Paint, aligned, plural

MOST_ROWS = 40
_MOST_ARRAYS = 12


def sharding_lines(found: ShardingExplanation, name: str, paint: Paint) -> list[str]:
    """Return the report of file `name`: totals, collectives, memory, arguments, advice."""
    return [
        *_head(found, name, paint),
        "",
        *_collectives(found, paint),
        *_memory(found.memory),
        "",
        *_arrays(found, paint),
        *_advice(found, paint),
    ]


def _head(found: ShardingExplanation, name: str, paint: Paint) -> Iterator[str]:
    links = ", ".join(f"{a} {link}" for (a, _), link in zip(found.mesh, found.links, strict=True))
    yield paint.strong(f"{name}: {plural(found.devices, 'device')}, mesh {found.mesh_text}")
    yield f"  model       links {links}; computing on {found.device}"
    share = 100 * found.exposed_seconds / found.seconds if found.seconds else 0.0
    yield (
        f"  sends       {size_text(found.total_bytes)} per device and run in "
        f"{plural(len(found.collectives), 'collective')}"
    )
    yield (
        f"  time        {duration(found.seconds)} per run, {duration(found.exposed_seconds)} "
        f"({share:.0f} %) of it waiting for collectives; "
        f"{duration(max(0.0, found.collective_seconds - found.exposed_seconds))} hidden"
    )


def _collectives(found: ShardingExplanation, paint: Paint) -> Iterator[str]:
    if not found.collectives:
        yield "no collectives: every device works alone"
        return
    rows = sorted(found.collectives, key=lambda row: (-row.size_bytes, row.text_line))
    heads = ("collective", "along", "members", "runs", "sent", "time", "waits", "")
    cells = [heads, *map(_cells, rows[:MOST_ROWS])]
    head, *lines = aligned(cells, {2, 3, 4, 5, 6})
    yield paint.dim(head)
    for line, row in zip(lines, rows, strict=False):
        yield line
        for words in _why(row):
            yield paint.dim(f"    {printable(words)}")
    if len(rows) > MOST_ROWS:
        left = rows[MOST_ROWS:]
        size = size_text(sum(row.size_bytes for row in left))
        yield f"{plural(len(left), 'more collective')} that send {size}; --format=json has them"


def _cells(row: CollectiveRow) -> tuple[str, ...]:
    return (
        row.name if row.opcode in row.name else f"{row.opcode} {row.name}",
        ",".join(row.axes) or "-",
        str(row.members),
        f"{row.times:,}" if row.exact else f"{row.times:,}?",
        size_text(row.size_bytes),
        duration(row.seconds),
        duration(row.exposed_seconds),
        row.verdict,
    )


def _why(row: CollectiveRow) -> Iterator[str]:
    """Yield why it is there, the shardings, and where in text and program."""
    yield row.reason
    yield f"{row.operands}: {row.before} -> {row.after}"
    places = [f"line {row.text_line}"] if row.text_line else []
    places += [text for text in (row.source, row.op_name) if text]
    if row.verdict == "could hide":
        work = duration(min(row.slack_seconds, row.seconds))
        places.append(f"{work} of independent work could run beside it")
    yield "; ".join(places)


def _memory(memory: DeviceMemory | None) -> Iterator[str]:
    if memory is None:
        return
    yield ""
    parts = (
        (memory.parameter_bytes, "arguments"),
        (memory.output_bytes, "results"),
        (memory.constant_bytes, "constants"),
        (memory.temporary_bytes, "temporaries"),
    )
    told = ", ".join(f"{size_text(size)} {what}" for size, what in parts)
    yield f"memory per device: {size_text(memory.total_bytes)} ({told})"


def _arrays(found: ShardingExplanation, paint: Paint) -> Iterator[str]:
    rows = [*found.arguments, *found.results]
    if not rows:
        return
    cells = [("argument or result", "per device", "bytes", "sharding")]
    cells += [
        (printable(r.name), r.shape, size_text(r.size_bytes), r.sharding)
        for r in islice(rows, _MOST_ARRAYS)
    ]
    head, *lines = aligned(cells, {2})
    yield paint.dim(head)
    yield from lines
    if len(rows) > _MOST_ARRAYS:
        yield f"{len(rows) - _MOST_ARRAYS:,} more"


def _advice(found: ShardingExplanation, paint: Paint) -> Iterator[str]:
    if not found.tried:
        return
    yield ""
    if not found.advice:
        yield f"advice: none of {plural(found.tried, 'annotation')} tried removes bytes"
        return
    yield paint.strong("advice: annotations that remove bytes, each tried by itself")
    for advice in found.advice:
        yield f"  {_advised(advice, found.total_bytes)}"


def _advised(advice: Advice, total: int) -> str:
    where = f" at {advice.source}" if advice.source else ""
    share = 100 * advice.saved_bytes / total if total else 0
    return printable(
        f"{advice.value} {advice.shape}{where} as {advice.sharding}: "
        f"{size_text(advice.size_bytes)} instead of {size_text(total)} (-{share:.0f} %)"
    )


def sharding_data(found: ShardingExplanation, name: str) -> dict[str, Any]:
    """Return the explanation as plain data, totals included."""
    data = asdict(found)
    for row, plain in zip(found.collectives, data["collectives"], strict=True):
        plain["verdict"] = row.verdict
    if found.memory is not None:
        data["memory"]["total_bytes"] = found.memory.total_bytes
    return {
        "file": name,
        "total_bytes": found.total_bytes,
        "collective_seconds": found.collective_seconds,
        "exposed_seconds": found.exposed_seconds,
        **data,
    }
