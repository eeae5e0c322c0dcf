"""Memory usage of a buffer assignment: the peak, what is live then, and all buffers."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.allocation import ARENA
from hloc.memory.assigned_buffers import Buffer, BufferAssignment


@dataclass(frozen=True, slots=True)
class ArenaPeak:
    """The peak of the arena.

    Attributes:
        time: event of the timeline.
        inst: the instruction that runs then.
        buffers: the live buffers, largest first.
    """

    time: int
    inst: Instruction
    size_bytes: int
    buffers: tuple[Buffer, ...]


def in_arena(assignment: BufferAssignment) -> tuple[Buffer, ...]:
    """Return the buffers that lie in the arena, in the order of first use."""
    return tuple(b for b in assignment.buffers if b.place.kind == ARENA)


def arena_peak(assignment: BufferAssignment) -> ArenaPeak | None:
    """Return the first peak of the arena, None if it is unused."""
    buffers = in_arena(assignment)
    if not buffers:
        return None
    changes: dict[int, int] = {}
    for buffer in buffers:
        first, last = span(buffer)
        changes[first] = changes.get(first, 0) + buffer.place.size_bytes
        changes[last + 1] = changes.get(last + 1, 0) - buffer.place.size_bytes
    alive, best, worst = 0, -1, 0
    for time in sorted(changes):
        alive += changes[time]
        if alive > best:
            best, worst = alive, time
    found = [b for b in buffers if span(b)[0] <= worst <= span(b)[1]]
    found.sort(key=lambda b: -b.place.size_bytes)
    return ArenaPeak(worst, running_at(assignment, worst), best, tuple(found))


def span(buffer: Buffer) -> tuple[int, int]:
    """Return the first and last event at which `buffer` is in use."""
    return buffer.busy[0][0], max(last for _, last in buffer.busy)


def running_at(assignment: BufferAssignment, time: int) -> Instruction:
    """Return the instruction that runs at `time`: the last one started."""
    start = assignment.timeline.start
    found = assignment.timeline.order[0]
    for inst in assignment.timeline.order:
        if start[inst] > time:
            break
        found = inst
    return found


def buffers_text(assignment: BufferAssignment) -> str:
    """Return one line of totals, then a line per buffer: place, size, time, values."""
    lines = [str(assignment.report)]
    for buffer in assignment.buffers:
        place = buffer.place
        number = "" if place.kind == ARENA else f" {place.number}"
        times = ", ".join(f"{first}..{last}" for first, last in buffer.busy)
        what = ", ".join(map(repr, buffer.values)) or f"working memory of {buffer.inst.name}"
        where = f"{place.kind}{number} + {place.offset}"
        lines.append(f"{where}: {place.size_bytes} bytes, at {times}: {what}")
    return "\n".join(lines) + "\n"
