"""Provenance of an instruction: the chain of events that led to it, read from the change logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from hloc.analysis.diff.module_lines import line_of
from hloc.errors import HloError
from hloc.ir.computation import Computation
from hloc.ir.events import Created, Event, Modified, OperandReplaced, Removed, Replaced
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of
from hloc.ir.traversal import all_instructions
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes

_SHOWN = 100


class State(Protocol):
    """A module between two passes, and the events that led to it."""

    @property
    def label(self) -> str: ...
    @property
    def module(self) -> Module: ...
    @property
    def events(self) -> Sequence[Event]: ...


@dataclass(frozen=True, slots=True)
class Cause:
    """One event of the chain: in which state, what happened, which pass and rule did it."""

    state: str
    text: str
    by: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instruction came from.

    Attributes:
        name: as asked.
        line: the instruction now, or its last line.
        is_live: True if it is in the current state.
        source: `model.py:57`, from the metadata, "" if there is none.
        text_line: line of the HLO text that defined it, 0 if a pass created it.
        causes: from the loaded module to the current state.
    """

    name: str
    line: str
    is_live: bool
    source: str
    text_line: int
    causes: tuple[Cause, ...]


def trace(states: Sequence[State], name: str) -> Origin:
    """Return the history of the instruction called `name` along `states`, oldest first.

    Raises:
        HloError: no state has an instruction of that name.
    """
    inst = _latest(states, name)
    live = any(inst.uid == other.uid for other in all_instructions(states[-1].module))
    followed = {inst.uid}
    found: list[Cause] = []
    for state in reversed(states):
        for event in reversed(state.events):
            text = _about(event, followed)
            if text:
                found.append(Cause(state.label, text, event.by))
    place = inst.span.source.line_column(inst.span.start)[0] if inst.span else 0
    causes = tuple(reversed(found[:_SHOWN]))
    return Origin(name, line_of(inst).text(), live, origin_of(inst), place, causes)


def _latest(states: Sequence[State], name: str) -> Instruction:
    for state in reversed(states):
        for inst in all_instructions(state.module):
            if inst.name == name:
                return inst
    names = [inst.name for state in states for inst in all_instructions(state.module)]
    raise HloError(f"no instruction is or was named {name!r}", notes=near_name_notes(name, names))


def _about(event: Event, followed: set[int]) -> str:
    """Return what `event` did to the followed instructions; follow what they replaced."""
    if isinstance(event, Replaced):
        if event.new.uid in followed:
            followed.add(event.old.uid)
            return f"{event.new.name} took the place of {event.old.name}"
        if event.old.uid in followed:
            return f"{event.old.name} was replaced by {event.new.name}"
    elif isinstance(event, Created) and event.inst.uid in followed:
        return f"{event.inst.name} was made"
    elif isinstance(event, Removed) and event.inst.uid in followed:
        return f"{event.inst.name} was removed"
    elif isinstance(event, OperandReplaced) and event.user.uid in followed:
        changes = [f"{place}: {event.old.name} → {event.new.name}" for place in event.places]
        return f"{event.user.name}: operands {', '.join(changes)}"
    elif isinstance(event, Modified) and event.target.uid in followed:
        return f"{event.target.name}: {_change(event)}"
    return ""


def _change(event: Modified) -> str:
    if event.field == "operands":
        changes = ", ".join(_operand_changes(event.before, event.after))
        return f"operands {changes}" if changes else "operands changed"
    return f"{event.field} {_short(event.before)} → {_short(event.after)}"


def _operand_changes(before: Sequence[Instruction], after: Sequence[Instruction]) -> Iterator[str]:
    for number, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new:
            yield f"{number}: {old.name} → {new.name}"


def _short(value: Any) -> str:
    if isinstance(value, Instruction | Computation):
        return value.name
    if isinstance(value, tuple):
        return ", ".join(_short(part) for part in value)
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
