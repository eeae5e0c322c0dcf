"""Description of one rewrite: the removed and the added instructions, from the change log."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.diff.module_lines import line_of, shape_text
from hloc.ir.computation import Computation
from hloc.ir.events import ComputationRemoved, Created, Event, Modified, Removed, Replaced
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_MOST_LINES = 6


@dataclass(frozen=True, slots=True)
class RewriteText:
    """What one rewrite did.

    Attributes:
        at: name of the instruction that it matched, "" if it touched none.
        before: lines of instructions that were removed or replaced.
        after: lines of their replacements, operands first.
    """

    at: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def describe_rewrite(events: Sequence[Event]) -> RewriteText:
    """Return what `events`, those of one rewrite, did; long lists of lines are cut."""
    replaced = [event for event in events if isinstance(event, Replaced)]
    gone = [event.old for event in replaced]
    gone += [event.inst for event in events if isinstance(event, Removed)]
    come = [event.inst for event in events if isinstance(event, Created)]
    come += [event.new for event in replaced]
    gone, come = list(dict.fromkeys(gone)), list(dict.fromkeys(come))
    before = [line_of(inst).text() for inst in gone if inst not in come]
    after = [line_of(inst).text() for inst in come if inst in inst.computation]
    if not replaced:
        changed = _modified(events, {*gone, *come})
        before += [_old_text(inst, event) for inst, event in changed.items()]
        after += [line_of(inst).text() for inst in changed]
        gone += changed
    before += [
        f"computation {event.computation.name} ({len(event.computation)} instructions)"
        for event in events
        if isinstance(event, ComputationRemoved)
    ]
    touched = [*gone, *come]
    return RewriteText(touched[0].name if touched else "", _cut(before), _cut(after))


def _modified(events: Sequence[Event], known: set[Instruction]) -> dict[Instruction, Modified]:
    """Return the first change of each instruction that is not among `known`."""
    found: dict[Instruction, Modified] = {}
    for event in events:
        if not isinstance(event, Modified) or isinstance(event.target, Computation):
            continue
        if event.target not in known:
            found.setdefault(event.target, event)
    return found


def _old_text(inst: Instruction, event: Modified) -> str:
    if event.field == "operands":
        return line_of(inst).text([operand.name for operand in event.before])
    if event.field == "shape":
        return line_of(inst).text().replace(shape_text(inst.shape), shape_text(event.before), 1)
    return f"{inst.name} with another {event.field.replace('_', ' ')}"


def _cut(lines: list[str]) -> tuple[str, ...]:
    if len(lines) <= _MOST_LINES:
        return tuple(lines)
    return (*lines[: _MOST_LINES - 1], f"... {len(lines) - _MOST_LINES + 1} more")
