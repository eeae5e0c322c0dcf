"""The time of each pass of a compilation, as far as a dump has it.

XLA's GPU compiler writes `module_0001.metadata.textproto` with `--xla_dump_module_metadata`, with
the start and end of each pass in microseconds. Otherwise only the times of the files are known.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from hloc.dumps.folder import DumpFile
from hloc.lazy_dataclass import dataclass

LEAST_GAP_MS = 100.0
"""Minimum gap between two files that is reported: copies of a folder have shorter ones."""

_FIELD = re.compile(r'^\s*(\w+):\s*(?:"([^"]*)"|(-?\d+))\s*$', re.MULTILINE)
_PASS = re.compile(r"^pass_metadata\s*:?\s*\{(.*?)^\}", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class PassTime:
    """A pass of a pipeline, and the total time of its runs."""

    name: str
    ms: float
    runs: int


def times_of_metadata(text: str) -> tuple[PassTime, ...]:
    """Return the times in a `metadata.textproto`, longest first.

    Pipelines that contain other passes are left out: their passes count.
    """
    rows = [dict(_fields(block)) for block in _PASS.findall(text)]
    pipelines = {row.get("pipeline_name") for row in rows}
    total: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for row in rows:
        start, end = (row.get(f"{which}_timestamp_usec", "") for which in ("start", "end"))
        name = row.get("pass_name", "")
        if not (start and end and name) or name in pipelines or int(end) < int(start):
            continue
        label = f"{row['pipeline_name']}/{name}" if row.get("pipeline_name") else name
        total[label] += int(end) - int(start)
        runs[label] += 1
    return tuple(PassTime(name, us / 1000, runs[name]) for name, us in total.most_common())


def times_of_files(files: Sequence[DumpFile]) -> tuple[PassTime, ...]:
    """Return the time between one file and the next, longest first.

    Passes that changed nothing wrote no file, so a gap may include them and the writing. () if the
    files were not written in the order of the passes: then they were copied.
    """
    times = [os.stat(file.path).st_mtime_ns for file in files]
    if times != sorted(times):
        return ()
    gaps = (
        PassTime(file.how, (after - before) / 1e6, 1)
        for file, before, after in zip(files[1:], times, times[1:], strict=False)
    )
    return tuple(sorted((g for g in gaps if g.ms >= LEAST_GAP_MS), key=lambda g: -g.ms))


def _fields(block: str) -> Iterator[tuple[str, str]]:
    for name, text, number in _FIELD.findall(block):
        yield name, text or number
