"""Breakpoints: where a walk through passes stops.

`pass` stops before a pass runs, `verify` after one that leaves a wrong module; the others
stop inside a pass, right after the rewrite that matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from hloc.errors import HloError
from hloc.ir.events import Created, Event, Modified, OperandReplaced, Removed, Replaced
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes
from hloc.ops import OPCODES
from hloc.opt.registry import all_rules, canonical_name
from repl.expressions import Condition, condition

KINDS = {
    "pass": "before the pass runs",
    "rule": "after the rule has fired",
    "op": "after a rewrite that makes, changes or removes an instruction of the opcode",
    "instruction": "after a rewrite that changes or removes the instruction",
    "if": "after a rewrite that makes the condition true",
    "verify": "after a pass that leaves the module wrong",
}


@dataclass(slots=True, eq=False)
class Breakpoint:
    """One breakpoint; `hits` counts how often it has stopped a pass."""

    number: int
    kind: str
    text: str
    holds: Condition | None = None
    hits: int = 0
    was_true: bool = False

    def __str__(self) -> str:
        return f"{self.number}  {self.kind} {self.text}".rstrip()


@dataclass(slots=True)
class Breakpoints:
    """The breakpoints of a session, numbered from 1 and never renumbered."""

    rows: list[Breakpoint] = field(default_factory=list)
    _last: int = 0

    def add(self, kind: str, text: str) -> Breakpoint:
        """Set a breakpoint.

        Raises:
            HloError: there is nothing of that name, or the condition cannot be read.
        """
        holds = None
        if kind == "pass":
            text = canonical_name(text)
        elif kind == "rule":
            text = text.rpartition("/")[2]
            _check_known("rule", text, [rule.name for rule in all_rules()])
        elif kind == "op":
            _check_known("opcode", text, OPCODES)
        elif kind == "if":
            text = text.strip("\"'")
            holds = condition(text)
        self._last += 1
        self.rows.append(Breakpoint(self._last, kind, text, holds))
        return self.rows[-1]

    def delete(self, number: int | None) -> None:
        """Delete breakpoint `number`, None for all.

        Raises:
            HloError: there is no such breakpoint.
        """
        kept = [row for row in self.rows if number is not None and row.number != number]
        if number is not None and len(kept) == len(self.rows):
            raise HloError(f"there is no breakpoint {number}", notes=("see: info break",))
        self.rows = kept

    def before_pass(self, name: str) -> Breakpoint | None:
        """Return the breakpoint that stops before the pass `name`."""
        return _hit(row for row in self.rows if row.kind == "pass" and row.text == name)

    def after_fault(self) -> Breakpoint | None:
        """Return the breakpoint that stops when a pass has left the module wrong."""
        return _hit(row for row in self.rows if row.kind == "verify")

    @property
    def look_inside(self) -> bool:
        """True if a breakpoint may stop inside a pass."""
        return any(row.kind in ("rule", "op", "instruction", "if") for row in self.rows)

    def begin_pass(self, module: Module) -> None:
        """Record which conditions hold: breakpoints stop when one becomes true."""
        for row in self.rows:
            row.was_true = row.holds is not None and bool(row.holds(module, 0))

    def after_rewrite(
        self, module: Module, rewrites: int, by: str, events: Iterable[Event]
    ) -> Breakpoint | None:
        """Return the breakpoint that stops after this rewrite."""
        touched = dict.fromkeys(inst for event in events for inst in _touched(event))
        tests: dict[str, Callable[[Breakpoint], bool]] = {
            "rule": lambda row: by.rpartition("/")[2] == row.text,
            "op": lambda row: any(inst.opcode.name == row.text for inst in touched),
            "instruction": lambda row: any(inst.name == row.text for inst in touched),
            "if": lambda row: _became_true(row, module, rewrites),
        }
        return _hit(row for row in self.rows if row.kind in tests and tests[row.kind](row))


def _hit(rows: Iterable[Breakpoint]) -> Breakpoint | None:
    found = next(iter(rows), None)
    if found is not None:
        found.hits += 1
    return found


def _became_true(row: Breakpoint, module: Module, rewrites: int) -> bool:
    assert row.holds is not None
    before, row.was_true = row.was_true, bool(row.holds(module, rewrites))
    return row.was_true and not before


def _touched(event: Event) -> Iterable[Instruction]:
    if isinstance(event, Created | Removed):
        return (event.inst,)
    if isinstance(event, Replaced):
        return (event.old,)
    if isinstance(event, OperandReplaced):
        return (event.user,)
    if isinstance(event, Modified) and isinstance(event.target, Instruction):
        return (event.target,)
    return ()


def _check_known(what: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        raise HloError(f"there is no {what} {name!r}", notes=near_name_notes(name, names))
