"""`--memory`: the buffers of a compiled module, and which are live at the peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hloc.errors import printable
from hloc.ir.instruction import Instruction
from hloc.memory.assigned_buffers import Buffer, BufferAssignment
from hloc.memory.usage import ArenaPeak, arena_peak, in_arena, span
from hloc.report.text import plural

_MOST_ROWS = 12
_MOST_LETTERS = 60


def memory_lines(assignment: BufferAssignment) -> list[str]:
    """Return the report: allocations, the peak with its live buffers, the largest buffers."""
    return [*_allocations(assignment), *_peak(assignment), *_largest(assignment)]


def memory_data(assignment: BufferAssignment) -> dict[str, Any]:
    """Return the report as JSON, with all buffers of the arena."""
    report, peak = assignment.report, arena_peak(assignment)
    return {
        "parameter_bytes": report.parameter_bytes,
        "output_bytes": report.output_bytes,
        "constant_bytes": report.constant_bytes,
        "arena_bytes": report.arena_bytes,
        "aliased_bytes": report.aliased_bytes,
        "in_place": report.in_place,
        "copies": report.copies,
        "copies_elided": report.copies_elided,
        "peak": None if peak is None else _peak_data(peak),
        "buffers": [_buffer_data(buffer) for buffer in in_arena(assignment)],
    }


def _peak_data(peak: ArenaPeak) -> dict[str, Any]:
    live = [_buffer_data(buffer) for buffer in peak.buffers]
    return {"bytes": peak.size_bytes, "step": peak.time, "at": peak.inst.name, "live": live}


def _buffer_data(buffer: Buffer) -> dict[str, Any]:
    first, last = span(buffer)
    place = {"bytes": buffer.place.size_bytes, "offset": buffer.place.offset}
    return {**place, "steps": [first, last], "instruction": buffer.inst.name}


def _allocations(assignment: BufferAssignment) -> Iterator[str]:
    """Yield the bytes and the number of arrays of each kind of allocation."""
    report = assignment.report
    guests = sum(buffer.is_guest for buffer in assignment.buffers)
    inside = f", before that {plural(guests, 'buffer')} of temporaries" if guests else ""
    rows = (
        ("parameters", report.parameter_bytes, plural(len(assignment.parameters), "array")),
        ("outputs", report.output_bytes, plural(len(assignment.outputs), "array") + inside),
        *_aliased(assignment),
        ("constants", report.constant_bytes, plural(len(assignment.constants), "array")),
        ("arena", report.arena_bytes, plural(len(in_arena(assignment)), "buffer")),
    )
    yield "memory               bytes"
    for name, size, note in rows:
        yield f"  {name:12s} {size:>13,}  {note}"
    yield (
        f"  {plural(report.in_place, 'result')} in place, "
        f"{report.copies_elided} of {report.copies} copies elided"
    )


def _aliased(assignment: BufferAssignment) -> Iterator[tuple[str, int, str]]:
    """Yield a row for outputs that may alias parameters, if the module has any."""
    if not assignment.aliases:
        return
    shared = [alias for alias in assignment.aliases if alias.is_shared]
    note = f"{plural(len(shared), 'output')} in the memory of parameters that are given away"
    for how, words in (("copied", "copied there after the run"), ("apart", "not shared")):
        count = sum(alias.how == how for alias in assignment.aliases)
        if count:
            note += f", {count} {words}: the parameter is read when the output exists"
    yield "aliased", assignment.report.aliased_bytes, note


def _peak(assignment: BufferAssignment) -> Iterator[str]:
    peak = arena_peak(assignment)
    if peak is None:
        return
    lost = assignment.arena_bytes - peak.size_bytes
    share = 100 * lost / assignment.arena_bytes
    yield (
        f"peak {peak.size_bytes:,} bytes of the arena, {lost:,} bytes ({share:.1f} %) in gaps; "
        f"at step {peak.time} of {len(assignment.timeline.order):,}: {_named(peak.inst)}"
    )
    yield from _table(peak.buffers)


def _largest(assignment: BufferAssignment) -> Iterator[str]:
    buffers = sorted(in_arena(assignment), key=lambda b: -b.place.size_bytes)
    if buffers:
        yield "largest buffers of the arena"
        yield from _table(buffers)


def _table(buffers: Sequence[Buffer]) -> Iterator[str]:
    yield f"  {'bytes':>13s} {'offset':>13s} {'steps':>13s}  made by"
    for buffer in buffers[:_MOST_ROWS]:
        first, last = span(buffer)
        others = f" and {len(buffer.values) - 1} more" if len(buffer.values) > 1 else ""
        what = _named(buffer.inst) if buffer.values else f"working memory of {buffer.inst.name}"
        place = buffer.place
        yield (
            f"  {place.size_bytes:>13,} {place.offset:>13,} {f'{first}..{last}':>13s}  "
            f"{what}{others}"
        )
    left = buffers[_MOST_ROWS:]
    if left:
        size = sum(buffer.place.size_bytes for buffer in left)
        yield f"  {size:>13,} in {plural(len(left), 'more buffer')}"


def _named(inst: Instruction) -> str:
    """Return `dot.3 dot (jit(f)/dot_general)`."""
    return f"{inst.name} {inst.opcode.name}{source_of(inst)}"


def source_of(inst: Instruction) -> str:
    """Return the user's name of what made `inst`, in parentheses; "" if it is not known."""
    if not inst.op_name:
        return ""
    text = printable(inst.op_name)
    return f" ({text if len(text) <= _MOST_LETTERS else '...' + text[3 - _MOST_LETTERS :]})"
