"""A chart of the live ranges of the arena: time from left to right, offsets from bottom to top.

A self-contained SVG without scripts, deterministic, readable on light and dark backgrounds. A
rectangle is a buffer while it is in use; its tooltip names the instruction that defines it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape

from hloc.errors import printable_lines
from hloc.ir.module import Module
from hloc.memory.assigned_buffers import Buffer, BufferAssignment
from hloc.memory.usage import arena_peak, in_arena, running_at
from hloc.pictures.colours import kind_of
from hloc.pictures.style import chart, kind_style, label, legend, line, ticks
from hloc.quantities import size_text
from hloc.report.memory_report import source_of
from hloc.report.text import plural

_WIDTH, _HEIGHT = 1000.0, 540.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 90.0, 78.0, 24.0, 72.0
_MOST_RECTANGLES = 20_000

_STYLE = """  rect.b { stroke-width: 0.7; fill-opacity: 0.9; }
  rect.b:hover { fill-opacity: 1; stroke-width: 2; }
  .name { font-size: 11px; pointer-events: none; }
""" + kind_style("rect")


def memory_chart(module: Module, assignment: BufferAssignment) -> str:
    """Return the chart of the arena of a compiled module."""
    # XML forbids control characters even in escaped form: `printable_lines` replaces them.
    title = printable_lines(f"{module.name}: arena {size_text(assignment.arena_bytes)}")
    buffers = in_arena(assignment)
    size = _WIDTH, _HEIGHT
    if not assignment.arena_bytes:
        words = "no temporaries: parameters, constants and results lie outside of the arena"
        return chart(title, words, (_WIDTH, 60.0), _LEFT, _STYLE, ())
    steps = max(assignment.timeline.finish.values()) + 1
    scale = _Scale(steps, assignment.arena_bytes)
    words = f"{plural(len(buffers), 'buffer')} of temporaries, each while it is in use"
    if sum(len(buffer.busy) for buffer in buffers) > _MOST_RECTANGLES:
        words += f"; the first {_MOST_RECTANGLES:,} live ranges"
    kinds = (kind_of(buffer.inst.opcode.name) for buffer in buffers)
    marks = (
        *_grid(scale),
        *_rectangles(buffers, scale),
        *_peak(assignment, scale),
        *legend(kinds, _LEFT, _HEIGHT - 14),
    )
    return chart(title, words, size, _LEFT, _STYLE, marks)


class _Scale:
    """Maps steps and bytes to coordinates of the drawing."""

    def __init__(self, steps: int, size_bytes: int) -> None:
        self.steps, self.size_bytes = steps, size_bytes
        self.per_step = (_WIDTH - _LEFT - _RIGHT) / steps
        self.per_byte = (_HEIGHT - _TOP - _BOTTOM) / size_bytes

    def x(self, step: int) -> float:
        return _LEFT + step * self.per_step

    def y(self, offset: int) -> float:
        return _HEIGHT - _BOTTOM - offset * self.per_byte


def _grid(scale: _Scale) -> Iterator[str]:
    left, right, bottom = scale.x(0), scale.x(scale.steps), scale.y(0)
    for offset in ticks(scale.size_bytes, base=1024):
        y = scale.y(offset)
        yield line("grid", left, y, right, y)
        yield label(left - 6, y + 4, size_text(offset), "end")
    for step in ticks(scale.steps, 10):
        yield label(scale.x(step), bottom + 16, f"{step:,}", "middle")
    yield label(left - 6, _TOP - 12, "offset", "end", "soft")
    yield line("axis", left, bottom, right, bottom)
    yield label((left + right) / 2, bottom + 36, "steps of the schedule", "middle")


def _rectangles(buffers: Iterable[Buffer], scale: _Scale) -> Iterator[str]:
    drawn = 0
    for buffer in buffers:
        title = f"<title>{escape(_title(buffer))}</title>"
        kind = kind_of(buffer.inst.opcode.name)
        for first, last in buffer.busy:
            drawn += 1
            if drawn > _MOST_RECTANGLES:
                return
            top = scale.y(buffer.place.offset + buffer.place.size_bytes)
            yield (
                f'<rect class="b {kind}" x="{scale.x(first):.2f}" y="{top:.2f}" '
                f'width="{max((last - first + 1) * scale.per_step, 0.5):.2f}" '
                f'height="{max(buffer.place.size_bytes * scale.per_byte, 0.5):.2f}"'
                f">{title}</rect>"
            )
        yield from _name(buffer, kind, scale)


def _name(buffer: Buffer, kind: str, scale: _Scale) -> Iterator[str]:
    """Yield the name of the instruction that defines a buffer, if there is room for it."""
    (first, last), place = buffer.busy[0], buffer.place
    width = (last - first + 1) * scale.per_step
    height = place.size_bytes * scale.per_byte
    name = printable_lines(buffer.inst.name)
    room = len(name) * 6.4 + 6
    x, y = scale.x(first) + width / 2, scale.y(place.offset) - height / 2
    if room <= width and height >= 14:
        yield label(x, y + 4, name, "middle", f"name {kind}")
    elif room <= height and width >= 14:
        upright = f'transform="rotate(-90 {x:.1f} {y:.1f})"'
        yield f"<g {upright}>{label(x, y + 4, name, 'middle', f'name {kind}')}</g>"


def _title(buffer: Buffer) -> str:
    names = [f"{value!r} {value.shape}" for value in buffer.values[:4]]
    if len(buffer.values) > 4:
        names.append(f"and {len(buffer.values) - 4} more")
    if not names:
        names = [f"working memory of {buffer.inst.name}"]
    first, last = buffer.busy[0][0], buffer.busy[-1][1]
    place = buffer.place
    where = f"{place.size_bytes:,} bytes at offset {place.offset:,}, steps {first} to {last}"
    return printable_lines("\n".join([*names, where + source_of(buffer.inst)]))


def _peak(assignment: BufferAssignment, scale: _Scale) -> Iterator[str]:
    peak = arena_peak(assignment)
    if peak is None:
        return
    x = scale.x(peak.time) + scale.per_step / 2
    inst = running_at(assignment, peak.time)
    text = printable_lines(f"peak {size_text(peak.size_bytes)} at {inst.name}")
    anchor = "end" if x > _WIDTH / 2 else "start"
    shift = -5 if anchor == "end" else 5
    yield line("peak", x, _TOP, x, scale.y(0))
    yield label(x + shift, _TOP - 4, text, anchor)
