"""The findings of a dump as sections of a report: a title, a sentence, and rows of cells."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from hloc.dumps.contents import Collective, Constant, Unrolled
from hloc.dumps.examine import Findings, PassChange
from hloc.dumps.inserted import Inserted
from hloc.dumps.recompiled import Recompiled
from hloc.dumps.unfused import Unfused
from hloc.lazy_dataclass import dataclass
from hloc.quantities import duration, size_text
from hloc.report.text import plural

MOST_ROWS = 12
_SHORTEST_LIST = 3


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report.

    Attributes:
        title: a few words.
        summary: a sentence about all rows.
        rows: cells; the columns `numbers` are right-aligned.
        left: number of rows that are not shown.
    """

    title: str
    summary: str
    rows: tuple[tuple[str, ...], ...] = ()
    numbers: tuple[int, ...] = ()
    left: int = 0


def sections_of(found: Findings, most: int = MOST_ROWS) -> Iterator[Section]:
    """Yield the sections of one module; empty ones are left out."""
    if found.before is not None or found.after is not None:
        yield _figures(found)
    if found.unreadable:
        faults = [(os.path.basename(path), text) for path, text in found.unreadable]
        text = plural(len(faults), "file")
        yield _cut(Section("not readable", text, tuple(faults)), most)
    if found.passes:
        rows = [_pass_row(change) for change in found.passes]
        text = f"{plural(len(rows), 'pass')} changed the module"
        yield Section("passes", text, tuple(rows), (2,))
    if found.times:
        yield _cut(_times(found), most)
    if found.memory is not None:
        yield _cut(_memory(found), most)
    yield from (_cut(section, most) for section in _contents(found))


def recompilations(found: Iterable[Recompiled]) -> Section | None:
    """Return the section of programs that were compiled several times, None if there are none."""
    rows: list[tuple[str, ...]] = []
    for group in found:
        if group.differs_in == "nothing":
            told = "all are the same: a cache should have found it"
        else:
            told = f"differ in {group.differs_in} only"
        rows.append((_program_name(group.modules[0]), plural(len(group.modules), "time"), told))
        values = group.values or [""] * len(group.modules)
        rows += [
            (f"  {name}", "", value) for name, value in zip(group.modules, values, strict=True)
        ]
    if not rows:
        return None
    count = sum(not row[0].startswith(" ") for row in rows)
    return Section("compiled again", plural(count, "program"), tuple(rows))


def _program_name(name: str) -> str:
    return name.partition(".")[2] or name


def _cut(section: Section, most: int) -> Section:
    left = len(section.rows) - most
    if left < _SHORTEST_LIST:
        return section
    shown = section.rows[:most]
    return Section(section.title, section.summary, shown, section.numbers, left)


def _figures(found: Findings) -> Section:
    rows = []
    for word, measure in (("before", found.before), ("after", found.after)):
        if measure is not None:
            rows.append(
                (
                    word,
                    plural(measure.instructions, "instruction"),
                    plural(measure.kernels, "kernel"),
                    f"{size_text(measure.cost.bytes)} read and written",
                )
            )
    kernels = ", ".join(f"{count:,} {name}" for name, count in found.kernels.items())
    return Section("figures", f"kernels: {kernels}" if kernels else "", tuple(rows), (1, 2, 3))


def _pass_row(change: PassChange) -> tuple[str, ...]:
    before, after = change.instructions
    count = f"{before:,} -> {after:,}" if before != after else f"{after:,}"
    return change.name, change.summary, count, change.effect


def _times(found: Findings) -> Section:
    total = sum(time.ms for time in found.times)
    if found.times_of == "files":
        text = "gaps between the times of files, writing and passes without a file included"
    else:
        text = f"{duration(total / 1e3)} in all passes"
    rows = [
        (duration(time.ms / 1e3), time.name, f"{time.runs} runs" if time.runs > 1 else "")
        for time in found.times
    ]
    return Section("slowest passes", text, tuple(rows), (0,))


def _memory(found: Findings) -> Section:
    """Return the bytes by kind of allocation, and the largest arrays alive at the peak."""
    memory = found.memory
    assert memory is not None
    kinds = ", ".join(f"{kind} {size_text(n)}" for kind, n in memory.by_kind.items() if n)
    text = f"{size_text(memory.total_bytes)}: {kinds}"
    if memory.peak_bytes is not None:
        text += f"; at the peak {size_text(memory.peak_bytes)} are alive"
        if memory.peak_bytes > memory.total_bytes:
            text += ", arrays that share memory counted each"
    rows = [
        (
            size_text(row.value.size_bytes),
            row.value.name + row.value.index,
            row.shape,
            row.opcode,
            row.source,
        )
        for row in found.peak
    ]
    return Section("memory", text, tuple(rows), (0,))


def _contents(found: Findings) -> Iterator[Section]:
    """Yield the sections on what the module contains, those that found nothing left out."""
    if found.inserted:
        yield _inserted(found.inserted)
    if found.unfused:
        yield _unfused(found.unfused)
    yield from _constants(found)
    before, after = found.loops
    if before is not None and after is not None and before > after:
        text = f"{plural(before, 'loop')} before, {after} after: unrolled or removed"
        yield Section("loops", text)
    if found.unrolled:
        rows = [_unrolled_row(row) for row in found.unrolled]
        yield Section("unrolled", "lines that made many equal instructions", tuple(rows), (0,))
    if found.collectives:
        total = size_text(sum(row.size_bytes for row in found.collectives))
        text = f"{plural(len(found.collectives), 'exchange')}, operands of {total} on each device"
        rows = [_collective_row(row) for row in found.collectives]
        yield Section("collectives", text, tuple(rows), (0,))
    if found.custom_calls:
        rows = [(f"{count:,}", name) for name, count in found.custom_calls.items()]
        text = plural(sum(found.custom_calls.values()), "call")
        yield Section("custom calls", text, tuple(rows), (0,))


def _inserted(rows: Sequence[Inserted]) -> Section:
    kernels = {row.kernel: row.kernel_bytes for row in rows if row.alone}
    text = f"{_opcode_counts(rows)} that the program does not have; "
    if kernels:
        size = size_text(sum(kernels.values()))
        do = "does" if len(kernels) == 1 else "do"
        text += f"{plural(len(kernels), 'kernel')} {do} nothing else, writing {size}"
    else:
        text += "all in kernels that are there anyway"
    return Section("inserted", text, tuple(map(_inserted_row, rows)), (0,))


def _opcode_counts(rows: Sequence[Inserted]) -> str:
    names = [row.opcode for row in rows]
    return ", ".join(plural(names.count(name), name) for name in dict.fromkeys(names))


def _inserted_row(row: Inserted) -> tuple[str, ...]:
    where = row.name if row.kernel == row.name else f"{row.name} in {row.kernel}"
    asked = f"for {', '.join(row.asked_by)}" if row.asked_by else "for the result"
    by = f"by {row.by}" if row.by else ""
    return size_text(row.size_bytes), where, row.why, asked, by, row.source


def _unfused(rows: Sequence[Unfused]) -> Section:
    total = size_text(sum(row.traffic_bytes for row in rows))
    text = f"{plural(len(rows), 'array')}, {total} written and read again"
    fusible = sum(row.fusible for row in rows)
    if fusible:
        text += f"; hloc's rules would avoid {fusible}"
    return Section("not fused", text, tuple(map(_unfused_row, rows)), (0,))


def _unfused_row(row: Unfused) -> tuple[str, ...]:
    readers = ", ".join(row.readers[:_SHORTEST_LIST])
    if len(row.readers) > _SHORTEST_LIST:
        readers += f" and {len(row.readers) - _SHORTEST_LIST} more"
    return size_text(row.traffic_bytes), row.shape, f"{row.name} -> {readers}", row.why, row.source


def _constants(found: Findings) -> Iterator[Section]:
    if found.large_constants:
        known = zip(found.constants, ("before", "after"), strict=True)
        text = ", ".join(f"{size_text(size)} {when}" for size, when in known if size is not None)
        yield Section("constants", text, tuple(map(_constant_row, found.large_constants)), (0,))


def _constant_row(row: Constant) -> tuple[str, ...]:
    return (
        size_text(row.size_bytes),
        row.name,
        row.shape,
        f"for {', '.join(row.readers)}",
        row.source,
    )


def _unrolled_row(row: Unrolled) -> tuple[str, ...]:
    return f"{row.count:,}", f"{row.opcode} of {row.shape}", row.source


def _collective_row(row: Collective) -> tuple[str, ...]:
    among = f"among {row.members:,} devices"
    needed = f"needed by {row.needed_by}"
    return size_text(row.size_bytes), row.opcode, row.name, among, needed, row.source
