"""The memory of a compilation, from the reports that XLA writes next to the last module.

`*-buffer-assignment.txt` lists every allocation with its values, `*-live-range.txt` the values
at the peak, and `*-memory-usage-report.txt` the sum.
"""

from __future__ import annotations

import re

from hloc.lazy_dataclass import dataclass

_ALLOCATION = re.compile(r"^allocation (?P<number>\d+): size (?P<size>\d+)(?P<rest>.*?):?$")
_VALUE = re.compile(
    r"^ value: <\d+ (?P<name>[^ @{]+)(?P<index>\{[\d,]*\})?.*? @\d+> "
    r"\(size=(?P<size>\d+),offset=(?P<offset>\d+)\): (?P<shape>.+)$"
)
_TOTAL = re.compile(r"^Total bytes(?: used)?: (\d+)", re.MULTILINE)
_PEAK = re.compile(r"^ *Live ranges at (\d+) \(peak\):$", re.MULTILINE)
_LIVE = re.compile(r"^ *(?P<name>[^\s{]+)(?P<index>\{[\d,]*\}): (?P<size>\d+) bytes")

KINDS = ("parameters", "outputs", "temporary", "constants", "other")


@dataclass(frozen=True, slots=True)
class BufferValue:
    """An array in memory: element `index` of the result of instruction `name`."""

    name: str
    index: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one compilation.

    Attributes:
        total_bytes: total size of all allocations.
        by_kind: bytes by kind, one of `KINDS`.
        at_peak: the values that are live at the peak, largest first; all values if no report
            lists them.
        peak_bytes: their size; None if no report has it.
    """

    total_bytes: int
    by_kind: dict[str, int]
    at_peak: tuple[BufferValue, ...]
    peak_bytes: int | None


def memory_of(assignment: str, usage: str = "", live: str = "") -> Memory | None:
    """Return the contents of the reports; None if they have none.

    Args:
        assignment: `*-buffer-assignment.txt`.
        usage: `*-memory-usage-report.txt`, "" if there is none.
        live: `*-live-range.txt`, "" if there is none.
    """
    by_kind = dict.fromkeys(KINDS, 0)
    allocations: list[tuple[int, list[BufferValue]]] = []
    for line in assignment.splitlines():
        head = _ALLOCATION.match(line)
        if head is not None:
            size = int(head["size"])
            by_kind[_kind(head["rest"])] += size
            allocations.append((size, []))
            continue
        value = _VALUE.match(line)
        if value is not None and allocations:
            found = BufferValue(value["name"], value["index"] or "", int(value["size"]))
            allocations[-1][1].append(found)
    total = _TOTAL.search(usage) or _TOTAL.search(assignment)
    if total is None and not allocations:
        return None
    total_bytes = int(total[1]) if total else sum(size for size, _ in allocations)
    peak = _live_at_peak(live)
    everything = peak or tuple(value for _, values in allocations for value in values)
    ordered = tuple(sorted(everything, key=lambda value: -value.size_bytes))
    peak_bytes = sum(value.size_bytes for value in peak) if peak else None
    return Memory(total_bytes, by_kind, ordered, peak_bytes)


def _live_at_peak(text: str) -> tuple[BufferValue, ...]:
    head = _PEAK.search(text)
    if head is None:
        return ()
    found = []
    for line in text[head.end() + 1 :].splitlines():
        value = _LIVE.match(line)
        if value is None:
            break
        index = "" if value["index"] == "{}" else value["index"]
        found.append(BufferValue(value["name"], index, int(value["size"])))
    return tuple(found)


def _kind(rest: str) -> str:
    """Return the kind of an allocation; a parameter that is an output too counts as a parameter."""
    if ", parameter " in rest:
        return "parameters"
    if ", constant" in rest:
        return "constants"
    if "maybe-live-out" in rest:
        return "outputs"
    return "temporary" if "preallocated-temp" in rest else "other"
